"""`python -m placer.stencil`: what it prints and writes, and one clear line for wrong input."""

from __future__ import annotations

import json
import os
import signal
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from placer.base.config import run_command
from placer.stencil import bench
from placer.stencil.__main__ import main
from placer.stencil.check import main as check_main
from placer.stencil.judge import score
from placer.stencil.model import (
    INPUTS,
    Problem,
    problem_text,
    read_problem,
    read_solution,
    read_surface,
    surface_problem,
)
from placer.stencil.model.generate import ramp
from placer.stencil.search import warm_up

pytestmark = pytest.mark.slow

TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2/1 3/1 4/1\n"


@dataclass(frozen=True, slots=True)
class Run:
    """How a run of the command ended."""

    code: int
    out: str
    err: str


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Run:
    with pytest.raises(SystemExit) as stop:
        run_command(main, "stencil", [str(argument) for argument in arguments])
    assert isinstance(stop.value.code, int)
    return Run(stop.value.code, *capsys.readouterr())


def test_a_problem_file_is_solved_and_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    problem = INPUTS["box_small_solved"]()
    (tmp_path / "box.in").write_bytes(problem_text(problem))
    output = tmp_path / "deep/box.out"
    done = run(capsys, f"problem={tmp_path / 'box.in'}", f"output={output.parent}", "time_limit=30")
    assert (done.code, done.err) == (0, "")
    result = score(problem, read_solution(output, 2))
    assert result.total >= 0.31
    assert f"{result.total:.6f} (accuracy binds)" in done.out
    stored = json.loads(output.with_suffix(".json").read_text(encoding="utf-8"))
    assert stored["score"] == pytest.approx(result.total)
    for picture in ("box.volume.png", "box.fabric.png"):
        assert (output.parent / picture).stat().st_size > 1000
    page = output.with_suffix(".html").read_text(encoding="utf-8")
    assert f"{result.total:.6f}" in page
    assert '<div class="boxes">' in page


def test_a_limit_that_cannot_hold_is_told_at_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ended = run(capsys, "inputs=[simple_2d]", "time_limit=0.5", f"folder={tmp_path}", "pictures=false")
    said = " ".join(ended.out.split())
    assert "time_limit=0.5 is too short for this volume and fabric; a first solution, checked and written" in said
    assert (tmp_path / "simple_2d.out").is_file()


def test_generated_inputs_are_written_with_their_solutions(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    inputs = "inputs=[simple_3d,flat_small]"
    done = run(capsys, inputs, f"output={tmp_path}", "time_limit=1", "pictures=false")
    assert done.code == 0
    for name, least in (("simple_3d", 0.25), ("flat_small", 1.0)):
        problem = read_problem(tmp_path / f"{name}.in")
        solution = read_solution(tmp_path / f"{name}.out", problem.dimension)
        assert score(problem, solution).total >= least


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2\n1 1\n4 4\n1 0\n1\n1\n1\n", "3 heat values; a volume of 1 x 1 needs 4"),
        ("3\n2000000000 2000000000 2000000000\n4 4\n1 0\n1\n", "needs 8,000,000,012,000,000,006,"),
        ("2\n1 1\n4 4\n1 0\n1\n1\n1\n-0.5\n", "heat value 4 is -0.5"),
        ("2\n7 3\n2 2\n1 0\n" + "1\n" * 32, "PEs needed 16, the fabric has 4"),
    ],
)
def test_bad_problems_end_with_code_2_and_no_output(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "bad.in"
    file.write_text(text, encoding="utf-8")
    done = run(capsys, f"problem={file}", f"output={tmp_path / 'bad.out'}", "time_limit=1")
    assert done.code == 2
    assert message in done.err
    assert done.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["bad.in"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("problem=nowhere.in",), "nowhere.in: cannot be read"),
        (("inputs=[cube]",), "inputs[0]='cube' is no choice; allowed: box_big"),
        (("time_limit=0",), "time_limit=0.0 is out of range; allowed: more than 0"),
        (("time_limit=inf",), "time_limit=inf is out of range; allowed: more than 0"),
        (("objective=best",), "objective='best' is no choice"),
        (("seed=-1",), "seed=-1 is out of range; allowed: 0 or more"),
        (("output=a.out",), "one file for 2 inputs"),
        (("surface.file=nothing.obj",), "cannot read nothing.obj"),
        (("surface.file=a.obj", "problem=b.in"), "give one of them"),
        (("surface.fabric=[4]",), "write width and height"),
    ],
)
def test_bad_settings_end_with_code_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    done = run(capsys, *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_nothing_that_is_read_is_overwritten(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "a.in"
    file.write_bytes(problem_text(INPUTS["flat_small"]()))
    before = file.read_bytes()
    for output in (file, tmp_path / "b.json"):
        done = run(capsys, f"problem={file}", f"output={output}")
        assert (done.code, done.out) == (2, "")
        assert "would be overwritten" in done.err
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.in"]


def test_ctrl_c_writes_the_best_so_far(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    warm_up()
    output = tmp_path / "ball.out"
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    done = run(capsys, "inputs=[small_sphere]", f"output={output}", "time_limit=600")
    timer.join()
    assert (done.code, done.err) == (130, "interrupted\n")
    problem = read_problem(output.with_suffix(".in"))
    assert score(problem, read_solution(output, 3)).total > 0.4
    assert json.loads(output.with_suffix(".json").read_text())["is_interrupted"] is True
    assert "Cut off by Ctrl-C" in output.with_suffix(".html").read_text(encoding="utf-8")


def check(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Run:
    with pytest.raises(SystemExit) as stop:
        run_command(check_main, "stencil_check", [str(argument) for argument in arguments])
    assert isinstance(stop.value.code, int)
    return Run(stop.value.code, *capsys.readouterr())


def test_solution_files_are_checked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    problem, solution = tmp_path / "ramp.in", tmp_path / "ramp.out"
    problem.write_bytes(problem_text(ramp((2, 2), (2, 2))))
    files = f"problem={problem}", f"solution={solution}"
    text = "10\n0 0 0 2 2\ncompute_map:\n0 0\n1 0\n0 1\n1 1\nadapter_map:\n"
    shared = text.replace("1 1\nadapter", "0 1\nadapter")
    for content, code, message in (
        (text, 0, "0.500000 (accuracy binds)"),
        (shared, 1, "illegal: two tiles on one PE: PE (0, 1)"),
        (text.replace("10\n0", "5\n0"), 1, "illegal: prism leaves the volume: prism 0"),
        (text.replace("adapter_map:", ""), 2, "there is no line 'adapter_map:'"),
    ):
        solution.write_text(content, encoding="utf-8")
        done = check(capsys, *files)
        assert done.code == code
        assert message in (done.err if code == 2 else done.out)
    assert check(capsys, files[0]).code == 2


def test_the_benchmark_goes_on_where_it_ended(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = [f"output={tmp_path / 'out'}", f"publish={tmp_path / 'docs'}", "time_limit=0.5"]
    for inputs in ("inputs=[flat_small]", "inputs=[flat_small,simple_3d]"):
        with pytest.raises(SystemExit) as stop:
            run_command(bench.main, "stencil_bench", [*settings, inputs])
        assert stop.value.code == 0
        stored = {path.name for path in (tmp_path / "out/jobs").iterdir()}
        assert len(stored) == inputs.count(",") + 1
    with monkeypatch.context() as patch:
        patch.setattr(bench, "_solve", None)  # nothing is solved a second time
        with pytest.raises(SystemExit) as stop:
            run_command(bench.main, "stencil_bench", [*settings, inputs])
    assert stop.value.code == 0
    table = (tmp_path / "docs/stencil.md").read_text()
    assert "| flat_small | 16 | 1.0000 | 1.000 |  | 1.0000 | 1.000 |" in table
    assert (tmp_path / "docs/stencil.csv").read_text().count("\n") == 3
    capsys.readouterr()


def surface(tmp_path: Path, name: str, content: bytes) -> Problem:
    file = tmp_path / name
    file.write_bytes(content)
    return surface_problem(read_surface(file), 16, (30, 30), 1.0, 0.05)


def test_surfaces_of_obj_and_stl_are_the_same(tmp_path: Path) -> None:
    obj = surface(tmp_path, "t.obj", TETRAHEDRON.encode())
    triangles = read_surface(tmp_path / "t.obj")
    record = np.zeros(len(triangles), [("n", "<f4", 3), ("c", "<f4", (3, 3)), ("a", "<u2")])
    record["c"] = triangles
    binary = b"\0" * 80 + len(triangles).to_bytes(4, "little") + record.tobytes()
    lines = [f"vertex {x} {y} {z}" for x, y, z in triangles.reshape(-1, 3)]
    for content in (binary, ("solid t\n" + "\n".join(lines)).encode()):
        np.testing.assert_allclose(surface(tmp_path, "t.stl", content).heat, obj.heat, atol=1e-5)


def test_heat_of_a_surface(tmp_path: Path) -> None:
    """Corners at 4 and 12 of 16; inside 0, at the surface 1, then 1 / d^2 to a floor."""
    heat = surface(tmp_path, "t.obj", TETRAHEDRON.encode()).heat
    assert heat.max() == 1.0
    assert heat[6, 6, 2] == pytest.approx(1 / 4, rel=0.1)  # two units before the face x = 4
    assert heat[0, 0, 0] == 0.0  # further than sqrt(20) from the corner
    assert heat[5, 5, 5] == 0.0  # inside
    assert heat[heat > 0].min() >= 0.05


@pytest.mark.parametrize(
    "content", [b"v 0 0\n", b"", b"v 0 0 0\nf 1 1 1\n", b"v 0 0 0\nf 1 2 3\n", b"v 0 0 0\nf -1 -2 -3\n"]
)
def test_bad_surfaces_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.obj").write_bytes(content)
    done = run(capsys, f"surface.file={tmp_path / 'bad.obj'}", f"folder={tmp_path}")
    assert done.code == 2
    assert done.err.startswith("error: ")
