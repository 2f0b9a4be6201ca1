"""Every reader of files on damaged and foreign bytes: it reads, or says in words why not.

A file is damaged by bytes that change, vanish, are doubled or cut off, and by numbers that grow
huge. Nothing but InputError may come out (stores of finished work: nothing at all, the work is done
again), and no file may make a reader allocate or run for long.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.base import Calibration, save_calibration
from costmodel.base.calibration import load_calibration
from costmodel.dataset import FABRIC_TABLES, Dataset, make_splits, merge, pack_shard, read_splits, write_splits
from costmodel.dataset.splits import SPLITS_FILE
from costmodel.dataset.store import finished_shards, put_shard, shard_bytes
from costmodel.evaluation.comparison.methods import Placed
from costmodel.evaluation.jobs import Outcome
from costmodel.model import Model
from costmodel.wafer import WAFER_TABLES, WaferDataset
from costmodel.wafer.compare_jobs import Job, Result
from costmodel.wafer.rows import rows_of
from costmodel.wafer.samples import Found, GraphSamples
from placer.base import InputError, read_archive
from placer.base.config import compose_config
from placer.base.tracking.mlflow_run import _read_note
from placer.base.workers import jobs
from placer.decision import load_constraints, random_sites
from placer.decision.routing import load_decision, route, save_decision
from placer.fabric import load_fabric
from placer.graph import load_graph
from placer.graph.graph_file import to_json
from placer.graph.importing.onnx_file import read_model
from placer.graph.workloads import build
from placer.graph.workloads.specs import MlpSpec
from placer.kernels.engines import Search, map_kernels
from placer.kernels.model import Part, format_kgraph, format_layout, from_json, generate, load_kgraph, parse_layout
from placer.kernels.model import to_json as layout_json
from placer.kernels.sizing import Problem
from placer.kernels.truth import simulate_mapping
from placer.silicon import random_trace, read_trace
from placer.stencil.model import INPUTS, problem_text, read_problem, read_solution, read_surface
from placer.streaming.model import load_program
from placer.streaming.rl import TRAINED_POLICY, load_policy
from tests import ROOT
from tests.costmodel.dataset.samples import METADATA, random_samples, write_dataset
from tests.costmodel.dataset.test_store import shard_path
from tests.costmodel.inference.test_learned import model_for
from tests.damage import KINDS, NUMBERS, Damage
from tests.placer.graph.importing.test_from_onnx import GOOD

SMALL = load_fabric("small")
WORMHOLE = load_fabric("wormhole")
NETLIST = random_samples(0).netlist
KERNELS = generate("tiny")
OBJ = b"v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1/1 4/2 3/3\nf -1 -2 -3\n"
STL = b"solid t\n" + b"facet\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\n" + b"endsolid t\n"
SOLUTION = b"10\n0 0 0 1 1\ncompute_map:\n0 0\nadapter_map:\n"


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads the file `name` of a folder, after `prepare` has written it, whole, to the folder."""

    name: str
    prepare: Callable[[Path], None]
    read: Callable[[Path], Any]  # of the folder
    is_store: bool = False  # damaged: as if it were not there


def at(name: str, content: bytes | str) -> Callable[[Path], None]:
    data = content.encode() if isinstance(content, str) else content
    return lambda folder: (folder / name).write_bytes(data) and None


def of(name: str, content: bytes | str, read: Callable[[Path], Any]) -> Reader:
    """A reader of a single file."""
    return Reader(name, at(name, content), lambda folder: read(folder / name))


def save_samples(folder: Path) -> None:
    dataset = write_dataset(folder, [random_samples(i, seed=i) for i in range(4)])
    write_splits(folder, make_splits(dataset, num_folds=2))


def save_small_decision(folder: Path) -> None:
    decision = route(SMALL, NETLIST, random_sites(SMALL, NETLIST, 1, seed=0))
    save_decision(folder / "d.json", SMALL, NETLIST, decision)


def layout_texts() -> tuple[str, str]:
    mapping = map_kernels(Search(Problem(KERNELS), 0.1), "strips")
    parts = [Part(0, KERNELS, mapping, Fraction(1))]
    return format_layout(KERNELS, mapping.layout), layout_json(parts, {})


LAYOUT, LAYOUT_JSON = layout_texts()


def read_rows(folder: Path) -> None:
    dataset = Dataset.open(folder)
    for number in range(dataset.num_netlists):
        dataset.samples(number)


def save_mappings(folder: Path) -> None:
    mapping = map_kernels(Search(Problem(KERNELS), 0.1), "strips")
    found = (Found("strips", {}, mapping.layout),) * 2
    measured = (simulate_mapping(Problem(KERNELS), mapping.layout),) * 2
    for number in range(2):
        samples = GraphSamples(number, (0,), {"family": "plain"}, KERNELS, found, measured, ())
        put_shard(folder, number, pack_shard([rows_of(samples)], METADATA, WAFER_TABLES))
    merge(folder, 2, METADATA, WAFER_TABLES)


def read_mappings(folder: Path) -> None:
    dataset = WaferDataset.open(folder)
    _ = dataset.numbers, dataset.index
    for number in range(dataset.num_netlists):
        dataset.mappings(number)


COMPARED = Job(KERNELS, "resnet", "contest", Path("none.pt"), 1.0, 0)
LAYOUT_RESULT = Result(0.5, 9.0, 8.0, 1.5, 7.0, 3, 2.0, 1.0, 0.4, "kernels", 80.0, [[1, 2]])


def read_compared(folder: Path) -> None:
    path, origin = folder / "job.json", COMPARED.origin()
    found = jobs._read(path, origin, lambda values: Result(**values))
    assert found in (None, LAYOUT_RESULT)


def finished(name: str, result: Any) -> Reader:
    """A reader of a finished job."""
    return Reader(
        name,
        lambda folder: jobs._write(folder / name, {"a": 1}, result),
        lambda folder: jobs._read(folder / name, {"a": 1}, lambda values: type(result)(**values)),
        is_store=True,
    )


def read_job(folder: Path) -> None:
    assert jobs._read(folder / "s.json", {"a": 1}, dict) in (None, {"cycles": 3})


CONSTRAINTS = """
schema: 1
fixed: {a: {row: 0, column: 1}}
forbidden: [{row: 2, column: 2}, 70]
"""
CONFIG = "defaults:\n  - _self_\nseed: 0\nlist: [1, 2]\nother: ${seed}\n"

READERS = [
    of("g.json", to_json(build(MlpSpec(rows=16, width=16, depth=2))), load_graph),
    Reader("d.json", save_small_decision, lambda folder: load_decision(folder / "d.json", SMALL, NETLIST)),
    of("t.json", json.dumps(random_trace(WORMHOLE, 0)), lambda path: read_trace(path, WORMHOLE)),
    of("c.yaml", CONSTRAINTS, lambda path: load_constraints(path, SMALL)),
    of("x.yaml", CONFIG, lambda path: compose_config("x", directory=path.parent)),
    of("net.onnx", GOOD, read_model),
    of("k.kgraph", format_kgraph(KERNELS), load_kgraph),
    of("l.txt", LAYOUT, lambda path: parse_layout(KERNELS, path.read_text(errors="replace"))),
    of("l.json", LAYOUT_JSON, lambda path: from_json(KERNELS, path.read_text(errors="replace"))),
    of("p.in", problem_text(INPUTS["simple_2d"]()), read_problem),
    of("p.out", SOLUTION, lambda path: read_solution(path, 2)),
    of("s.obj", OBJ, read_surface),
    of("s.stl", STL, read_surface),
    of("fft.json", (ROOT / "data/inputs/streaming/fft.json").read_bytes(), load_program),
    of("policy.pt", TRAINED_POLICY.read_bytes(), load_policy),
    Reader("m.pt", lambda folder: model_for(SMALL).save(folder / "m.pt"), lambda folder: Model.load(folder / "m.pt")),
    Reader(
        "last.ckpt",
        lambda folder: torch.save({"epoch": 1, "x": torch.zeros(3)}, folder / "last.ckpt"),
        lambda folder: read_archive(folder / "last.ckpt", "remove it"),
    ),
    Reader(
        "c.json",
        lambda folder: save_calibration(
            folder / "c.json", Calibration.fit(np.array([0.1, 0.2, 0.5]), np.array([0.1, 0.3, 0.4]))
        ),
        lambda folder: load_calibration(folder / "c.json"),
    ),
    Reader(FABRIC_TABLES.netlists.file, save_samples, read_rows),
    Reader(FABRIC_TABLES.decisions.file, save_samples, read_rows),
    Reader(SPLITS_FILE, save_samples, read_splits),
    Reader(WAFER_TABLES.netlists.file, save_mappings, read_mappings),
    Reader(WAFER_TABLES.decisions.file, save_mappings, read_mappings),
    Reader(
        "job.json",
        lambda folder: jobs._write(folder / "job.json", COMPARED.origin(), LAYOUT_RESULT),
        read_compared,
        is_store=True,
    ),
    Reader(
        shard_path(Path(), 0).as_posix(),
        lambda folder: put_shard(folder, 0, shard_bytes([random_samples(0)], METADATA)),
        lambda folder: finished_shards(folder, METADATA),
    ),
    finished("j.json", Outcome([0.5], [0.1], 1.0)),
    Reader("s.json", lambda folder: jobs._write(folder / "s.json", {"a": 1}, {"cycles": 3}), read_job, is_store=True),
    finished("r.json", Placed(1.0, 1.0, 1.0, 1.0, 1.0, 1, 0.1)),
    Reader(
        "mlflow.json",
        at("mlflow.json", '{"uri": "u", "run_id": "1"}'),
        lambda folder: _read_note(folder / "mlflow.json"),
        is_store=True,
    ),
]


damages = st.builds(
    Damage,
    st.sampled_from(KINDS),
    st.lists(st.floats(0, 1, exclude_max=True), min_size=2, max_size=5),
    st.binary(min_size=1, max_size=8),
    st.sampled_from(NUMBERS),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, reader: Reader) -> Path:
    """With the whole files of a reader, which reads them."""
    made = tmp_path_factory.mktemp("reader")
    (made / reader.name).parent.mkdir(exist_ok=True)
    reader.prepare(made)
    reader.read(made)
    return made


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:In 'x'")  # Hydra's advice on lists of defaults
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name, scope="module")
@settings(max_examples=25)
@given(damage=damages)
def test_damaged_files_are_read_or_refused_in_words(reader: Reader, folder: Path, damage: Damage) -> None:
    path = folder / reader.name
    whole = path.read_bytes()
    try:
        path.write_bytes(damage.of(whole))
        reader.read(folder)
    except InputError as error:
        assert not reader.is_store
        assert str(error).strip()
    finally:
        path.write_bytes(whole)


class Trap:
    """Unpickled, it leaves a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.path,))


ARCHIVES = [reader for reader in READERS if reader.name.endswith((".pt", ".ckpt"))]


@pytest.mark.parametrize("reader", ARCHIVES, ids=lambda reader: reader.name)
@pytest.mark.parametrize("is_archive", [True, False])
def test_pickles_in_checkpoints_are_not_run(reader: Reader, is_archive: bool, tmp_path: Path) -> None:
    trap = tmp_path / "sprung"
    if is_archive:
        torch.save({"schema": 1, "weights": Trap(trap)}, tmp_path / reader.name)
    else:
        (tmp_path / reader.name).write_bytes(pickle.dumps(Trap(trap)))
    with pytest.raises(InputError):
        reader.read(tmp_path)
    assert not trap.exists()


def test_programs_of_pytorch_are_read_only_when_they_are_trusted(tmp_path: Path) -> None:
    (tmp_path / "evil.pt2").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    with pytest.raises(InputError, match=r"can run code that is in it; .* trust_graph=true"):
        load_program(tmp_path / "evil.pt2")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:pathlib.Path.touch [sprung]",
        "schema: !!python/name:os.system",
        "schema: 1\nfixed: !!python/object/new:tuple [[a]]",
    ],
)
def test_tags_of_yaml_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(InputError, match="no valid YAML"):
        load_constraints(tmp_path / "c.yaml", SMALL)
    with pytest.raises(InputError):
        compose_config("c", directory=tmp_path)


def test_names_in_files_lead_nowhere(tmp_path: Path) -> None:
    """Names of graphs and fabrics become names of files: only in the folder that was named."""
    from placer.base import file_name

    for name in ("../../etc/passwd", "/etc/passwd", "a\0b", "..", "a/../../b", "C:\\x"):
        written = (tmp_path / f"{file_name(name)}.json").resolve()
        assert written.parent == tmp_path.resolve()
