"""Random numbers in compiled code: xorshift64* with its state in an array of one (Vigna 2016)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from placer.base.jit import hot

RngState = NDArray[np.uint64]

_TO_UNIT = 2.0**-53


def rng_state(seed: int | np.random.SeedSequence) -> RngState:
    """Return the state for a seed."""
    sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    return np.maximum(sequence.generate_state(1, np.uint64), np.uint64(1))


@hot
def _next(state: RngState) -> np.uint64:
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return np.uint64(x * np.uint64(0x2545F4914F6CDD1D))


@hot
def uniform(state: RngState) -> float:
    """Draw from [0, 1)."""
    return np.int64(_next(state) >> np.uint64(11)) * _TO_UNIT


@hot
def below(state: RngState, count: int) -> int:
    """Draw from 0 .. count - 1, for counts below 2^31 (bias below 2^-32)."""
    return int((np.int64(_next(state) >> np.uint64(33)) * count) >> 31)
