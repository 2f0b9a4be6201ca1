"""What a part of a group costs its compute unit, and the best ways to cut a group into parts.

A product keeps a register block of block_rows x block_columns partial sums: of its r x c outputs
with inner length k, it reads the left operand ceil(c / block_columns) times and the right operand
ceil(r / block_rows) times, and does r c k multiply-accumulates. Other ops work on their input
vector by vector.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from placer.base import FloatArray, LongArray
from placer.fabric import Fabric
from placer.graph import PRODUCT_KINDS, WINDOW_KINDS, DataflowGraph, OpKind, window_of
from placer.netlist.lowering.groups import ROW_KINDS, Group
from placer.netlist.plan import GroupPlan

PACE_LOSS = 0.03  # of the pace that may be given up for less traffic
MAX_PORTS = 80  # read ports over which an operand is taken to be spread,
GRADIENT_PORTS = 24  # and one of a weight gradient, which is a small tile that passes often
COLUMN_COST = 0.02  # relative time that one more column part of an op on vectors is taken to cost


class Style(NamedTuple):
    """What the rules weigh when they lay out a section. These values are good on the whole; a search may try others."""

    flow_rate: float = 0.75  # vectors per cycle that a flow may need; more only if most units would be left
    port_share: float = 0.5  # of the pace that the port of a buffer may be needed for
    flow_share: float = 0.35  # vectors per cycle that a flow into or out of a buffer may need,
    reach_share: float = 0.5  # and of the rate that its window allows over the way to its targets
    extra_slots: int = 1  # more than the stages ask for, where there is room: parts need not march in step
    max_inner: int = 8  # most parts of a sum: each hands its partial sums to the next one
    inner_cost: float = 0.001  # relative time that one more part of a sum is taken to cost
    rate_cost: float = 0.7  # relative time of a vector per cycle beyond those of whole register blocks
    traffic_cost: float = 0.1  # cycles of all units that reading a vector and a step of its way count as
    vector_slack: float = 1.25  # how much faster than needed groups without products are, if units are left


USUAL = Style()


class GroupSize(NamedTuple):
    """The sizes of a group that decide its work."""

    is_product: bool
    heads: int
    rows: int
    columns: int
    inner: int  # length of the sums of a product, else 0
    interval: int  # cycles per input vector of other ops
    passes: float  # input vectors per output vector of other ops
    can_split_rows: bool
    can_split_columns: bool
    can_split_inner: bool  # sums of products, but not those of weight gradients: they are short, and many
    has_weights: bool  # the right operand of a product is resident, with as many ports as it needs
    ports: int  # over which an operand can be spread
    left_cycles: int  # of a read port for each vector of the left operand of a product,
    right_cycles: int  # and of the right one


class Work(NamedTuple):
    """What a part of a group needs per sample."""

    cycles: int
    left_vectors: int  # vectors of the left operand, or of each input of other ops
    right_vectors: int  # vectors of the right operand of a product
    output_vectors: int


class Rates(NamedTuple):
    """The figures of a fabric that decide the work."""

    per_vector: int
    block_rows: int
    block_columns: int
    macs_per_cycle: int
    fair_rate: float  # vectors per cycle into a product that works on whole register blocks


def rates_of(fabric: Fabric) -> Rates:
    compute, per_vector = fabric.compute, fabric.elements_per_vector
    rows, columns = compute.block_rows, compute.block_columns
    fair = (rows + columns) * compute.macs_per_cycle / (rows * columns * per_vector)
    return Rates(per_vector, rows, columns, compute.macs_per_cycle, fair)


def size_of(fabric: Fabric, graph: DataflowGraph, group: Group) -> GroupSize:
    """Return the sizes of a group."""
    main, output = group.main, graph.tensors[group.output]
    kind, first = main.kind, graph.tensors[main.inputs[0]]
    interval = max(fabric.op_spec(op.kind).cycles_per_vector for op in group.ops)
    strided = fabric.memory.strided_read_cycles
    passes = 1.0
    if kind in WINDOW_KINDS:
        passes = float(window_of(main).taps)
    elif kind == OpKind.SUM_HEADS:
        passes = float(main.attributes.repeats)
    elif kind == OpKind.DISPATCH:
        passes = first.rows / output.rows
    elif kind == OpKind.COMBINE:
        passes = sum(graph.tensors[name].rows for name in main.inputs[1:]) / output.rows
    return GroupSize(
        is_product=kind in PRODUCT_KINDS,
        heads=output.heads,
        rows=output.rows,
        columns=output.columns,
        inner=graph.inner_length(main),
        interval=interval,
        passes=max(1.0, passes),
        can_split_rows=kind not in (OpKind.DISPATCH, OpKind.COMBINE),
        can_split_columns=kind not in ROW_KINDS | {OpKind.ROTARY},
        can_split_inner=kind in (OpKind.LINEAR, OpKind.MATMUL),
        has_weights=kind == OpKind.LINEAR,
        ports=GRADIENT_PORTS if kind == OpKind.WEIGHT_GRAD else MAX_PORTS,
        left_cycles=strided if kind == OpKind.WEIGHT_GRAD or main.attributes.transpose_a else 1,
        right_cycles=1 if kind == OpKind.LINEAR or main.attributes.transpose_b else strided,
    )


@njit(cache=True)
def work_of(rates: Rates, size: GroupSize, heads: int, rows: int, columns: int, inner: int) -> Work:
    """Return the work of a part with so many heads, rows, columns and elements of each sum."""
    output = heads * rows * -(-columns // rates.per_vector)
    if size.is_product:
        inner_vectors = -(-inner // rates.per_vector)
        left = heads * rows * inner_vectors * -(-columns // rates.block_columns)
        right = heads * columns * inner_vectors * -(-rows // rates.block_rows)
        macs = heads * rows * columns * inner
        cycles = max(-(-macs // rates.macs_per_cycle), left, right)
        return Work(cycles, left, right, output)
    taken = math.ceil(output * size.passes)
    return Work(taken * size.interval, taken, 0, output)


@njit(cache=True)
def _best_cuts(rates: Rates, size: GroupSize, most: int, style: Style) -> tuple[LongArray, FloatArray]:
    """Return for each number of parts up to `most` the best cut [most + 1, 4] and its pace, inf if none."""
    cuts = np.ones((most + 1, 4), np.int64)
    paces = np.full(most + 1, np.inf)
    scores = np.full(most + 1, np.inf)
    least = np.full(most + 1, np.inf)  # pace of any cut so far
    column_vectors = -(-size.columns // rates.per_vector)
    inner_vectors = max(1, -(-size.inner // rates.per_vector))
    most_rows = min(size.rows, most) if size.can_split_rows else 1
    most_columns = min(column_vectors, most) if size.can_split_columns else 1
    most_inner = min(inner_vectors, style.max_inner) if size.can_split_inner else 1
    for heads in range(1, min(size.heads, most) + 1):
        for rows in range(1, min(most_rows, most // heads) + 1):
            for columns in range(1, min(most_columns, most // (heads * rows)) + 1):
                for inner in range(1, min(most_inner, most // (heads * rows * columns)) + 1):
                    work = work_of(
                        rates,
                        size,
                        -(-size.heads // heads),
                        -(-size.rows // rows),
                        min(size.columns, -(-column_vectors // columns) * rates.per_vector),
                        min(size.inner, -(-inner_vectors // inner) * rates.per_vector),
                    )
                    busiest = max(work.left_vectors, work.right_vectors, work.output_vectors)
                    pace = max(float(work.cycles), busiest / style.flow_rate)
                    number = heads * rows * columns * inner
                    # Every distinct operand is read once and travels to all parts that share it.
                    left = work.left_vectors * size.left_cycles * heads * rows * inner
                    right = work.right_vectors * size.right_cycles * heads * columns * inner
                    trips = left * (1 + math.sqrt(columns)) + right * (1 + math.sqrt(rows))
                    pace = max(pace, left / size.ports, 0 if size.has_weights else right / size.ports)
                    rate = (work.left_vectors + work.right_vectors) / work.cycles
                    hurry = style.rate_cost * max(0.0, rate - rates.fair_rate)
                    score = pace * (1 + style.inner_cost * (inner - 1) + hurry) + style.traffic_cost * trips / number
                    if not size.is_product:  # ops on whole rows then share fewer buffers with it
                        score = pace * (1 + COLUMN_COST * (columns - 1))
                    if pace < least[number]:
                        least[number] = pace
                    elif pace > (1 + PACE_LOSS) * least[number]:
                        continue
                    # The one that is kept may be too slow beside one that came later.
                    if score < scores[number] or paces[number] > (1 + PACE_LOSS) * least[number]:
                        scores[number] = score
                        paces[number] = pace
                        cuts[number] = (heads, rows, columns, inner)
    return cuts, paces


@dataclass(frozen=True, slots=True)
class Options:
    """The cuts of a group worth having: each has more parts than the one before, and is faster."""

    units: list[int]
    paces: list[float]  # cycles per sample
    cuts: list[GroupPlan]
    is_product: bool
    _rising: list[float]  # -pace, to search in

    def first(self, pace: float) -> int:
        """Return the first option that keeps a pace; the number of options if none does."""
        return bisect_left(self._rising, -pace)


def options_of(rates: Rates, size: GroupSize, most: int, style: Style) -> Options:
    """Return the options of a group of this size with up to `most` units."""
    cuts, paces = _best_cuts(rates, size, most, style)
    units: list[int] = []
    kept: list[float] = []
    for number in range(1, most + 1):
        if paces[number] < (kept[-1] if kept else math.inf):
            units.append(number)
            kept.append(float(paces[number]))
    plans = [GroupPlan(*map(int, cuts[number])) for number in units]
    return Options(units, kept, plans, size.is_product, [-pace for pace in kept])


def balance(options: Sequence[Options], budget: int, least: float, slack: float) -> tuple[float, list[GroupPlan]]:
    """Share `budget` units so that the slowest group is as fast as can be: its pace, and all cuts.

    All groups work at the same time on different samples, so the slowest sets the pace. A pace below
    `least` is of no use: units that would bring it stay free. Each group must have a unit. Groups
    that make no products are `slack` times as fast as needed, if units are left.
    """
    paces = sorted({pace for option in options for pace in option.paces})
    low, high = 0, len(paces) - 1  # the slowest pace needs one unit for each group
    while low < high:
        middle = (low + high) // 2
        needed = 0
        for option in options:
            position = option.first(paces[middle])
            needed += option.units[position] if position < len(option.units) else budget + 1
        if needed <= budget:
            high = middle
        else:
            low = middle + 1
    pace = max(paces[low], least)
    chosen = [option.first(pace) for option in options]
    left = budget - sum(option.units[k] for option, k in zip(options, chosen, strict=True))
    for number, option in enumerate(options):
        faster = min(option.first(pace / slack), len(option.units) - 1)
        more = option.units[faster] - option.units[chosen[number]]
        if not option.is_product and more <= left:
            chosen[number], left = faster, left - more
    return pace, [option.cuts[k] for option, k in zip(options, chosen, strict=True)]
