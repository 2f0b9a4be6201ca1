"""Every reader of files on damaged and foreign bytes: it reads, or says in words why not.

A file is damaged by bytes that change, vanish, are doubled or cut off, and by numbers that grow
huge. Nothing but InputError may come out (stores of finished work: nothing at all, the work is done
again), and no file may make a reader allocate or run for long.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.calibration import Calibration, load_calibration, save_calibration
from costmodel.comparison import run as comparison
from costmodel.dataset.loader import Dataset
from costmodel.dataset.schema import DECISIONS_FILE, NETLISTS_FILE, WAFER_TABLES
from costmodel.dataset.splits import SPLITS_FILE, make_splits, read_splits, write_splits
from costmodel.dataset.store import finished_shards, merge, pack_shard, put_shard, shard_bytes
from costmodel.evaluation.store import Outcome, read_outcome, write_outcome
from costmodel.labelled import Prediction
from costmodel.model import Model
from costmodel.tracking import _read_note
from costmodel.wafer.compare_jobs import Job, Result, job_file, read_result, write_result
from costmodel.wafer.dataset import WaferDataset
from costmodel.wafer.rows import rows_of
from costmodel.wafer.samples import Found, GraphSamples
from placer.annealing.constraints import load_constraints
from placer.config import compose_config, load_fabric
from placer.decision_file import load_decision, save_decision
from placer.errors import InputError
from placer.graph_file import load_graph, to_json
from placer.importing.onnx_file import read_model
from placer.kernels.check import judge
from placer.kernels.engines import map_kernels
from placer.kernels.generate import generate
from placer.kernels.kgraph_file import format_kgraph, load_kgraph
from placer.kernels.layout_file import WaferResult, format_layout, from_json, parse_layout
from placer.kernels.layout_file import to_json as layout_json
from placer.kernels.problem import Problem
from placer.kernels.search import Search
from placer.kernels.truth_model import simulate_mapping
from placer.placement import random_sites
from placer.routing import route
from placer.stencil.files import problem_text, read_problem, read_solution
from placer.stencil.generate import INPUTS
from placer.stencil.surface import read_surface
from placer.streaming.bench.store import stored
from placer.streaming.options import TRAINED_POLICY
from placer.streaming.program_file import load_program
from placer.streaming.rl.policy_file import load_policy
from placer.tensor_file import read_archive
from placer.workloads import MlpSpec, build
from tests.costmodel.dataset.samples import METADATA, random_samples, write_dataset
from tests.costmodel.dataset.test_store import shard_path
from tests.costmodel.test_learned import model_for
from tests.placer.importing.test_from_onnx import GOOD

ROOT = Path(__file__).resolve().parent.parent
SMALL = load_fabric("small")
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
    score = judge(KERNELS, mapping.layout)
    results = [WaferResult(KERNELS, mapping.layout, score)]
    return format_layout(KERNELS, mapping.layout), layout_json(results, {})


LAYOUT, LAYOUT_JSON = layout_texts()


def read_rows(folder: Path) -> None:
    dataset = Dataset.open(folder, [SMALL])
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
    _ = dataset.numbers, dataset.engines
    for number in range(dataset.num_netlists):
        dataset.mappings(number)


COMPARED = Job(KERNELS, "resnet", "contest", Path("none.pt"), 1.0, 0)
LAYOUT_RESULT = Result(0.5, 9.0, 8.0, 1.5, 7.0, 3, 2.0, 1.0, 0.4, "kernels", 80.0, [[1, 2]])


def read_compared(folder: Path) -> None:
    assert read_result(folder, COMPARED) in (None, LAYOUT_RESULT)


def prediction() -> Outcome:
    return Outcome(Prediction(np.array([0.5]), np.array([0.1])), 1.0, 2.0)


def measured(folder: Path) -> dict[str, Any]:
    return stored(folder, {"a": 1}, lambda: {"cycles": 3})


def stored_name(folder: Path) -> None:
    measured(folder)
    next(folder.glob("*.json")).rename(folder / "s.json")


def read_stored(folder: Path) -> object:
    """`stored` names files by a digest: give the damaged one that name."""
    content = (folder / "s.json").read_bytes()
    inner = folder / "inner"
    measured(inner)
    next(inner.glob("*.json")).write_bytes(content)
    return measured(inner)


CONSTRAINTS = """
schema: 1
fixed: {a: {row: 0, column: 1}}
forbidden: [{row: 2, column: 2}, 70]
"""
CONFIG = "defaults:\n  - _self_\nseed: 0\nlist: [1, 2]\nother: ${seed}\n"

READERS = [
    of("g.json", to_json(build(MlpSpec(rows=16, width=16, depth=2))), load_graph),
    Reader(
        "d.json",
        save_small_decision,
        lambda folder: load_decision(folder / "d.json", SMALL, NETLIST),
    ),
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
    Reader(
        "m.pt",
        lambda folder: model_for(SMALL).save(folder / "m.pt"),
        lambda folder: Model.load(folder / "m.pt"),
    ),
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
    Reader(NETLISTS_FILE, save_samples, read_rows),
    Reader(DECISIONS_FILE, save_samples, read_rows),
    Reader(SPLITS_FILE, save_samples, read_splits),
    Reader(WAFER_TABLES.netlists, save_mappings, read_mappings),
    Reader(WAFER_TABLES.decisions, save_mappings, read_mappings),
    Reader(
        job_file(Path(), COMPARED, COMPARED.origin()).name,
        lambda folder: write_result(folder, COMPARED, LAYOUT_RESULT),
        read_compared,
        is_store=True,
    ),
    Reader(
        shard_path(Path(), 0).as_posix(),
        lambda folder: put_shard(folder, 0, shard_bytes([random_samples(0)], METADATA)),
        lambda folder: finished_shards(folder, METADATA),
    ),
    Reader(
        "j.json",
        lambda folder: write_outcome(folder, "j", {"a": 1}, prediction()),
        lambda folder: read_outcome(folder, "j", {"a": 1}),
        is_store=True,
    ),
    Reader(
        "j.npz",
        lambda folder: write_outcome(folder, "j", {"a": 1}, prediction()),
        lambda folder: read_outcome(folder, "j", {"a": 1}),
        is_store=True,
    ),
    Reader("s.json", stored_name, read_stored, is_store=True),
    Reader(
        "r.json",
        at("r.json", '{"a": 1, "result": {"throughput": 1.0}}'),
        lambda folder: comparison._read(folder / "r.json", {"a": 1}),
        is_store=True,
    ),
    Reader(
        "mlflow.json",
        at("mlflow.json", '{"uri": "u", "run_id": "1"}'),
        lambda folder: _read_note(folder / "mlflow.json"),
        is_store=True,
    ),
]


@st.composite
def damages(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """A function that damages a file; places are shares of its length."""
    kind = draw(st.sampled_from(["change", "cut", "remove", "double", "number", "foreign"]))
    places = draw(st.lists(st.floats(0, 1, exclude_max=True), min_size=2, max_size=5))
    values = draw(st.binary(min_size=1, max_size=8))
    huge = draw(st.sampled_from([b"-1", b"0", b"99999999999", b"1e999", b"nan", b"9" * 5000]))

    def damage(content: bytes) -> bytes:
        spots = sorted(int(share * len(content)) for share in places)
        low, high = spots[0], min(spots[-1], spots[0] + 64)
        if kind == "change":
            changed = bytearray(content)
            for number, spot in enumerate(spots):
                changed[spot] = values[number % len(values)]
            return bytes(changed)
        if kind == "number":
            found = list(re.finditer(rb"\d+", content))
            spot = found[int(places[0] * len(found))] if found else re.match(rb"", content)
            assert spot is not None
            return content[: spot.start()] + huge + content[spot.end() :]
        middle = {"cut": b"", "remove": content[high:], "double": content[low:], "foreign": b""}
        start = {"cut": content[:low], "remove": content[:low], "double": content[:high]}
        return values if kind == "foreign" else start[kind] + middle[kind]

    return damage


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
@settings(max_examples=40)
@given(damage=damages())
def test_damaged_files_are_read_or_refused_in_words(
    reader: Reader, folder: Path, damage: Callable[[bytes], bytes]
) -> None:
    path = folder / reader.name
    whole = path.read_bytes()
    try:
        path.write_bytes(damage(whole))
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
def test_pickles_in_checkpoints_are_not_run(
    reader: Reader, is_archive: bool, tmp_path: Path
) -> None:
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
    from placer.command import file_name

    for name in ("../../etc/passwd", "/etc/passwd", "a\0b", "..", "a/../../b", "C:\\x"):
        written = (tmp_path / f"{file_name(name)}.json").resolve()
        assert written.parent == tmp_path.resolve()
