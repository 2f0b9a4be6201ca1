"""`python -m placer.streaming`: every mapper maps and draws, wrong input is one clear line."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from costmodel.train_mapper import main as train_main
from placer.base.config import run_command
from placer.streaming.__main__ import main
from placer.streaming.mappers import FrontPoint, mappers
from placer.streaming.model import Device, Found, check, load_program
from placer.streaming.rl import sample
from placer.streaming.search import construct, exact, plans
from tests import ROOT

pytestmark = pytest.mark.slow

FFT = ROOT / "data/inputs/streaming/fft.json"
HARD = ROOT / "data/inputs/streaming/gn60.json"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        run_command(main, "streaming", arguments)
    assert isinstance(stop.value.code, int)
    return stop.value.code, *capsys.readouterr()


@pytest.mark.parametrize("mapper", ["auto", "random", "list", "sa", "slots", "evolution", "exact", "rl", "hybrid"])
def test_every_mapper_maps_the_fft(mapper: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "new" / "mapping.json"
    code, out, err = run(capsys, f"graph={FFT}", f"mapper={mapper}", "time_limit=0.1", f"output={output.parent}")
    assert (code, err) == (0, "")
    assert "fft: 17 instructions" in out
    document = json.loads(output.read_text())
    verdict = check(load_program(FFT), Device(), document["tile"], document["spoke"])
    assert verdict.is_legal
    assert verdict.cycles == document["cycles"] >= document["bound"]
    assert list(verdict.start) == document["start"]
    assert document["is_interrupted"] is False
    entries = [entry for tile in document["spoke_ram"] for entry in tile["entries"]]
    assert sorted(entry["instruction"] for entry in entries) == list(range(17))
    assert output.with_suffix(".png").stat().st_size > 5_000
    page = output.with_suffix(".html").read_text(encoding="utf-8")
    assert f"{verdict.cycles} cycles" in page
    assert "instruction 16" in page


def test_front_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "mapping.json"
    graph = ROOT / "data/inputs/streaming/table_lookup.json"
    code, out, _ = run(capsys, f"graph={graph}", "front=true", "ii=3", f"output={output.parent}")
    assert code == 0
    assert "warning: instructions 1 and 2 are siblings" in out
    front = json.loads(output.read_text())["front"]
    assert [(point["ii"], point["cycles"] is None) for point in front] == [
        (1, True), (2, False), (3, False),
    ]  # fmt: skip


def with_ctrl_c(real: Callable[..., object]) -> Callable[..., object]:
    """The same function; Ctrl-C comes when it returns for the first time."""
    presses = iter([signal.SIGINT])

    def call(*arguments: object, **options: object) -> object:
        result = real(*arguments, **options)
        for number in presses:
            signal.raise_signal(number)
        return result

    return call


@pytest.mark.parametrize(
    ("mapper", "seconds", "module", "name"),
    [
        ("sa", 600, plans, "_anneal_moves"),
        ("exact", 600, exact, "wait"),
        ("auto", 2, exact, "wait"),
        ("rl", 600, sample, "sample_once"),
    ],
)
def test_ctrl_c_writes_the_best_so_far(
    mapper: str,
    seconds: int,
    module: ModuleType,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = tmp_path / "mapping.json"
    monkeypatch.setattr(module, name, with_ctrl_c(getattr(module, name)))
    given = (f"graph={HARD}", "tiles=64", f"mapper={mapper}", f"time_limit={seconds}")
    code, out, err = run(capsys, *given, "workers=1", f"output={output.parent}")
    assert (code, err) == (130, "interrupted\n")
    assert "gn60: 60 instructions" in out
    document = json.loads(output.read_text())
    assert document["is_interrupted"] is True
    verdict = check(load_program(HARD), Device(tiles=64), document["tile"], document["spoke"])
    assert verdict.is_legal
    assert verdict.cycles == document["cycles"]


def test_ctrl_c_before_the_first_mapping_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dead_end = with_ctrl_c(lambda *_: None)
    monkeypatch.setattr(construct, "_construct_many", dead_end)
    given = (f"graph={FFT}", "mapper=sa", f"output={tmp_path}")
    assert run(capsys, *given) == (130, "", "interrupted\n")
    assert not list(tmp_path.iterdir())


def test_ctrl_c_while_the_front_is_sought_keeps_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "mapping.json"
    monkeypatch.setattr(mappers, "FrontPoint", with_ctrl_c(FrontPoint))
    given = (f"graph={FFT}", "mapper=list", "time_limit=0.05", "front=true", f"output={output.parent}")
    code, _, err = run(capsys, *given)
    assert (code, err) == (130, "interrupted\n")
    document = json.loads(output.read_text())
    assert document["is_interrupted"] is True
    assert "Cut off by Ctrl-C" in output.with_suffix(".html").read_text(encoding="utf-8")
    assert "front" not in document


PAIR = {"SEInstUse": ["t"], "ops": ["send"], "Predecessors": [], "Successors": []}


@pytest.mark.parametrize(
    ("document", "overrides", "message"),
    [
        ({"num_nodes": 2, "edges": [[0, 1], [1, 0]]}, [], "cycle"),
        ({"Program": [{"SyncFlow": [{"SEInst": PAIR | {"Successors": [0]}}]}]}, [], "leads to"),
        ({"num_nodes": 20, "edges": [[0, n] for n in range(1, 20)]}, [], "19 successors"),
        ({"num_nodes": 20, "edges": []}, [], "20 flow starts"),
        (
            {"num_nodes": 4, "edges": [[0, 1], [1, 2], [2, 3]], "tile_memory": {"t": [0, 1, 2, 3]}},
            ["ii=3"],
            "use ii=4 or more",
        ),
        ({"num_nodes": 2, "edges": []}, ["tiles=0"], "tiles=0"),
        ({"num_nodes": 2, "edges": []}, ["ii=1000000000"], "ii=1000000000; allowed 1 to 1024"),
        ({"num_nodes": 2, "edges": []}, ["seed=2147483648"], "seed=2147483648; allowed 0 to"),
        ({"num_nodes": 2, "edges": []}, ["time_limit=nan"], "time_limit=nan; allowed 0 to"),
        ({"num_nodes": 2, "edges": []}, ["time_limit=inf"], "time_limit=inf; allowed 0 to"),
        ({"num_nodes": 2, "edges": []}, ["fine_tune=true"], "fine_tune=true needs mapper=rl"),
        ({"num_nodes": 2, "edges": []}, ["mapper=best"], "mapper='best' is no choice"),
        ({"num_nodes": 2, "edges": []}, ["output=a.txt"], "the mapping is a .json file; name a folder"),
        ({"num_nodes": 2, "edges": []}, ["mapper=rl", "policy=none.pt"], "policy file none.pt"),
    ],
)
def test_wrong_input_is_one_line(
    document: object, overrides: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(document))
    given = [f"graph={path}", f"output={tmp_path}", *overrides]
    code, out, err = run(capsys, *given)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "mapping.json").exists()


@pytest.mark.parametrize("name", ["counted_loop", "gather_loop"])
def test_programs_of_the_tools_are_mapped_as_they_are(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = ROOT / f"data/inputs/streaming/{name}_ir.json"
    code, out, err = run(capsys, f"graph={graph}", "mapper=list", "time_limit=0.1", f"output={tmp_path}")
    assert (code, err) == (0, "")
    assert "message 'afMsgDest: loop_head'" in out
    document = json.loads((tmp_path / "mapping.json").read_text())
    assert document["made_up"] is not None, "executed"
    unknown = [line for line in document["not_executed"] if "unknown op" in line]
    assert len(unknown) == {"counted_loop": 0, "gather_loop": 1}[name]


def test_unknown_ops_can_be_mapped_without_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({"Program": [{"SyncFlow": [{"SEInst": PAIR}]}]}))
    output = f"output={tmp_path}"
    code, out, _ = run(capsys, f"graph={path}", output, "values=false", "mapper=list")
    assert code == 0
    assert "3 cycles, lower bound 3, optimal" in out


def test_any_op_and_file_name_can_be_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Text that matplotlib would take for mathematics, for hidden labels, or has no signs for."""
    flow = [{"SEInst": PAIR | {"ops": [op]}} for op in ("$\\frac{", "_", "\u65e5", "x" * 99, "")]
    path = tmp_path / "a$b$.json"
    path.write_text(json.dumps({"Program": [{"SyncFlow": flow}]}))
    output = tmp_path / "mapping.json"
    given = (f"graph='{path}'", f"output={output.parent}", "values=false", "mapper=list")
    assert run(capsys, *given)[::2] == (0, "")
    assert output.with_suffix(".png").exists()


def test_a_long_program_is_drawn_smaller(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, output = tmp_path / "chain.json", tmp_path / "mapping.json"
    edges = [[n, n + 1] for n in range(99)]
    path.write_text(json.dumps({"num_nodes": 100, "edges": edges}))
    given = (f"graph={path}", f"output={output.parent}", "mapper=list", "time_limit=0", "depth=120", "ii=20")
    assert run(capsys, *given)[::2] == (0, "")
    assert json.loads(output.read_text())["cycles"] > 12_000


def test_training_command_writes_a_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [
        "updates=1", "graphs.num_graphs=2", "graphs.most_nodes=7", "ppo.rollouts=2",
        f"exclude=[{FFT}]", f"output={tmp_path / 'run'}", "tracking.uri=null",
    ]  # fmt: skip
    with pytest.raises(SystemExit) as stop:
        run_command(train_main, "train_mapper", given)
    assert stop.value.code == 0
    assert "policy.pt" in capsys.readouterr().out
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {"policy.pt", "checkpoint.pt", "updates.csv", "config.json"}


def test_a_limit_that_is_too_short_for_the_policy_names_the_least(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = Found(None, 9, 0, needed=6.2)
    monkeypatch.setattr("placer.streaming.rl.sample_mappings", lambda *_, **__: nothing)
    code, _, err = run(capsys, f"graph={FFT}", "mapper=rl", "time_limit=0.5", f"output={tmp_path}")
    assert code == 2
    assert "time_limit=0.5 is too short" in err and "set time_limit=7 or more" in err
