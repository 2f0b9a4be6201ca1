"""The buffers of a stored tensor: what passes between its parts, its writers and its readers.

`transfers` works out the flows of any cut, `choose_parts` the cut with the fewest parts whose ports
and flows keep up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from placer.base import FloatArray, LongArray
from placer.fabric import Fabric
from placer.netlist.lowering.draft import Draft, StoredTensor
from placer.netlist.lowering.regions import Region, vectors, whole

MORE_PARTS = 2.0  # times the fewest parts that keep up, which are looked at for fewer flows
EXCESS_SLACK = 1.3  # times the least excess that is taken for fewer flows, where no cut keeps up

Boxes = LongArray  # [num, 6] heads, rows and columns: start and end of each


class Traffic(NamedTuple):
    """What is written into a tensor and read from it, per sample."""

    shape: LongArray  # [3] heads, rows, columns
    writes: Boxes
    write_tokens: LongArray  # [num_writes] vectors of the whole box
    reads: Boxes
    read_tokens: LongArray  # [num_reads] vectors of the whole box, all passes
    read_cycles: LongArray  # [num_reads] read-port cycles per vector
    read_limits: FloatArray  # [num_reads] most vectors of one flow that keep up
    per_vector: int


def tensor_traffic(fabric: Fabric, draft: Draft, tensor: StoredTensor, limits: list[float] | None = None) -> Traffic:
    """Return what is written into a tensor and read from it; `limits` of the reads if they matter."""
    per_vector = fabric.elements_per_vector
    shape = draft.graph.tensors[tensor.name]
    writers = [region for _, region in tensor.producers] or [whole(shape)]
    needs = tensor.needs
    strided = fabric.memory.strided_read_cycles
    return Traffic(
        shape=np.array([shape.heads, shape.rows, shape.columns], np.int64),
        writes=boxes_of(writers),
        write_tokens=np.array([vectors(region, per_vector) for region in writers], np.int64),
        reads=boxes_of([need.read.region for need in needs]),
        read_tokens=np.array([need.tokens for need in needs], np.int64),
        read_cycles=np.array([strided if need.read.strided else 1 for need in needs], np.int64),
        read_limits=np.array(limits if limits is not None else [1.0] * len(needs), np.float64),
        per_vector=per_vector,
    )


def boxes_of(regions: list[Region]) -> Boxes:
    """Return regions as rows of numbers."""
    return np.array([[*r.heads, *r.rows, *r.columns] for r in regions], np.int64).reshape(-1, 6)


@njit(cache=True)
def _edge(total: int, parts: int, multiple: int, number: int) -> int:
    """Return where part `number` begins, as `regions.split` cuts."""
    chunks = -(-total // multiple)
    return min(total, chunks * number // min(parts, chunks) * multiple)


@njit(cache=True)
def _first_part(total: int, parts: int, multiple: int, position: int) -> int:
    """Return the part that a position lies in."""
    chunks = -(-total // multiple)
    parts = min(parts, chunks)
    number = (position // multiple) * parts // chunks
    while number + 1 < parts and _edge(total, parts, multiple, number + 1) <= position:
        number += 1
    while number > 0 and _edge(total, parts, multiple, number) > position:
        number -= 1
    return number


@njit(cache=True)
def _touched(traffic: Traffic, cut: LongArray, box: LongArray) -> LongArray:
    """Return the first and the last part of each axis that a box lies in."""
    found = np.empty(6, np.int64)
    for axis in range(3):
        multiple = traffic.per_vector if axis == 2 else 1
        found[2 * axis] = _first_part(traffic.shape[axis], cut[axis], multiple, box[2 * axis])
        found[2 * axis + 1] = _first_part(traffic.shape[axis], cut[axis], multiple, box[2 * axis + 1] - 1)
    return found


@njit(cache=True)
def _overlap(traffic: Traffic, cut: LongArray, part: LongArray, box: LongArray) -> int:
    """Return the vectors of a box that lie in one part, given by its number along each axis."""
    size = np.empty(3, np.int64)
    for axis in range(3):
        multiple = traffic.per_vector if axis == 2 else 1
        start = _edge(traffic.shape[axis], cut[axis], multiple, part[axis])
        end = _edge(traffic.shape[axis], cut[axis], multiple, part[axis] + 1)
        size[axis] = min(end, box[2 * axis + 1]) - max(start, box[2 * axis])
        if size[axis] <= 0:
            return 0
    return int(size[0] * size[1] * -(-size[2] // traffic.per_vector))


@njit(cache=True)
def transfers(traffic: Traffic, cut: LongArray, boxes: Boxes, tokens: LongArray) -> tuple[LongArray, LongArray]:
    """Return (box, part) [num, 2] of every flow between a box and a part, and its tokens [num]."""
    pairs = [(0, 0)]
    passing = [0]
    part = np.empty(3, np.int64)
    for number in range(len(boxes)):
        box = boxes[number]
        whole = (box[1] - box[0]) * (box[3] - box[2]) * -(-(box[5] - box[4]) // traffic.per_vector)
        near = _touched(traffic, cut, box)
        for heads in range(near[0], near[1] + 1):
            for rows in range(near[2], near[3] + 1):
                for columns in range(near[4], near[5] + 1):
                    part[:] = (heads, rows, columns)
                    shared = _overlap(traffic, cut, part, box)
                    if shared:
                        pairs.append((number, (heads * cut[1] + rows) * cut[2] + columns))
                        passing.append(-(-tokens[number] * shared // whole))
    found = np.empty((len(pairs) - 1, 2), np.int64)
    for k in range(len(found)):
        found[k, 0], found[k, 1] = pairs[k + 1]
    return found, np.array(passing[1:], np.int64)


@njit(cache=True)
def _excess(traffic: Traffic, cut: LongArray, port_limit: float, write_limit: float) -> tuple[float, int]:
    """Return the largest load of a port or flow over what it may have, and the number of flows."""
    parts = cut[0] * cut[1] * cut[2]
    load = np.zeros(parts)
    worst = 0.0
    pairs, passing = transfers(traffic, cut, traffic.reads, traffic.read_tokens)
    flows = len(pairs)
    for k in range(len(pairs)):
        read = pairs[k, 0]
        load[pairs[k, 1]] += passing[k] * traffic.read_cycles[read]
        worst = max(worst, passing[k] / traffic.read_limits[read])
    for part in range(parts):
        worst = max(worst, load[part] / port_limit)
    load[:] = 0
    pairs, passing = transfers(traffic, cut, traffic.writes, traffic.write_tokens)
    for k in range(len(pairs)):
        load[pairs[k, 1]] += passing[k]
        worst = max(worst, passing[k] / write_limit)
    for part in range(parts):
        worst = max(worst, load[part] / port_limit)
    return worst, flows + len(pairs)


@njit(cache=True)
def choose_parts(
    traffic: Traffic, fewest: int, most: int, slot_vectors: int, port_limit: float, write_limit: float
) -> LongArray:
    """Return a cut with few parts and flows, all of whose ports and flows keep up.

    At least `fewest` parts, and no part of more than `slot_vectors` vectors. If no cut keeps up, it
    is one of those with the least excess; [0, 0, 0] if none fits.
    """
    limits = (traffic.shape[0], traffic.shape[1], -(-traffic.shape[2] // traffic.per_vector))
    cuts, excesses, prices = [np.zeros(3, np.int64)], [np.inf], [0]
    least, last = np.inf, most
    for number in range(fewest, most + 1):
        if number > last:
            break
        for heads in range(1, min(limits[0], number) + 1):
            if number % heads:
                continue
            for rows in range(1, min(limits[1], number // heads) + 1):
                if (number // heads) % rows or number // (heads * rows) > limits[2]:
                    continue
                cut = np.array([heads, rows, number // (heads * rows)])
                largest = -(-limits[0] // cut[0]) * -(-limits[1] // cut[1]) * -(-limits[2] // cut[2])
                if largest > slot_vectors:
                    continue
                excess, flows = _excess(traffic, cut, port_limit, write_limit)
                cuts.append(cut)
                excesses.append(excess)
                prices.append(flows + number)
                least = min(least, excess)
        if least <= 1 and last == most:
            last = min(most, int(MORE_PARTS * number))
    limit = 1.0 if least <= 1 else EXCESS_SLACK * least
    best = 0
    for k in range(1, len(cuts)):
        if excesses[k] <= limit and (not best or prices[k] < prices[best]):
            best = k
    return cuts[best]
