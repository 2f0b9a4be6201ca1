"""The README keeps its word: its Python runs, its commands and files exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_python_of_the_readme_runs(block: str) -> None:
    names: dict[str, object] = {}
    exec(block, names)
    assert {"best", "sections"} & set(names)


def test_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"`?make ([a-z-]+)", README))
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_modules_and_files_of_the_readme_exist() -> None:
    modules = set(re.findall(r"-m (placer[\w.]*|costmodel[\w.]*)", README))
    assert modules
    for module in modules:
        place = ROOT / module.replace(".", "/")
        assert place.with_suffix(".py").is_file() or (place / "__main__.py").is_file(), module
    for path in re.findall(r"\]\(([\w/.]+)\)", README):
        assert (ROOT / path).is_file(), path
