"""Compiled code is cached per state of the sources: old machine code is never used."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from placer.base.config import CONF_DIR

SOURCES = CONF_DIR.parent / "placer"
PROGRAM = """

from placer.base.random import uniform
print(uniform.stats.cache_path)
"""
KEYS = """
import sys
from pathlib import Path
from placer.base import source_key
print(*(source_key(Path(name).resolve()) for name in sys.argv[1:]))
"""


def run(parent: Path, program: str, *arguments: str, **environment: str) -> str:
    """What a program prints that imports the package in `parent`, in a fresh process."""
    chosen = ("NUMBA_CACHE_DIR", "NUMBA_CACHE_LOCATOR_CLASSES")
    inherited = {name: value for name, value in os.environ.items() if name not in chosen}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=parent,
        env={**inherited, "PYTHONPATH": str(parent), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def key(package: Path, module: str = "simulation/simulator.py") -> str:
    return run(package.parent, KEYS, f"placer/{module}")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the sources that a test may change."""
    ignored = shutil.ignore_patterns("__pycache__")
    return shutil.copytree(SOURCES, tmp_path / "placer", ignore=ignored)


def append(path: Path, line: str = "CHANGED = 1") -> None:
    with open(path, "a") as file:
        file.write(line + "\n")


def change_itself(package: Path) -> None:
    append(package / "simulation/simulator.py")


def change_what_it_imports(package: Path) -> None:
    append(package / "simulation/machine.py")


def change_what_that_imports(package: Path) -> None:
    append(package / "fabric/fabric.py")


@pytest.mark.slow
@pytest.mark.parametrize("change", [change_itself, change_what_it_imports, change_what_that_imports])
def test_a_change_of_a_source_that_a_module_is_made_from_changes_its_key(
    package: Path, change: Callable[[Path], None]
) -> None:
    before = key(package)
    assert key(package) == before
    change(package)
    assert key(package) != before


@pytest.mark.slow
def test_other_sources_do_not_matter(package: Path) -> None:
    before = key(package)
    append(package / "stencil/search/tree.py")
    (package / "simulation/extra.py").touch()
    assert key(package) == before


@pytest.mark.slow
def test_comments_and_docstrings_do_not_matter(package: Path) -> None:
    before = key(package)
    append(package / "simulation/engine.py", "# changed")
    path = package / "simulation/network.py"
    path.write_text(path.read_text().replace('"""', '"""Changed: ', 1))
    assert key(package) == before


@pytest.mark.slow
def test_equal_sources_elsewhere_have_the_same_key(package: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = shutil.copytree(package, tmp_path_factory.mktemp("other") / "placer")
    assert key(package) == key(other)


@pytest.mark.slow
def test_numba_caches_in_a_folder_with_the_key(package: Path) -> None:
    found = Path(run(package.parent, PROGRAM))
    assert found.parent == package / "__pycache__/numba"
    assert found.name == f"placer.base.random-{key(package, 'base/random.py')}"


@pytest.mark.slow
def test_the_choice_of_the_user_wins(package: Path, tmp_path: Path) -> None:
    chosen = tmp_path / "chosen"
    assert Path(run(package.parent, PROGRAM, NUMBA_CACHE_DIR=str(chosen))).is_relative_to(chosen)
