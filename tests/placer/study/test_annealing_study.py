"""The study of what annealing is worth, at a tiny size."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from placer.base.config import compose_config, run_command, to_dataclass
from placer.study.annealing import HEADER, AnnealingConfig, compare, main, summary_rows, write

TINY = ("sample_cycles=10", "netlists=1", "random_placements=8", "simulator_moves=6", "restarts=2", "effort=0.02")


@pytest.mark.slow
def test_searches_are_compared_and_written(tmp_path: Path) -> None:
    overrides = [*TINY, f"output={tmp_path}"]
    config = to_dataclass(AnnealingConfig, compose_config("annealing", overrides))
    results = compare(config, "mlp", 0)
    assert [result.search for result in results] == [0, 1]
    result = results[-1]
    assert 0 < result.random_median <= result.random_best <= 1
    assert result.heuristic <= result.restarts <= result.simulator <= 1, "starts are kept"
    assert 0 <= result.gap_to_restarts <= result.gap
    (row,) = summary_rows(results)
    assert len(row) == len(HEADER)
    assert row[:3] == ["mlp", "1", "2"]
    write(tmp_path, results)
    names, *_, values = csv.reader((tmp_path / "annealing.csv").read_text().splitlines())
    written = dict(zip(names, values, strict=True))
    assert float(written["simulator"]) == pytest.approx(result.simulator, abs=1e-5)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("families=[rnn]", "families[0]='rnn' is no choice; allowed: ffn, gemm"),
        ("netlists=0", "netlists=0 is out of range; allowed: 1 or more"),
    ],
)
def test_bad_input_is_explained(argument: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run_command(main, "annealing", [argument])
    assert stop.value.code == 2 and message in capsys.readouterr().err
