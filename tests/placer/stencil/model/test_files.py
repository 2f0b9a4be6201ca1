"""Problem and solution files: what is read, what is refused, and that writing is its inverse."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from placer.base import InputError
from placer.stencil.model import INPUTS, problem_text, read_problem, sampling_unit, solution_text
from placer.stencil.model.files import parse_problem, parse_solution

SMALL = ("simple_2d", "gradient_small", "box_small_solved", "circle", "simple_3d", "sample")
OFFICIAL = Path(__file__).resolve().parents[5] / "shared/data/ispd2021"


@pytest.mark.parametrize("name", SMALL)
def test_a_written_problem_reads_the_same(name: str) -> None:
    problem = INPUTS[name]()
    again = parse_problem(problem_text(problem))
    assert (again.volume, again.fabric) == (problem.volume, problem.fabric)
    np.testing.assert_array_equal(again.heat, problem.heat)


def test_comments_and_blank_lines_are_skipped_anywhere() -> None:
    text = b"# a\n2\n\n 1 1\n  # b\n3 4\n1 0\n# c\n0\n0.5 \n# d\n1\n\n1\n"
    problem = parse_problem(text)
    assert (problem.volume, problem.fabric) == ((1, 1), (3, 4))
    np.testing.assert_array_equal(problem.heat, [[[0, 0.5], [1, 1]]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "ends before the dimension"),
        (b"4\n1 1\n1 1\n1 0\n0\n", "dimension is 4"),
        (b"2\n1 1 1\n1 1\n1 0\n0\n", "volume shape holds 3"),
        (b"2\n1 0\n1 1\n1 0\n0\n", "no positive integer"),
        (b"2\n1 1\n1 1\n1\n0\n0\n0\n0\n", "line of weights"),
        (b"2\n1 1\n1 1\n1 0\n0\n0\n0\n", "3 heat values; a volume of 1 x 1 needs 4"),
        (b"2\n1 1\n1 1\n1 0\n0\n0\n0\n1.5\n", "heat value 4 is 1.5"),
        (b"2\n1 1\n1 1\n1 0\n0\nnan\n0\n1\n", "heat value 2 is nan"),
        (b"2\n1 1\n1 1\n1 0\n0\nwarm\n0\n1\n", "'warm' is no number"),
        (b"2\ninf 1\n1 1\n1 0\n0\n", "volume shape: inf is no positive integer"),
        (b"nan\n1 1\n1 1\n1 0\n0\n", "dimension: nan is no positive integer"),
        (b"2\n1 1\n1 1e99\n1 0\n0\n", "fabric shape: 1e.99 is no positive integer"),
        (b"2\n1 1\n1 1\n1 nan\n0\n0\n0\n0\n", "2 finite numbers"),
        (b"2\n1 1\n1 1\n1 0\n0\ninf\n0\n1\n", "heat value 2 is inf"),
        (b"2\n1 1\n9999 9999\n1 0\n0\n0\n0\n1\n", "99,980,001 PEs"),
    ],
)
def test_bad_problems_are_refused_with_the_reason(text: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_problem(text)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        read_problem(tmp_path / "nowhere.in")


@pytest.mark.parametrize("dimension", [2, 3])
def test_a_written_solution_reads_the_same(dimension: int) -> None:
    prism = b"1 0 0 2 1\n-1 0 20 4 2\n" if dimension == 2 else b"0 0 0 0 2 2 1\n"
    text = b"20\n" + prism + b"compute_map:\n0 0\n3 1\nadapter_map:\n"
    assert solution_text(parse_solution(text, dimension)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"10\n0 0 0 1 1\n0 0\nadapter_map:\n", "compute_map:"),
        (b"10\n0 0 0 1 1\ncompute_map:\n0 0\n", "adapter_map:"),
        (b"10\n0 0 0 1\ncompute_map:\nadapter_map:\n", "rows of 5"),
        (b"10\n0 0 0 1 1\ncompute_map:\n0 0.5\nadapter_map:\n", "integer"),
        (b"10\n0 0 0 1 inf\ncompute_map:\n0 0\nadapter_map:\n", "prisms: every number must be"),
        (b"10\n0 0 0 1 1\ncompute_map:\n0 nan\nadapter_map:\n", "compute_map: every number must"),
        (b"0\n0 0 0 1 1\ncompute_map:\n0 0\nadapter_map:\n", "step: 0 is no positive integer"),
        (b"ten\n0 0 0 1 1\ncompute_map:\nadapter_map:\n", "'ten' is no number"),
    ],
)
def test_bad_solutions_are_refused_with_the_reason(text: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_solution(text, 2)


def test_sampling_must_divide_the_volume_into_tiles() -> None:
    volumes = [(100,), (15,), (32,), (64,), (9,), (99,), (15, 32)]
    assert [sampling_unit(v) for v in volumes] == [1, 2, 5, 5, 10, 10, 10]


@pytest.mark.skipif(not OFFICIAL.exists(), reason="the official cases are not at hand")
@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("2d_circle", "circle"),
        ("2d_gradient_big", "gradient_big"),
        ("2d_gradient_gradient", "gradient_small"),
        ("2d_box_small_solved", "box_small_solved"),
        ("3d_box_big", "box_big"),
        ("3d_sphere", "sphere"),
        ("3d_sample", "sample"),
    ],
)
def test_generated_inputs_are_the_official_ones(file: str, name: str) -> None:
    official, generated = read_problem(OFFICIAL / f"{file}.in"), INPUTS[name]()
    assert (official.volume, official.fabric) == (generated.volume, generated.fabric)
    np.testing.assert_array_equal(official.heat, generated.heat)
