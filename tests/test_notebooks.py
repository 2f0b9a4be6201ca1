"""The notebooks run from the first cell to the last, in a folder of their own, with short searches."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests import ROOT

NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))


def cells(path: Path, kind: str) -> list[str]:
    document = json.loads(path.read_text(encoding="utf-8"))
    return ["".join(cell["source"]) for cell in document["cells"] if cell["cell_type"] == kind]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_is_small_and_has_no_stale_output(path: Path) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    assert cells(path, "markdown")[0].startswith("# ")
    assert len(cells(path, "code")) <= 8
    assert all(not cell.get("outputs") for cell in document["cells"])


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_a_notebook_runs(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for commands that a cell starts
    names: dict[str, object] = {}
    for number, code in enumerate(cells(path, "code")):
        short = re.sub(r"^SECONDS = .*$", "SECONDS = 0.5", code, flags=re.MULTILINE)
        exec(compile(short, f"{path.name}, cell {number}", "exec"), names)
    assert "0." in capsys.readouterr().out, "figures were printed"
    if "result" in names:
        assert "<table>" in names["result"]._repr_html_()
