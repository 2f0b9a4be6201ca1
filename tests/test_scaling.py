"""The forecast of docs/scaling.md gives the table below it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

TEXT = (Path(__file__).parents[1] / "docs" / "scaling.md").read_text(encoding="utf-8")
LABELS = 41_668 * 24  # what the command above makes
ROW = re.compile(r"\| \**(\d+) x (\d+)\**(, `large`[^|]*)? \| ([\d.]+) (h|s) \| ([\d.]+) (h|s) \|")


def seconds(number: str, unit: str) -> tuple[float, float]:
    """What a cell says, and what rounding may change."""
    return (float(number) * 3600, 180.0) if unit == "h" else (float(number), 0.5)


def test_the_forecast_gives_the_table() -> None:
    code = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)[0]
    names: dict[str, Any] = {}
    exec(code, names)
    rows = ROW.findall(TEXT)
    assert len(rows) == 5
    for machines, cores, large, computed, unit, stored, stored_unit in rows:
        factor = float(re.findall(r"labels ([\d.]+) times", large)[0]) if large else 1.0
        found = names["forecast"](LABELS, int(machines), int(cores), label_seconds=0.0495 * factor)
        for value, told in zip(found, ((computed, unit), (stored, stored_unit)), strict=True):
            expected, rounding = seconds(*told)
            assert value == pytest.approx(expected, abs=rounding + 1)
