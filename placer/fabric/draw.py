"""Random fabrics around the presets, for models that must know the hardware.

Every constant is drawn around its value in the first or second version of the hardware, sizes from
6 x 6 to 24 x 20 tiles. What is drawn depends on seed and index alone. Fabrics of `HELD_OUT_SEED`
are for tests: nothing is trained on them.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from functools import cache

import numpy as np

from placer.base import InputError
from placer.fabric.fabric import NOT_SIMULATED, ComputeSpec, DramSpec, Fabric, LinkSpec, LocalSpec, MemorySpec, OpSpec
from placer.fabric.load import load_fabric

HELD_OUT_SEED, HELD_OUT = 90_210, 10  # the seed of the fabrics that training never sees, and how many they are
PRESETS = ("small", "small_v2", "plasticine", "large", "large_v2")  # none is drawn exactly
COLUMNS, ROWS = (6, 24), (6, 20)  # least and most
MIXES = ((1, 1),) * 5 + ((2, 1), (1, 2), (3, 2))  # compute and memory tiles; most fabrics are checkerboards
WORDS = ((64, 4),) * 7 + ((64, 2), (128, 4), (32, 4))  # bytes of a vector and of a number
TILES_PER_CHANNEL = 4  # tiles for each DRAM channel in the presets
_SEED_TAG = 0xFAB  # keeps the seeds apart from those of other draws


def draw_fabric(seed: int, index: int, least_tiles: int = 0) -> Fabric:
    """Draw random fabric number `index` with so many tiles or more; none is a preset under another name."""
    if seed < 0 or index < 0:
        raise InputError(f"random fabric: seed={seed}, index={index}; allowed 0 or more")
    if least_tiles > COLUMNS[1] * ROWS[1]:
        raise InputError(f"random fabric: least_tiles={least_tiles}; allowed at most {COLUMNS[1] * ROWS[1]}")
    rng = np.random.default_rng([seed, index, _SEED_TAG])
    while True:
        fabric = _draw(f"random_{seed}_{index}", rng)
        if fabric.columns * fabric.rows >= least_tiles and _constants(fabric) not in _presets():
            return fabric


@cache
def _preset(name: str) -> Fabric:
    return load_fabric(name)


@cache
def _presets() -> list[object]:
    return [_constants(_preset(name)) for name in PRESETS]


def _constants(fabric: Fabric) -> object:
    return {name: value for name, value in asdict(fabric).items() if name not in NOT_SIMULATED}


def _draw(name: str, rng: np.random.Generator) -> Fabric:
    columns, rows = _size(rng, *COLUMNS), _size(rng, *ROWS)
    compute_tiles, memory_tiles = MIXES[rng.integers(len(MIXES))]
    vector_bytes, element_bytes = WORDS[rng.integers(len(WORDS))]
    is_second = rng.random() < 0.5
    return Fabric(
        name=name,
        columns=columns,
        rows=rows,
        vector_bytes=vector_bytes,
        element_bytes=element_bytes,
        compute_tiles=compute_tiles,
        memory_tiles=memory_tiles,
        ports_per_side=-1 if rng.random() < 0.5 else _size(rng, -(-rows // 3), rows),
        link=LinkSpec(
            vectors_per_cycle=int(rng.choice([1, 1, 1, 2])),
            hop_cycles=_size(rng, 2, 8),
            channels=int(rng.choice([2, 2, 4])),
            fifo_vectors=_size(rng, 1, 6),
            credit_hop_cycles=_size(rng, 1, 6),
        ),
        local=LocalSpec(vectors_per_cycle=int(rng.choice([1, 2, 2, 2, 4])), hop_cycles=_size(rng, 1, 3)),
        compute=_draw_compute(rng),
        memory=MemorySpec(
            capacity_bytes=1 << int(rng.integers(18, 21)),
            window_vectors=_size(rng, 8, 48),
            output_vectors=_size(rng, 4, 16),
            latency_cycles=_size(rng, 3, 12),
            strided_read_cycles=_size(rng, 1, 4),
            max_buffers=_size(rng, 3, 6),
        ),
        dram=_draw_dram(columns * rows, rng),
        ops=_draw_ops(_preset("small_v2" if is_second else "small").ops, rng),
    )


def _draw_compute(rng: np.random.Generator) -> ComputeSpec:
    window = _size(rng, 12, 64)
    return ComputeSpec(
        lanes=16,
        stages=_size(rng, 4, 10),
        window_vectors=window,
        operand_vectors=_size(rng, 8, 64),
        output_vectors=_size(rng, 4, 16),
        block_rows=int(rng.choice([8, 16, 16, 32])),
        block_columns=int(rng.choice([8, 16, 16, 32])),
    )


def _draw_dram(tiles: int, rng: np.random.Generator) -> DramSpec:
    burst = int(rng.choice([4, 8, 8, 16]))
    usual = tiles / TILES_PER_CHANNEL
    return DramSpec(
        latency_cycles=_size(rng, 50, 200),
        channels=max(2, round(usual * math.exp(rng.uniform(math.log(0.5), math.log(2))))),
        burst_vectors=burst,
        burst_cycles=_size(rng, burst - burst // 3, burst + burst // 2),
        window_vectors=max(burst, _size(rng, 8, 48)),
        prefetch_vectors=_size(rng, 64, 256),
        max_streams=_size(rng, 3, 6),
    )


def _draw_ops(usual: dict[str, OpSpec], rng: np.random.Generator) -> dict[str, OpSpec]:
    """Draw other implementations of all operations: deeper or less deep, some with a pass more or less."""
    ops = {}
    for name, spec in usual.items():
        depth = max(2, round(spec.depth_cycles * math.exp(rng.normal(0.0, 0.3))))
        passes = spec.cycles_per_vector + int(rng.choice([-1, 0, 0, 0, 1]))
        ops[name] = OpSpec(depth, max(1, passes))
    return ops


def _size(rng: np.random.Generator, low: int, high: int) -> int:
    """Draw a whole number from `low` to `high`, each octave with about the same chance."""
    return int(math.exp(rng.uniform(math.log(low), math.log(high + 1))))
