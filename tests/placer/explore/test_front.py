"""The front of area and throughput: laws that hold for any designs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from placer.explore import front_of, hopeful

Designs = list[tuple[float, float]]
DESIGNS = st.lists(st.tuples(st.integers(1, 9).map(float), st.integers(1, 9).map(float)), min_size=1, max_size=12)


def test_an_example_by_hand() -> None:
    areas, rates = [1.0, 2.0, 2.0, 3.0, 4.0], [5.0, 8.0, 9.0, 7.0, 20.0]
    assert front_of(areas, rates) == [0, 2, 4]
    assert hopeful(areas, rates, 0.2) == [0, 1, 2, 4]


@given(DESIGNS)
def test_nothing_beats_the_front_and_it_beats_the_rest(designs: Designs) -> None:
    areas, rates = [a for a, _ in designs], [r for _, r in designs]
    front = front_of(areas, rates)
    assert [areas[k] for k in front] == sorted({areas[k] for k in front})
    for k in range(len(designs)):
        is_beaten = any(
            areas[f] <= areas[k] and rates[f] >= rates[k] and (areas[f], rates[f]) != (areas[k], rates[k])
            for f in front
        )
        assert is_beaten or (areas[k], rates[k]) in {(areas[f], rates[f]) for f in front}
        assert not (is_beaten and k in front)


@given(DESIGNS, st.floats(0.01, 2.0))
def test_the_front_is_hopeful(designs: Designs, margin: float) -> None:
    areas, rates = [a for a, _ in designs], [r for _, r in designs]
    assert set(front_of(areas, rates)) <= set(hopeful(areas, rates, margin))
