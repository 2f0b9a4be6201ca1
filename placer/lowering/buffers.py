"""How a stored tensor is cut into buffers, so that neither capacity nor ports hold things up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from placer.errors import DoesNotFitError
from placer.fabric import Fabric
from placer.graph import Tensor
from placer.lowering.needs import Need
from placer.lowering.regions import Region, grid, whole

PORT_SHARE = 0.5  # of the bound that the port of a buffer may be needed for
FLOW_SHARE = 0.35  # of the bound that one flow into or out of a buffer may need at one per cycle
EXTRA_PARTS = 24  # more parts than the capacity asks for that are tried


@dataclass(frozen=True, slots=True)
class Transfer:
    """A flow between a buffer part and units."""

    part: int
    units: tuple[int, ...]
    tokens: int
    read_cycles: int


@dataclass(frozen=True, slots=True)
class BufferPlan:
    """Parts of one tensor and the flows at them."""

    parts: tuple[Region, ...]
    slots: int
    writes: tuple[Transfer, ...]  # one per producer and part
    reads: tuple[Transfer, ...]  # one per need and part


def plan_buffer(
    fabric: Fabric,
    tensor: Tensor,
    slots: int,
    producers: list[tuple[int, Region]],  # unit id, region; empty: loaded from DRAM
    needs: list[Need],
    bound_cycles: int,
    max_parts: int,
) -> BufferPlan:
    """Cut a tensor into the fewest parts whose ports and flows keep up with the bound.

    More than `max_parts` only if the capacity of a memory unit asks for them.
    """
    best: tuple[float, int, BufferPlan] | None = None
    least_bytes = slots * part_bytes(fabric, whole(tensor))  # of the largest part, over all cuts
    for heads, rows, columns in _cuts(fabric, tensor, slots):
        num_parts = heads * rows * columns
        is_beaten = best and best[0] <= 1.0 and num_parts >= best[1]  # by its parts alone
        if best and (num_parts > max_parts or is_beaten):
            break
        parts = grid(whole(tensor), heads, rows, columns, fabric.elements_per_vector)
        largest = slots * max(part_bytes(fabric, part) for part in parts)
        least_bytes = min(least_bytes, largest)
        if largest > fabric.memory.capacity_bytes:
            continue
        plan = _plan(fabric, tuple(parts), slots, producers, needs)
        excess = max(1.0, _pressure(fabric, plan, bound_cycles))
        key = (excess, len(parts) + len(plan.reads) + len(plan.writes))
        if best is None or key < best[:2]:
            best = (*key, plan)
    if best is None:
        raise DoesNotFitError(
            f"bytes in one memory unit for {slots} slots of tensor {tensor.name!r}",
            least_bytes,
            fabric.memory.capacity_bytes,
            "use smaller samples (fewer rows) or a fabric with larger memory units",
        )
    return best[2]


def part_bytes(fabric: Fabric, part: Region) -> int:
    """Bytes of one slot; rows are padded to whole vectors."""
    return vectors(fabric, part) * fabric.vector_bytes


def vectors(fabric: Fabric, region: Region) -> int:
    """Vectors of a region: rows of whole vectors."""
    columns = region.columns[1] - region.columns[0]
    return region.elements // columns * -(-columns // fabric.elements_per_vector) if columns else 0


def _cuts(fabric: Fabric, tensor: Tensor, slots: int) -> Iterator[tuple[int, int, int]]:
    """Numbers of parts along heads, rows and columns, fewest parts first."""
    max_columns = -(-tensor.columns // fabric.elements_per_vector)
    size = slots * part_bytes(fabric, whole(tensor))
    fewest = -(-size // fabric.memory.capacity_bytes)
    most = fewest + EXTRA_PARTS
    cuts = [
        (heads, rows, columns)
        for heads in range(1, min(tensor.heads, most) + 1)
        for rows in range(1, min(tensor.rows, most // heads) + 1)
        for columns in range(
            -(-fewest // (heads * rows)), min(max_columns, most // (heads * rows)) + 1
        )
    ]
    yield from sorted(cuts, key=lambda cut: (cut[0] * cut[1] * cut[2], cut))


def _plan(
    fabric: Fabric,
    parts: tuple[Region, ...],
    slots: int,
    producers: list[tuple[int, Region]],
    needs: list[Need],
) -> BufferPlan:
    writes, reads = [], []
    for number, part in enumerate(parts):
        for unit, region in producers:
            overlap = part.intersect(region)
            if overlap.elements:
                writes.append(Transfer(number, (unit,), vectors(fabric, overlap), 1))
        for need in needs:
            overlap = part.intersect(need.read.region)
            if overlap.elements:
                cycles = fabric.memory.strided_read_cycles if need.read.strided else 1
                tokens = vectors(fabric, overlap) * need.repeats
                reads.append(Transfer(number, need.targets, tokens, cycles))
    return BufferPlan(parts, slots, tuple(writes), tuple(reads))


def _pressure(fabric: Fabric, plan: BufferPlan, bound_cycles: int) -> float:
    """Largest load of a port or flow, in units of what it may have; <= 1 is good."""
    read_load = [0] * len(plan.parts)
    write_load = [0] * len(plan.parts)
    flow_load = 0
    for transfer in plan.reads:
        read_load[transfer.part] += transfer.tokens * transfer.read_cycles
        flow_load = max(flow_load, transfer.tokens)
    for number, part in enumerate(plan.parts):
        into_part = [t.tokens for t in plan.writes if t.part == number]
        write_load[number] = sum(into_part) or vectors(fabric, part)
        flow_load = max(flow_load, *into_part, 0 if into_part else vectors(fabric, part))
    port = max(*read_load, *write_load) if len(read_load) + len(write_load) > 1 else 0
    return max(port / (PORT_SHARE * bound_cycles), flow_load / (FLOW_SHARE * bound_cycles))
