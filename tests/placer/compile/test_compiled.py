"""Compiled networks as files, and the command that writes them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from placer.base import InputError
from placer.base.config import run_command
from placer.compile import CompiledNetwork, load_compiled
from placer.compile.__main__ import main
from placer.graph.workloads import build
from placer.graph.workloads.specs import FfnSpec
from tests.placer.compile.cases import compiled, options

SMALL = ("fabric=small", "fabric.columns=6", "fabric.rows=6", "cost=rules")
FFN = ("workload=ffn", "workload.rows=48", "workload.width=64", "workload.hidden=128", *SMALL)


@pytest.fixture(scope="module")
def network() -> CompiledNetwork:
    return compiled(build(FfnSpec(48, 64, 128)), options(1))


@pytest.fixture(scope="module")
def saved(network: CompiledNetwork, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a network, not to be changed."""
    folder = tmp_path_factory.mktemp("compiled")
    network.save(folder)
    return folder


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Path:
    """Return a folder of a network, to be changed."""
    return shutil.copytree(saved, tmp_path / "copy")


def test_a_compiled_network_passes_through_files(network: CompiledNetwork, saved: Path) -> None:
    again = load_compiled(saved)
    assert (again.plan, again.graph, again.fabric) == (network.plan, network.graph, network.fabric)
    assert again.cycles_per_input == network.cycles_per_input and again.history == network.history
    assert (again.cost, again.seed, again.is_interrupted) == ("rules", 0, False)
    assert again.throughput == network.throughput
    told = json.loads((saved / "compiled.json").read_text())
    assert told["cycles_per_input"] == network.cycles_per_input
    assert told["share_of_peak"] == network.share_of_peak
    assert len(told["sections"]) == len(network.sections)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("compiled.json", '"schema": 1', '"schema": 2', "schema is 2, needed 1"),
        ("compiled.json", '"kind": "compiled network"', '"kind": "plan"', "kind is 'plan'"),
        ("compiled.json", '"batch": 4', '"batch": "four"', "a whole number from 1 is needed"),
        ("compiled.json", '"batch": 4', '"batch": 8', "but its sections take"),
        ("compiled.json", '"seconds":', '"minutes":', "is no compiled network"),
        ("plan.small.json", '"copies": 1', '"copies": 0', "plan file"),
        ("graph.json", '"kind": "linear"', '"kind": "magic"', "graph file"),
    ],
)
def test_files_that_were_changed_are_refused(copy: Path, file: str, old: str, new: str, message: str) -> None:
    text = (copy / file).read_text()
    assert old in text
    (copy / file).write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        load_compiled(copy)


def test_a_missing_file_is_named(copy: Path) -> None:
    next(copy.glob("*.decision.json")).unlink()
    with pytest.raises(InputError, match=r"decision\.json"):
        load_compiled(copy)


def _run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        run_command(main, "compile", arguments)
    assert isinstance(stop.value.code, int)
    return stop.value.code


@pytest.mark.slow
def test_the_command_writes_and_tells(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert _run(*FFN, "max_rounds=1", "workers=1", f"output={tmp_path / 'out'}") == 0
    told = capsys.readouterr().out
    assert "cycles per input" in told and "of the MAC peak" in told and "written to" in told
    assert load_compiled(tmp_path / "out").cost == "rules"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*FFN, "cost=magic"), "unknown choice cost=magic"),
        ((*FFN, "time_limit=0"), "time_limit=0"),
        ((*FFN, "fabric.memory.capacity_bytes=256", "fabric.columns=2", "fabric.rows=2"), "does not fit"),
        ((*FFN, "plan=nowhere.json"), "nowhere.json"),
        (("graph=nowhere.json", *SMALL), "nowhere.json"),
    ],
)
def test_wrong_input_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert _run(*arguments, "max_rounds=1", "workers=1", f"output={tmp_path / 'out'}") == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1
    assert not (tmp_path / "out" / "compiled.json").exists()
