"""Faults that any command may meet: Ctrl-C, a full disk, a clock that goes backwards.

docs/faults.md lists all faults with their tests; some stand beside what they break.
"""

from __future__ import annotations

import ast
import errno
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from placer.base import files
from placer.base.config import run_command
from placer.kernels.__main__ import main as kernels_main
from placer.kernels.model import format_kgraph, generate
from placer.place import main as place_main
from tests import ROOT
from tests.costmodel.training.tiny import overrides, write_tiny
from tests.placer.base.test_workers import assert_session_ends

# Runs a command and says when its own work begins.
SCRIPT = """
import sys
from importlib import import_module
from placer.base.config import run_command

if __name__ == "__main__":
    module = import_module(sys.argv[1])

    def main(config):
        print("begun", flush=True)
        module.main(config)

    run_command(main, sys.argv[2], sys.argv[3:])
"""

LONG = {  # arguments with which each would run for minutes; {} is a folder
    "costmodel.dataset.__main__": ["dataset", "size=demo", "workers=1", "output={}/out"],
    "costmodel.evaluate": ["evaluate", "data={}/data", "cache={}/cache", "output={}/out",
                           "methods=[flow]", "main=flow", "ablations=[]", "seeds.transfer=[]",
                           "seeds.family=[]", "seeds.random=[]", "workers=1"],
    "costmodel.train_mapper": ["train_mapper", "output={}/out", "tracking.uri=null"],
    "placer.simulate": ["simulate", "workload=bert_large", "fabric=large", "output={}/out"],
    "placer.kernels.__main__": ["kernels", "preset=resnet50", "time_limit=300",
                                "output={}/out/l.txt"],
    "placer.kernels.bench.__main__": ["kernels_bench", "presets=[resnet50]", "time_limit=300",
                                      "workers=1", "output={}/out"],
    "placer.stencil.bench": ["stencil_bench", "time_limit=300", "output={}/out"],
    "placer.streaming.__main__": ["streaming", "graph=data/inputs/streaming/gn60.json",
                                  "tiles=64", "mapper=exact", "time_limit=300",
                                  "output={}/out/m.json"],
    "placer.streaming.bench.__main__": ["streaming_bench", "output={}/out"],
    "placer.study.spread": ["spread", "output={}/out"],
}  # fmt: skip


def press_until_it_ends(run: subprocess.Popen[str], errors: Path) -> None:
    """Once, unless C code has dropped what the first Ctrl-C raised."""
    for _ in range(3):
        if "interrupted" not in errors.read_text():  # else it is about to end
            os.killpg(run.pid, signal.SIGINT)
        try:
            run.wait(timeout=60)
        except subprocess.TimeoutExpired:
            continue
        return


@pytest.mark.slow
@pytest.mark.parametrize("module", LONG)
def test_ctrl_c_ends_a_long_command_in_one_line(module: str, tmp_path: Path) -> None:
    """As a terminal does it: to every process of the group, in the midst of work."""
    if module == "costmodel.evaluate":
        write_tiny(tmp_path / "data")
    script, errors = tmp_path / "run.py", tmp_path / "errors"
    script.write_text(SCRIPT)
    arguments = [argument.format(tmp_path) for argument in LONG[module]]
    # Errors go to a file, so that no full pipe can stop the command.
    with errors.open("w") as file:
        run = subprocess.Popen(
            [sys.executable, str(script), module, *arguments],
            stdout=subprocess.PIPE, stderr=file, text=True, start_new_session=True,
            cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    with run:
        assert run.stdout is not None
        try:
            assert run.stdout.readline() == "begun\n", errors.read_text()
            time.sleep(1.0)
            assert run.poll() is None, f"it ended before the interrupt: {errors.read_text()}"
            press_until_it_ends(run, errors)
        finally:
            run.kill()  # if it has not ended
    err = errors.read_text()
    assert run.returncode == 130, err
    assert err.splitlines()[-1] == "interrupted"
    assert "Traceback" not in err
    assert_session_ends(run.pid)
    assert not list(tmp_path.rglob(".tmp-*"))


def no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def run_quick(command: str, folder: Path) -> int:
    with pytest.raises(SystemExit) as stop:
        if command == "place":
            arguments = ["workload=gemm", "max_moves=50", f"output={folder}"]
            run_command(place_main, "place", arguments)
        else:
            arguments = ["preset=tiny", "engine=strips", "time_limit=0.1", f"output={folder}/l.txt"]
            run_command(kernels_main, "kernels", arguments)
    assert isinstance(stop.value.code, int)
    return stop.value.code


@pytest.mark.slow
@pytest.mark.parametrize("command", ["place", "kernels"])
def test_a_full_disk_is_told_and_old_results_stay(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_quick(command, tmp_path) == 0
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    capsys.readouterr()
    monkeypatch.setattr(files.os, "fsync", no_room)
    assert run_quick(command, tmp_path) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert re.fullmatch(r"error: .*cannot write .*: No space left on device; .*", error)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.slow
def test_a_clock_that_goes_backwards_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions of a search are the same bytes; durations come from clocks that only rise."""
    assert run_quick("place", tmp_path / "one") == 0
    now = iter(range(10**9, 0, -3600))
    monkeypatch.setattr(time, "time", lambda: float(next(now)))
    assert run_quick("place", tmp_path / "two") == 0
    (one,), (two,) = ((tmp_path / n).glob("*.decision.json") for n in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


WALL_CLOCKS = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "date.today"}


def test_nothing_depends_on_the_time_of_day() -> None:
    used = []
    for path in [*(ROOT / "placer").rglob("*.py"), *(ROOT / "costmodel").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                name = f"{node.value.id}.{node.attr}"
                used += [f"{path}: {name}"] if name in WALL_CLOCKS else []
    assert used == []


@pytest.mark.slow
def test_training_told_of_a_full_disk_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from costmodel.train import main

    write_tiny(tmp_path / "data")

    def run() -> object:
        with pytest.raises(SystemExit) as stop:
            run_command(main, "train", overrides(tmp_path))
        return stop.value.code

    real = os.fsync
    written: list[int] = []

    def full_after_some(file: int) -> None:
        written.append(file)
        if len(written) > 4:
            no_room()
        real(file)

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full_after_some)
        assert run() == 2
    assert "No space left on device" in capsys.readouterr().err
    assert run() == 0
    assert (tmp_path / "out/flow.pt").exists()


def test_the_graph_of_a_command_is_not_overwritten_by_its_result(tmp_path: Path) -> None:
    """Inputs are never outputs, whatever they are called."""
    graph = tmp_path / "layout.txt"
    graph.write_text(format_kgraph(generate("tiny")))
    with pytest.raises(SystemExit) as stop:
        run_command(kernels_main, "kernels", [f"kgraph={graph}", f"output={graph}"])
    assert stop.value.code == 2
