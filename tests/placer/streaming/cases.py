"""Small programs and devices for tests."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import strategies as st

from placer.streaming.model import Device, InfeasibleError, Instruction, Program, check, growing_network, layered
from placer.streaming.search import Problem, make_problem


def graph(num_nodes: int, *edges: tuple[int, int], **memories: tuple[int, ...]) -> Program:
    return Program("case", (Instruction(),) * num_nodes, tuple(sorted(edges)), memories)


@st.composite
def problems(draw: st.DrawFn, most_nodes: int = 14) -> Problem:
    """Random problems that are not plainly infeasible."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    size = draw(st.integers(2, most_nodes))
    device = Device(
        tiles=draw(st.integers(4, 16)),
        ii=draw(st.integers(2, 7)),
        depth=draw(st.integers(1, 4)),
        max_hop=draw(st.sampled_from([None, None, 2, 4])),
    )
    if draw(st.booleans()):
        program = layered(size, rng, memories=draw(st.integers(0, 2)))
    else:
        program = growing_network(size, rng)
    try:
        return make_problem(program, device)
    except InfeasibleError:
        return make_problem(program, Device(tiles=32, ii=8))


def least_cycles(program: Program, device: Device) -> int | None:
    """The optimum by trying everything; None: there is no mapping."""
    slots = list(product(range(device.tiles), range(device.ii)))
    verdicts = (
        check(program, device, *zip(*choice, strict=True)) for choice in product(slots, repeat=program.num_nodes)
    )
    return min((verdict.cycles for verdict in verdicts if verdict.is_legal), default=None)
