"""The README keeps its word: its Python runs, its commands and files exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.costmodel.test_learned import SMALL, model_for

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_python_of_the_readme_runs(block: str) -> None:
    names: dict[str, object] = {}
    exec(block, names)
    assert {"best", "sections"} & set(names)


@pytest.mark.slow
def test_the_example_of_placing_with_a_model_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("data/model").mkdir(parents=True)
    model_for(SMALL).save("data/model/flow.pt")  # not trained
    text = (ROOT / "docs/search.md").read_text(encoding="utf-8")
    block = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)[0]
    assert "time_limit=10" in block
    exec(compile(block.replace("time_limit=10", "time_limit=1"), "docs/search.md", "exec"), {})
    assert 0.3 < float(capsys.readouterr().out) < 1, "throughput of what was found"


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
