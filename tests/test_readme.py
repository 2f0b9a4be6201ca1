"""README and docs keep their word: Python runs, commands and linked files exist, limits hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from placer.base.config import compose_config
from tests import ROOT
from tests.costmodel.inference.test_learned import SMALL, model_for

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/results").glob("*.md")),
]
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_python_of_the_readme_runs(block: str) -> None:
    names: dict[str, object] = {}
    exec(block, names)
    assert names["result"]


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


RESULTS = sorted((ROOT / "docs/results").rglob("*.md"))
COMMANDS = re.compile(
    r"(?:python -m (?P<module>(?:placer|costmodel|tests)[\w.]*)|make (?P<target>[a-z-]+))(?P<rest>[^`\n|]*)"
)


@pytest.mark.parametrize("page", RESULTS, ids=[str(page.relative_to(ROOT)) for page in RESULTS])
def test_commands_of_published_tables_still_exist(page: Path) -> None:
    """The module or target is there, and takes the settings that are named."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for found in re.findall(r"`([^`]+)`", re.sub(r"\s+", " ", page.read_text(encoding="utf-8"))):
        for command in COMMANDS.finditer(found):
            if command["target"]:
                assert re.search(rf"^{command['target']}:", makefile, flags=re.MULTILINE), command[0]
                continue
            place = ROOT / command["module"].replace(".", "/")
            sources = [path for path in (place.with_suffix(".py"), place / "__main__.py") if path.is_file()]
            assert sources, f"{command[0]}: there is no such module"
            schema = re.search(r'run_command\(main, "(\w+)"', sources[0].read_text(encoding="utf-8"))
            keys = re.findall(r"(?:^| )\+?([a-z_]+)[\w.]*=", command["rest"])
            if schema is not None and keys:
                known = set(compose_config(schema[1]))
                assert set(keys) <= known, f"{command[0]}: {set(keys) - known} are no settings of {schema[1]}"


def test_modules_and_files_of_the_readme_exist() -> None:
    modules = set(re.findall(r"-m (placer[\w.]*|costmodel[\w.]*)", README))
    assert modules
    for module in modules:
        place = ROOT / module.replace(".", "/")
        assert place.with_suffix(".py").is_file() or (place / "__main__.py").is_file(), module


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_linked_files_exist(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = page.parent / path if path else page
        assert linked.is_file(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in map(_anchor, headings), target


def _anchor(heading: str) -> str:
    """Return the name that Markdown viewers give to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_the_index_pages_list_every_page() -> None:
    for folder in (ROOT / "docs", ROOT / "docs/results"):
        index = (folder / "README.md").read_text(encoding="utf-8")
        for page in folder.glob("*.md"):
            assert page.name == "README.md" or f"({page.name})" in index, page


def test_the_readme_is_short() -> None:
    assert len(README.encode()) <= 10_000
    for line in README.splitlines():
        assert len(line) <= 110, line


def test_entries_of_the_log_are_short() -> None:
    log = (ROOT / "docs/log.md").read_text(encoding="utf-8")
    for entry in re.split(r"^##+ ", log, flags=re.MULTILINE)[1:]:
        lines = [line for line in entry.splitlines() if line.strip() and not line.startswith("|")]
        assert len(lines) <= 12, lines[0]
        assert all(len(line) <= 110 for line in lines), lines[0]
