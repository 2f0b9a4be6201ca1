"""How many compute units each group gets, and which part of the output each of them makes.

All groups work at the same time on different samples, so the slowest sets the pace: units go, one
split after the other, to the group whose shards have the most work.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

from placer.base import DoesNotFitError
from placer.fabric import Fabric, SiteKind
from placer.graph import PRODUCT_KINDS, DataflowGraph
from placer.netlist.lowering.groups import ROW_KINDS, Group
from placer.netlist.lowering.regions import Region, cuts, grid, whole

DEFAULT_FILL = 0.85  # share of the compute units that lowering may use
FLOW_RATES = (0.75, 1.0)  # vectors per cycle that a flow may need: what is fair, and the most
MIN_FILL = 0.5  # share of the compute units below which flows may need the most
MAX_SPLIT = 64  # most parts along one axis


Split = tuple[int, int, int]  # parts along heads, rows and columns of a group's output


@dataclass(frozen=True, slots=True)
class Work:
    """What the largest shard of a split needs per sample."""

    cycles: int
    left_vectors: int  # vectors of the left operand, or of each input of other ops
    right_vectors: int  # vectors of the right operand of a product
    output_vectors: int

    def pace(self, flow_rate: float) -> float:
        """Return the cycles per sample when the flows carry `flow_rate` vectors per cycle."""
        busiest = max(self.left_vectors, self.right_vectors, self.output_vectors)
        return max(self.cycles, busiest / flow_rate)


def shard_regions(fabric: Fabric, graph: DataflowGraph, group: Group, split: Split) -> list[Region]:
    """Return the part of the output that each shard makes."""
    return grid(whole(graph.tensors[group.output]), *split, fabric.elements_per_vector)


def shard_work(fabric: Fabric, graph: DataflowGraph, group: Group, region: Region) -> Work:
    """Return the work of a shard that makes `region`.

    A product keeps a register block of block_rows x block_columns partial sums: the left operand
    passes once per column of blocks, the right operand once per row of blocks.
    """
    per_vector = fabric.elements_per_vector
    heads, rows, columns = region.sizes
    if group.main.kind in PRODUCT_KINDS:
        inner = graph.inner_length(group.main)
        inner_vectors = -(-inner // per_vector)
        left = heads * rows * inner_vectors * -(-columns // fabric.compute.block_columns)
        right = heads * columns * inner_vectors * -(-rows // fabric.compute.block_rows)
        macs = heads * rows * columns * inner
        cycles = max(-(-macs // fabric.compute.macs_per_cycle), left, right)
        return Work(cycles, left, right, heads * rows * -(-columns // per_vector))
    vectors = heads * rows * -(-columns // per_vector)
    interval = max(fabric.op_spec(op.kind).cycles_per_vector for op in group.ops)
    return Work(vectors * interval, vectors, 0, vectors)


def candidate_splits(fabric: Fabric, graph: DataflowGraph, group: Group, limit: int, flow_rate: float) -> list[Split]:
    """Return the best split for each number of shards, each with less work per shard."""
    output = graph.tensors[group.output]
    max_columns = -(-output.columns // fabric.elements_per_vector)
    limits = (
        output.heads,
        min(output.rows, MAX_SPLIT),
        1 if group.main.kind in ROW_KINDS else min(max_columns, MAX_SPLIT),
    )
    best: dict[int, tuple[float, int, Split]] = {}
    for split in cuts(limits, 1, limit):
        heads, rows, columns = split
        largest = Region(
            (0, -(-output.heads // heads)),
            (0, -(-output.rows // rows)),
            (0, min(output.columns, -(-max_columns // columns) * fabric.elements_per_vector)),
        )
        work = shard_work(fabric, graph, group, largest)
        # Among equal paces prefer little traffic, and few copies of the left operand.
        key = (work.pace(flow_rate), work.left_vectors + work.right_vectors)
        number = math.prod(split)
        if number not in best or key < best[number][:2]:
            best[number] = (*key, split)
    chosen: list[Split] = []
    least = math.inf
    for number in sorted(best):
        pace, _, split = best[number]
        if pace < least:
            chosen.append(split)
            least = pace
    return chosen


def balance(fabric: Fabric, graph: DataflowGraph, groups: list[Group], budget: int) -> dict[Group, Split]:
    """Give `budget` compute units to the groups so that the largest shard is small."""
    if len(groups) > budget:
        raise DoesNotFitError(
            "compute units", len(groups), budget, "cut the graph into sections or use a larger fabric"
        )
    for flow_rate in FLOW_RATES:
        splits = _balance(fabric, graph, groups, budget, flow_rate)
        used = sum(map(math.prod, splits.values()))
        if used >= MIN_FILL * fabric.num_sites(SiteKind.COMPUTE):
            break
    return splits


def _balance(
    fabric: Fabric, graph: DataflowGraph, groups: list[Group], budget: int, flow_rate: float
) -> dict[Group, Split]:
    options = {group: candidate_splits(fabric, graph, group, budget, flow_rate) for group in groups}
    level = dict.fromkeys(groups, 0)
    left = budget - len(groups)

    def pace(group: Group) -> float:
        regions = shard_regions(fabric, graph, group, options[group][level[group]])
        return max(shard_work(fabric, graph, group, region).pace(flow_rate) for region in regions)

    heap = [(-pace(group), position) for position, group in enumerate(groups)]
    heapq.heapify(heap)
    while heap:
        _, position = heapq.heappop(heap)
        group = groups[position]
        if level[group] + 1 == len(options[group]):
            break  # the slowest group cannot be split further: more units elsewhere win nothing
        now, following = options[group][level[group] :][:2]
        needed = math.prod(following) - math.prod(now)
        if needed > left:
            break
        left -= needed
        level[group] += 1
        heapq.heappush(heap, (-pace(group), position))
    return {group: options[group][level[group]] for group in groups}


def macs_for_cycles(fabric: Fabric, cycles: int, fill: float = DEFAULT_FILL) -> int:
    """Return the multiply-accumulates of the fabric, filled as lowering does, in `cycles`."""
    return int(fill * fabric.num_sites(SiteKind.COMPUTE) * fabric.compute.macs_per_cycle * cycles)
