"""Which rearranging ops (transpose, heads) bring a tensor into another order.

They are views, not work, on the fabric; the shortest chain of them is found by search.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from placer.importing.views import Atom, Atoms, OrderError
from placer.ops import OpAttributes, OpKind

NO_ATTRIBUTES = OpAttributes()
MAX_STEPS = 6
MAX_ATOMS = 8  # the search grows with their fourth power


class Order(NamedTuple):
    """What lies along the axes of a tensor; a matrix has no heads."""

    heads: Atoms
    rows: Atoms
    columns: Atoms


@dataclass(frozen=True, slots=True)
class Step:
    """One rearranging op."""

    kind: OpKind
    attributes: OpAttributes = NO_ATTRIBUTES

    def __str__(self) -> str:
        if self.kind == OpKind.SLICE:
            return f"{self.attributes.start}_{self.attributes.stop}"
        return self.kind.value


def find_steps(start: Order, goal: Order) -> list[Step]:
    """The fewest ops from one order to another; OrderError if there are none."""
    start, goal = _refined(start, goal), _refined(goal, start)
    if sum(len(part) for part in start) > MAX_ATOMS:
        raise OrderError("a change of order between too many dimensions")
    reached: dict[Order, list[Step]] = {start: []}
    waiting = deque([start])
    while waiting:
        order = waiting.popleft()
        if order == goal:
            return reached[order]
        if len(reached[order]) < MAX_STEPS:
            for step, following in _moves(order):
                if following not in reached:
                    reached[following] = [*reached[order], step]
                    waiting.append(following)
    raise OrderError("a change of order that is no transpose and no split into heads")


def _moves(order: Order) -> list[tuple[Step, Order]]:
    heads, rows, columns = order
    moves = [(Step(OpKind.TRANSPOSE), Order(heads, columns, rows))]
    if heads:
        moves.append((Step(OpKind.MERGE_HEADS), Order((), rows, heads + columns)))
    else:
        for cut in range(1, len(columns) + 1):
            number = math.prod(atom.size for atom in columns[:cut])
            step = Step(OpKind.SPLIT_HEADS, OpAttributes(heads=number))
            moves.append((step, Order(columns[:cut], rows, columns[cut:])))
    return moves


def _refined(order: Order, other: Order) -> Order:
    """The same order, its atoms cut wherever those of the other order end."""
    ends = {(atom.axis, atom.stride) for part in other for atom in part}

    def cut(part: Atoms) -> Atoms:
        pieces: list[Atom] = []
        for atom in part:
            inside = sorted(
                stride
                for axis, stride in ends
                if axis == atom.axis and atom.stride < stride < atom.stride * atom.size
            )
            top = atom.stride * atom.size
            for stride in reversed([atom.stride, *inside]):
                pieces.append(Atom(atom.axis, stride, top // stride))
                top = stride
        return tuple(pieces)

    return Order(*(cut(part) for part in order))
