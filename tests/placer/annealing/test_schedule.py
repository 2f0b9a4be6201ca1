"""The schedule: always cooler, fast where little is decided, a reach that follows acceptance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placer.annealing import Schedule
from placer.annealing.schedule import next_reach
from placer.base import InputError

SHARES = st.floats(0, 1)


@pytest.mark.parametrize(
    ("acceptance", "reach", "factor"),
    [
        (1.0, 8.0, 0.5),  # far too hot
        (0.9, 8.0, 0.9),
        (0.44, 8.0, 0.95),
        (0.1, 8.0, 0.95),  # the reach is still to shrink
        (0.1, 1.0, 0.8),  # frozen
    ],
)
def test_factors_of_vpr(acceptance: float, reach: float, factor: float) -> None:
    assert Schedule().next_temperature(2.0, acceptance, reach) == pytest.approx(2.0 * factor)


@given(st.floats(1e-6, 1e6), SHARES, st.floats(1, 32), st.floats(0.1, 4))
def test_temperature_falls_faster_with_more_cooling(
    temperature: float, acceptance: float, reach: float, cooling: float
) -> None:
    once = Schedule(cooling=cooling).next_temperature(temperature, acceptance, reach)
    twice = Schedule(cooling=2 * cooling).next_temperature(temperature, acceptance, reach)
    assert 0 < twice < once < temperature
    assert twice / temperature == pytest.approx((once / temperature) ** 2)


@given(st.floats(1, 32), SHARES, st.integers(1, 32))
def test_reach_stays_on_the_fabric(reach: float, acceptance: float, farthest: int) -> None:
    assert 1 <= next_reach(reach, acceptance, farthest) <= farthest


@given(st.floats(2, 16), SHARES, SHARES)
def test_reach_grows_with_acceptance(reach: float, one: float, two: float) -> None:
    low, high = sorted((one, two))
    assert next_reach(reach, low, 32) <= next_reach(reach, high, 32)
    assert next_reach(reach, 0.44, 32) == pytest.approx(reach)


def test_moves_of_a_round() -> None:
    # 8^(4/3) = 16, 27^(4/3) = 81
    assert Schedule().round_moves(8, effort=1.0) == pytest.approx(10 * 16, abs=1)
    assert Schedule().round_moves(8, effort=0.5) == pytest.approx(5 * 16, abs=1)
    assert Schedule(moves_per_round=2).round_moves(27, effort=1.0) == pytest.approx(2 * 81, abs=1)
    assert Schedule().round_moves(1, effort=1e-9) == 1


@pytest.mark.parametrize("name", ["start", "cooling", "end", "moves_per_round"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
def test_what_makes_no_sense_is_refused(name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"schedule.{name}={value}; allowed"):
        Schedule(**{name: value})
