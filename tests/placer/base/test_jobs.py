"""Finished jobs are files: read again, unless they are damaged or of something else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from placer.base.workers import run_jobs

pytestmark = pytest.mark.slow


@dataclass(frozen=True, slots=True)
class Square:
    """A job whose result is the square of a number."""

    number: int
    schema: int = 1

    def origin(self) -> dict[str, Any]:
        return {"kind": "square", "number": self.number, "schema": self.schema}


def square(job: Square) -> dict[str, Any]:
    return {"square": job.number**2}


def run(folder: Path, *jobs: Square) -> tuple[list[dict[str, Any]], list[Square], list[int]]:
    """Results, the jobs that were done now, and how many were finished at each report."""
    new: list[Square] = []
    finished: list[int] = []
    results = run_jobs(
        jobs, square, folder,
        decode=lambda values: {"square": values["square"]},
        on_progress=lambda done, total: finished.append(done),
        on_result=lambda job, _: new.append(job),
    )  # fmt: skip
    return results, new, finished


def test_results_are_read_again_unless_they_are_of_something_else(tmp_path: Path) -> None:
    one, two, three = (Square(number) for number in (1, 2, 3))
    assert run(tmp_path, one, two) == ([{"square": 1}, {"square": 4}], [one, two], [0, 1, 2])
    results, new, finished = run(tmp_path, three, two, one)
    assert results == [{"square": 9}, {"square": 4}, {"square": 1}]
    assert (new, finished) == ([three], [2, 3])
    other = Square(2, schema=2)
    assert run(tmp_path, other)[1] == [other]


def test_damaged_files_count_as_absent(tmp_path: Path) -> None:
    jobs = [Square(number) for number in range(4)]
    run(tmp_path, *jobs)
    paths = sorted(tmp_path.iterdir())
    texts = [path.read_text() for path in paths]
    paths[0].write_text(texts[0][:-20])
    paths[1].write_text(texts[1].replace('"square": ', '"square": 7'))
    paths[2].write_text(texts[3])  # of another job
    results, new, _ = run(tmp_path, *jobs)
    assert results == [{"square": 0}, {"square": 1}, {"square": 4}, {"square": 9}]
    assert len(new) == 3
