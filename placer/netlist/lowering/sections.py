"""Cut a graph that does not fit into sections that run one after the other.

Tensors that cross a cut go through DRAM. Within a section the pipeline works on small samples: a
section of row-wise ops takes a tile of rows at a time, a section of attention ops some heads.
The time of the model is the sum over its sections of samples * cycles per sample.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from placer.base import DoesNotFitError
from placer.fabric import Fabric, SiteKind
from placer.graph import DataflowGraph
from placer.netlist import Netlist
from placer.netlist.lowering.cutting import MAX_SAMPLE_CYCLES, Segment, find_segments, section_graph
from placer.netlist.lowering.lower import lower
from placer.netlist.lowering.sharding import DEFAULT_FILL

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 40  # ways to cut a graph that are tried


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a graph that runs on the whole fabric for a while."""

    netlist: Netlist
    samples: int  # per input of the graph: row tiles or groups of heads
    repeats: int  # how many sections of the graph are alike
    ops: tuple[str, ...]  # of the first of them
    weight_bytes: int  # of the weights that stay on chip while it runs
    free_bytes: int  # of on-chip memory that its units leave; the next section's weights may go there
    macs: int  # multiply-accumulates per sample


def _section(fabric: Fabric, netlist: Netlist, samples: int, graph: DataflowGraph) -> Section:
    """Return the section of a netlist that was lowered from `graph`, which is one sample."""
    weights = sum(unit.bytes for unit in netlist.units if unit.op == "weights")
    room = fabric.num_sites(SiteKind.MEMORY) * fabric.memory.capacity_bytes
    free = room - sum(unit.bytes for unit in netlist.units)
    return Section(netlist, samples, 1, tuple(op.name for op in graph.ops), weights, free, graph.total_macs)


class _RefusedError(Exception):
    """A segment of several groups that does not fit after all: the graph must be cut elsewhere."""

    def __init__(self, segment: Segment, reason: DoesNotFitError) -> None:
        super().__init__(str(reason))
        self.segment = segment
        self.reason = reason


def lower_sections(fabric: Fabric, graph: DataflowGraph, fill: float = DEFAULT_FILL) -> tuple[Section, ...]:
    """Return the distinct sections of a graph in the order of their first use.

    A single one if the graph fits whole and its sample is not too long to pipeline well. Raises
    DoesNotFitError with the last reason when no way to cut the graph was found.
    """
    try:
        netlist = lower(fabric, graph, fill)
        if netlist.bound_cycles <= MAX_SAMPLE_CYCLES:
            return (_section(fabric, netlist, 1, graph),)
    except DoesNotFitError as error:
        log.info("%s: %s", graph.name, error)

    refused: set[tuple[object, ...]] = set()
    while True:
        segments = find_segments(fabric, graph, fill, refused)
        try:
            return _lower_segments(fabric, graph, segments, fill)
        except _RefusedError as refusal:
            refused.add(refusal.segment.signature)
            if len(refused) == MAX_ATTEMPTS:
                segment, reason = refusal.segment, refusal.reason
                where = f"the section of {segment.first_op!r} to {segment.last_op!r}"
                raise DoesNotFitError(
                    f"{reason.resource}, in {where}, the last of {MAX_ATTEMPTS} tries to cut "
                    f"{graph.name!r},",
                    reason.demand, reason.limit, "use a larger fabric",
                ) from reason  # fmt: skip


def _lower_segments(
    fabric: Fabric, graph: DataflowGraph, segments: Sequence[Segment], fill: float
) -> tuple[Section, ...]:
    """Lower the segments, alike ones together.

    Raises _RefusedError for a segment that does not fit, DoesNotFitError if it is a single group.
    """
    sections: dict[tuple[object, ...], Section] = {}
    for segment in segments:
        known = sections.get(segment.signature)
        if known is not None:
            sections[segment.signature] = replace(known, repeats=known.repeats + 1)
            continue
        part = section_graph(graph, segment, f"{graph.name}.{len(sections)}")
        try:
            netlist = lower(fabric, part, fill)
        except DoesNotFitError as error:
            log.info("section of %s to %s: %s", segment.first_op, segment.last_op, error)
            if len(segment.groups) == 1:
                raise DoesNotFitError(
                    f"{error.resource}, for op {segment.first_op!r} alone:",
                    error.demand, error.limit, "use a larger fabric or a narrower layer",
                ) from error  # fmt: skip
            raise _RefusedError(segment, error) from error
        sections[segment.signature] = _section(fabric, netlist, segment.tiling.samples, part)
    return tuple(sections.values())
