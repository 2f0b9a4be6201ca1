"""The page about the demo."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pandas as pd
import pytest

from costmodel.demo_report import STEPS, main, ranking_verdict, report, search_verdict
from placer.base.config import run_command
from tests.costmodel.cases import labelled

pytestmark = pytest.mark.slow
PLACEMENTS = """group,netlist,method,seed,throughput,predicted,seconds,simulation_seconds
ffn,ffn-1,heuristic,0,0.5,0.5,3.0,0.02
ffn,ffn-1,heuristic,1,0.7,0.7,3.0,0.02
ffn,ffn-1,pool,0,0.8,0.8,3.1,0.02
ffn,ffn-1,pool,1,0.8,1.0,3.1,0.02
ffn,ffn-1,shipped,0,0.9,0.9,3.1,0.02
ffn,ffn-1,shipped,1,0.9,0.9,3.1,0.02
"""
JUDGED = """test set,method,netlists,RE,Spearman per graph,best decile,top-1 regret
demo,boosting,8,0.2,0.8,0.5,0.02
demo,model,8,0.1,0.9,0.6,0.01
"""
COMPILED = {
    "cycles_per_input": 1000.0, "seconds": 19.6, "history": [{"cycles_per_input": 1250.0}],
    "sections": [
        {"netlist": "encoder", "repeats": 2, "bound_cycles": 70, "cycles_per_sample": 100.0, "predicted_cycles": 80.0},
        {"netlist": "tail", "repeats": 1, "bound_cycles": 70, "cycles_per_sample": 100.0, "predicted_cycles": None},
    ],
}  # fmt: skip


def test_the_page_tells_what_was_judged_and_compared(tmp_path: Path) -> None:
    data = labelled(tmp_path)
    for step in STEPS:
        if step != "dataset":
            (tmp_path / step).mkdir()
    assert data.folder == tmp_path / "dataset"
    metrics = {"validation": {"relative_error": 0.1, "spearman": 0.5}}
    (tmp_path / "model/metrics.json").write_text(json.dumps(metrics))
    (tmp_path / "judge/decisions.csv").write_text(JUDGED)
    (tmp_path / "network/compiled.json").write_text(json.dumps(COMPILED))
    (tmp_path / "compare/placements.csv").write_text(PLACEMENTS)
    (tmp_path / "simulate/result.small.json").write_text(json.dumps({"time": {"bound": 6.0, "congestion": 4.0}}))
    (tmp_path / "network/block.html").touch()
    text = report(tmp_path)
    assert "an attention block that is placed at random spends 40% of its time in congestion" in text
    assert "One simulation of these small netlists takes about 20 ms" in text
    assert "| **model** | **0.9** | **0.1** | **0.6** | **0.01** |" in text
    assert "By rank, the model is first: 0.900 against 0.800 (boosting)." in text
    assert "| the expert's rules, tuned, with restarts | 0.600 | 0.600 | 0.0% | 3.0 |" in text
    assert "| the model's search, rules in the model's place | 0.800 | 0.800 | 12.5% | 3.1 |" in text
    assert "| **the learned model in the box** | 0.900 | 0.900 | 0.0% | 3.1 |" in text
    assert "What the model itself adds is +12.5% over the same search" in text
    assert "| encoder | 2 | 0.700 | 0.875 |" in text
    assert "| tail | 1 | 0.700 | - |" in text
    assert "take 1,250 cycles per input, the best that was found in 20 s takes 1,000: 1.25 times as fast." in text
    with pytest.raises(SystemExit) as stop:
        run_command(main, "demo_report", [f"folder={tmp_path}"])
    assert stop.value.code == 0
    assert (tmp_path / "report.md").read_text() == text + "\n"
    assert 'href="./network/block.html"' in (tmp_path / "index.html").read_text()


@pytest.mark.parametrize(
    ("throughput", "said"),
    [(0.801, "Here the model does nothing"), (0.7, "Here the model is in the way"), (0.9, "the model itself adds")],
)
def test_what_is_not_the_models_gain_is_said(throughput: float, said: str) -> None:
    frame = pd.read_csv(io.StringIO(PLACEMENTS.replace("0.9,0.9,", f"{throughput},0.9,")))
    assert said in search_verdict(frame)


def test_who_ranks_better_is_said() -> None:
    rows = [{"method": "model", "RE": "0.1", "Spearman per graph": "0.7 ± 0.1"}]
    rows += [{"method": "rules", "RE": "0.2", "Spearman per graph": "0.8"}]
    text = ranking_verdict(rows)
    assert "By rank, the model is **not** first, rules is: 0.700 against 0.800" in text
    assert "By error, the model is first: 0.100 against 0.200" in text


def test_a_missing_step_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run_command(main, "demo_report", [f"folder={tmp_path}"])
    assert stop.value.code == 2
    assert "run make demo" in capsys.readouterr().err
