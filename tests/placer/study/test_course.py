"""The course of figures: values at earlier commits beside those of now."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

from placer.base import Published, write_figures
from placer.study.course import course_page

RANK = Published("rank", 0.9, 0.01, "higher", "python -m costmodel.quality", "a1b2c3d", "2026-11-18")


def git(folder: Path, *arguments: str) -> None:
    name = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(["git", *name, *arguments], cwd=folder, check=True, capture_output=True)


def test_earlier_values_stand_beside_those_of_now(tmp_path: Path) -> None:
    history = tmp_path / "history.json"
    write_figures(history, [RANK])
    assert "| rank | 0.9000 | 0.01 | higher |\n" in course_page(history)  # no clone: no course
    git(tmp_path, "init", "-q")
    for value in (0.9, 0.8):
        write_figures(history, [replace(RANK, value=value)])
        git(tmp_path, "add", "history.json")
        git(tmp_path, "commit", "-qm", "figures")
    write_figures(history, [replace(RANK, value=0.95), replace(RANK, name="new")])
    page = course_page(history)
    assert "| rank | 0.9500 | 0.01 | higher | 0.8000 | 0.9000 |" in page
    assert "| new | 0.9000 | 0.01 | higher |  |  |" in page
    assert "- `python -m costmodel.quality`\n" in page
