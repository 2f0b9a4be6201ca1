"""The page about the demo."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from costmodel.demo_report import STEPS, main, report
from placer.base.config import run_command
from tests.costmodel.cases import labelled

pytestmark = pytest.mark.slow
PLACEMENTS = """group,netlist,method,seed,throughput
ffn,ffn-1,heuristic,0,0.5
ffn,ffn-1,heuristic,1,0.7
ffn,ffn-1,shipped,0,0.9
"""


def test_the_page_tells_what_was_judged_and_compared(tmp_path: Path) -> None:
    data = labelled(tmp_path)
    for step in STEPS:
        if step != "dataset":
            (tmp_path / step).mkdir()
    assert data.folder == tmp_path / "dataset"
    metrics = {"validation": {"relative_error": 0.1, "spearman": 0.5}}
    (tmp_path / "model/metrics.json").write_text(json.dumps(metrics))
    judged = "test set,method,netlists,RE,Spearman per graph,best decile,top-1 regret\ndemo,model,8,0.1,0.9,0.6,0.01\n"
    (tmp_path / "judge/decisions.csv").write_text(judged)
    (tmp_path / "compare/placements.csv").write_text(PLACEMENTS)
    (tmp_path / "place_learned/block.html").touch()
    text = report(tmp_path)
    assert "| model | 0.1 | 0.9 | 0.6 | 0.01 |" in text
    assert "| the expert's rules, tuned, with restarts | 0.600 | 0.600 |" in text
    assert "| **the learned model in the box** | 0.900 | 0.900 |" in text
    with pytest.raises(SystemExit) as stop:
        run_command(main, "demo_report", [f"folder={tmp_path}"])
    assert stop.value.code == 0
    assert (tmp_path / "report.md").read_text() == text + "\n"
    assert 'href="./place_learned/block.html"' in (tmp_path / "index.html").read_text()


def test_a_missing_step_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run_command(main, "demo_report", [f"folder={tmp_path}"])
    assert stop.value.code == 2
    assert "run make demo" in capsys.readouterr().err
