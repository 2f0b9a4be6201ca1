"""Short figures: what is cheap to measure is measured, and the same twice."""

from __future__ import annotations

import pytest

from costmodel.quality import MEASURES


@pytest.mark.slow
def test_figures_of_fixed_work_are_the_same_twice() -> None:
    for name in ("streaming", "size"):
        first, again = (list(MEASURES[name]()) for _ in range(2))
        assert first == again
        assert len({figure.name for figure in first}) == len(first)
        assert all(figure.value > 0 and figure.tolerance > 0 for figure in first)
