"""The page about the demo."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from costmodel.demo_report import STEPS, main, report
from placer.base.config import run_command
from tests.costmodel.cases import labelled

pytestmark = pytest.mark.slow


def test_the_page_tells_both_placements_and_shows_pictures(tmp_path: Path) -> None:
    data = labelled(tmp_path)
    for step in STEPS:
        if step != "dataset":
            (tmp_path / step).mkdir()
    assert data.folder == tmp_path / "dataset"
    (tmp_path / "model" / "metrics.json").write_text(
        json.dumps({"validation": {"relative_error": 0.1, "spearman": 0.5}})
    )
    for name, value in (("heuristic", 0.5), ("learned", 0.75)):
        figures = {"predicted_throughput": 0.7, "throughput": value}
        section = {"fingerprint": "none", "seconds": 1.0, "result": figures}
        folder = tmp_path / f"place_{name}"
        (folder / "result.small.json").write_text(json.dumps({"sections": [section]}))
        (folder / "block.png").touch()
    text = report(tmp_path)
    assert "| learned | 0.700 | 0.750 | 1.0 |" in text and "not in the dataset" in text
    assert "![block](place_learned/block.png)" in text
    with pytest.raises(SystemExit) as stop:
        run_command(main, "demo_report", [f"folder={tmp_path}"])
    assert stop.value.code == 0 and (tmp_path / "report.md").read_text() == text + "\n"


def test_a_missing_step_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run_command(main, "demo_report", [f"folder={tmp_path}"])
    assert stop.value.code == 2 and "run make demo" in capsys.readouterr().err
