"""Random numbers of compiled code: the published generator, even, the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placer.base import below, rng_state, uniform

MASK = (1 << 64) - 1


def xorshift64star(x: int) -> tuple[int, int]:
    """Next state and output as Vigna (2016) writes them."""
    x ^= x >> 12
    x ^= (x << 25) & MASK
    x ^= x >> 27
    return x, (x * 0x2545F4914F6CDD1D) & MASK


@given(st.integers(0, 2**64), st.integers(1, 2**31 - 1))
def test_numbers_are_those_of_the_published_generator(seed: int, count: int) -> None:
    state = rng_state(seed)
    x = int(state[0])
    for _ in range(5):
        x, output = xorshift64star(x)
        assert uniform(state) == (output >> 11) / 2**53
        x, output = xorshift64star(x)
        assert below(state, count) == ((output >> 33) * count) >> 31
    assert int(state[0]) == x


@given(st.integers(0, 2**64), st.integers(1, 2**31 - 1))
def test_numbers_are_in_their_range(seed: int, count: int) -> None:
    state = rng_state(seed)
    for _ in range(20):
        assert 0 <= uniform(state) < 1
        assert 0 <= below(state, count) < count


def test_numbers_are_even() -> None:
    state, draws = rng_state(0), 12_000
    counts = np.bincount([below(state, 6) for _ in range(draws)], minlength=6)
    # Five standard deviations of a count with p = 1/6.
    assert abs(counts - draws / 6).max() < 5 * np.sqrt(draws * 5 / 36)
    assert np.mean([uniform(state) for _ in range(draws)]) == pytest.approx(0.5, abs=0.015)


def test_seeds_give_different_states_and_never_zero() -> None:
    states = {int(rng_state(seed)[0]) for seed in range(1000)}
    assert len(states) == 1000
    assert 0 not in states  # the generator would stay there


def test_a_child_seed_is_a_seed() -> None:
    children = np.random.SeedSequence(3).spawn(2)
    assert rng_state(children[0]) != rng_state(children[1])
    assert rng_state(3) == rng_state(np.random.SeedSequence(3))
