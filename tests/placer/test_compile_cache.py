"""Compiled code is cached per state of the sources: old machine code is never used."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from placer.config import CONF_DIR

SOURCES = CONF_DIR.parent / "placer"


def cache_dir(parent: Path, **environment: str) -> str:
    """NUMBA_CACHE_DIR after an import of the package in `parent`, in a fresh process."""
    program = "import os, placer; print(os.environ['NUMBA_CACHE_DIR'], placer.__file__)"
    inherited = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=parent,
        env={**inherited, "PYTHONPATH": str(parent), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    folder, origin = done.stdout.split()
    assert origin == str(parent / "placer/__init__.py")
    return folder


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the sources that a test may change."""
    ignored = shutil.ignore_patterns("__pycache__")
    return shutil.copytree(SOURCES, tmp_path / "placer", ignore=ignored)


def append(package: Path) -> None:
    with open(package / "simulation/network.py", "a") as file:
        file.write("# changed\n")


def add_module(package: Path) -> None:
    (package / "routing/extra.py").touch()


def rename_module(package: Path) -> None:
    (package / "bench.py").rename(package / "benchmark.py")


@pytest.mark.parametrize("change", [append, add_module, rename_module])
def test_a_change_of_any_source_changes_the_folder(
    package: Path, change: Callable[[Path], None]
) -> None:
    before = cache_dir(package.parent)
    assert Path(before).parent == package / "__pycache__"
    assert cache_dir(package.parent) == before
    change(package)
    after = cache_dir(package.parent)
    assert Path(after).parent == Path(before).parent
    assert after != before


def test_files_that_are_no_source_do_not_matter(package: Path) -> None:
    before = cache_dir(package.parent)
    (package / "notes.txt").touch()
    assert cache_dir(package.parent) == before


def test_equal_sources_elsewhere_have_a_folder_of_the_same_name(
    package: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = shutil.copytree(package, tmp_path_factory.mktemp("other") / "placer")
    ours, theirs = Path(cache_dir(package.parent)), Path(cache_dir(other.parent))
    assert ours != theirs
    assert ours.name == theirs.name


def test_the_choice_of_the_user_wins(package: Path) -> None:
    assert cache_dir(package.parent, NUMBA_CACHE_DIR="/chosen") == "/chosen"
