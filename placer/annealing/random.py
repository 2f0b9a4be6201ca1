"""Random numbers in compiled code: xorshift64* with its state in an array of one (Vigna 2016)."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

RngState = NDArray[np.uint64]

_TO_UNIT = 2.0**-53


def rng_state(seed: int | np.random.SeedSequence) -> RngState:
    """State for a seed."""
    sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    return np.maximum(sequence.generate_state(1, np.uint64), np.uint64(1))


@njit(cache=True, forceinline=True)
def _next(state):
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return x * np.uint64(0x2545F4914F6CDD1D)


@njit(cache=True, forceinline=True)
def uniform(state):
    """In [0, 1)."""
    return np.int64(_next(state) >> np.uint64(11)) * _TO_UNIT


@njit(cache=True, forceinline=True)
def below(state, count):
    """In 0 .. count - 1, for counts below 2^31 (bias below 2^-32)."""
    return (np.int64(_next(state) >> np.uint64(33)) * count) >> 31
