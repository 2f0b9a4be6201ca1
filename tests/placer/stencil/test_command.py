"""`python -m placer.stencil`: what it prints and writes, and one clear line for wrong input."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from placer.config import run_command
from placer.stencil.__main__ import main
from placer.stencil.clock import Clock
from placer.stencil.files import read_problem, read_solution, write_problem
from placer.stencil.generate import INPUTS, ball, flat, make_problem
from placer.stencil.mapper import map_volume
from placer.stencil.problem import Problem
from placer.stencil.scoring import score
from placer.stencil.surface import read_surface, surface_problem

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


@pytest.mark.slow
def test_a_problem_file_is_solved_and_drawn(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    problem = INPUTS["box_small_solved"]()
    write_problem(tmp_path / "box.in", problem)
    output = tmp_path / "deep/box.out"
    done = run(capsys, f"problem={tmp_path / 'box.in'}", f"output={output}", "time_limit=2")
    assert (done.code, done.err) == (0, "")
    result = score(problem, read_solution(output, 2))
    assert result.total >= 0.31
    assert f"{result.total:.6f} (accuracy binds)" in done.out
    stored = json.loads(output.with_suffix(".json").read_text(encoding="utf-8"))
    assert stored["score"] == pytest.approx(result.total)
    for picture in ("box.volume.png", "box.fabric.png"):
        assert (output.parent / picture).stat().st_size > 1000


@pytest.mark.slow
def test_generated_inputs_are_written_with_their_solutions(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    inputs = "inputs=[simple_3d,flat_small]"
    done = run(capsys, inputs, f"folder={tmp_path}", "time_limit=1", "pictures=false")
    assert done.code == 0
    for name, least in (("simple_3d", 0.25), ("flat_small", 1.0)):
        problem = read_problem(tmp_path / f"{name}.in")
        solution = read_solution(tmp_path / f"{name}.out", problem.dimension)
        assert score(problem, solution).total >= least


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2\n1 1\n4 4\n1 0\n1\n1\n1\n", "3 heat values; a volume of 1 x 1 needs 4"),
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
        (("inputs=[cube]",), "unknown input 'cube'"),
        (("time_limit=0",), "must be above 0"),
        (("seed=-1",), "must not be negative"),
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


HARD = {
    "zero heat": flat((4, 4, 4), (8, 8), 0.0),
    "one PE": flat((10, 10), (1, 1)),
    "a line of PEs": flat((5, 5, 5), (1, 200)),
    "low heat": flat((4, 4), (10, 10), 0.3),
    "one hot point": make_problem((6, 6, 6), (12, 12), np.pad([[[1.0]]], 3)),
    "awkward volume": ball((9, 3, 11), (30, 30), (4, 1, 5), 9.0),
    "thin volume": ball((40, 1), (20, 20), (10, 0), 200.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HARD)
def test_hard_problems_get_legal_solutions(name: str) -> None:
    problem = HARD[name]
    mapping = map_volume(problem, Clock(1.5, problem.num_pes), 0)
    assert score(problem, mapping.solution).total == mapping.score.total
    assert (mapping.score.accuracy > 0) == bool(problem.heat.any())


def test_low_heat_is_worth_as_much_as_high_heat() -> None:
    """The score divides by max(1, scale): levels are lifted until the scale counts."""
    mapping = map_volume(HARD["low heat"], Clock(0.5, 100), 0)
    assert mapping.score.accuracy_norm == pytest.approx(1.0, abs=0.2)


def surface(tmp_path: Path, name: str, content: bytes) -> Problem:
    file = tmp_path / name
    file.write_bytes(content)
    return surface_problem(read_surface(file), 16, (30, 30), 1.0, 0.05)


@pytest.mark.slow
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


@pytest.mark.parametrize("content", [b"v 0 0\n", b"", b"v 0 0 0\nf 1 1 1\n"])
def test_bad_surfaces_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "bad.obj").write_bytes(content)
    done = run(capsys, f"surface.file={tmp_path / 'bad.obj'}", f"folder={tmp_path}")
    assert done.code == 2
    assert done.err.startswith("error: ")
