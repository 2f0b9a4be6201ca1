"""Where to cut a network into sections, by dynamic programming over the time of each.

The time of a section is estimated before it is laid out: pace by `balance`, or DRAM if that is
slower, for a batch of inputs; plus switching, loading of weights and filling (docs/lowering.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

from placer.base import DoesNotFitError
from placer.fabric import Fabric, SiteKind
from placer.graph import DataflowGraph, OpAttributes, OpKind
from placer.netlist.lowering.groups import Group, stored
from placer.netlist.lowering.rules import balance_groups, compute_budget
from placer.netlist.lowering.slicing import WEIGHT_SHARE, weight_bytes
from placer.netlist.lowering.tiling import Tiles, find_tiles, load_shape, stored_readers, tiled_size, views_below
from placer.netlist.lowering.work import USUAL, GroupSize, size_of
from placer.netlist.plan import TileAxis, Tiling

DEFAULT_BATCH = 32  # inputs that pass a section before the next one is switched to
MAX_SAMPLE_CYCLES = 20000  # samples of this length and more are slow to simulate
MEMORY_SHARE = 0.9  # of the on-chip memory that weights and activations may take
WAIT_CYCLES = 200  # that a product waits at the start of a sample: about a round trip
MAX_GROUPS = 24  # of one section
TILES = (8, 16, 24, 32, 48, 64, 80, 96, 128, 160, 192, 256)  # rows of a sample that are tried
BANDS = (1, 2, 3, 4, 5, 7, 8, 10, 14, 16, 19, 28, 38, 56)  # rows of pixels that are tried
FILL_STAGES = 0.75  # of a period that a sample spends in each stage while the pipeline fills
CALM = USUAL._replace(flow_rate=0.5)  # where samples are chosen: with larger ones flows can be slower
LAST_RESORT = 1e15  # cycles of a section that is not known to fit


Key = tuple[object, ...]  # equal for parts of a network that are alike but for names


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive groups that form a section."""

    groups: tuple[Group, ...]
    tiling: Tiling
    key: Key


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is known of a group wherever it stands."""

    size: GroupSize
    inputs: tuple[str, ...]  # stored tensors
    weight_bytes: int
    alike: int  # equal for groups that are alike in themselves and in their wiring nearby


class Cutter:
    """Cuts one network; remembers the time of every part it has looked at."""

    def __init__(self, fabric: Fabric, graph: DataflowGraph, groups: Sequence[Group], fill: float, batch: int) -> None:
        self.fabric, self.graph, self.groups, self.batch = fabric, graph, groups, batch
        self.budget = compute_budget(fabric, fill)
        self.readers = stored_readers(graph)
        self.room = fabric.num_sites(SiteKind.MEMORY) * fabric.memory.capacity_bytes
        self.facts = _facts_of(fabric, graph, groups, self.readers)
        self._best: dict[Key, tuple[float, Tiling] | None] = {}
        self.refused: set[Key] = set()

    def tiling(self, start: int, end: int) -> Tiling:
        """Return the best tiling of a segment that can be a section."""
        found = self._time(start, end)
        assert found is not None
        return found[1]

    def _ending(self, end: int) -> Iterator[tuple[int, float]]:
        """Yield where sections that end here may begin, and their times."""
        weights = 0
        for start in range(end - 1, max(-1, end - MAX_GROUPS - 1), -1):
            weights += self.facts[start].weight_bytes
            if end - start > 1 and weights > WEIGHT_SHARE * self.room:
                break
            found = self._time(start, end)
            if found is not None:
                yield start, found[0]

    def near_best(self, slack: float) -> list[tuple[float, int, int]]:
        """Return the time of the network, with begin and end, of each section that is in a good cut, best first.

        The cut around it takes at most 1 + `slack` of the least time.
        """
        number = len(self.groups)
        times = [(start, end, time) for end in range(1, number + 1) for start, time in self._ending(end)]
        before, behind = [0.0] + [inf] * number, [inf] * number + [0.0]
        for start, end, time in times:  # ends rise
            before[end] = min(before[end], before[start] + time)
        for start, end, time in reversed(times):
            behind[start] = min(behind[start], time + behind[end])
        most = (1 + slack) * before[-1]
        found = [(before[start] + time + behind[end], start, end) for start, end, time in times]
        return sorted(one for one in found if one[0] <= most)

    def find_segments(self) -> list[Segment]:
        """Return the fastest way to cut; no segment of several groups is one of those refused."""
        times = [0.0]  # of the best cut of the first 0, 1, 2, ... groups
        begins: list[int] = []
        for end in range(1, len(self.groups) + 1):
            best, begin = inf, end - 1
            for start, time in self._ending(end):
                if times[start] + time < best:
                    best, begin = times[start] + time, start
            times.append(best)
            begins.append(begin)
        segments: list[Segment] = []
        end = len(self.groups)
        while end > 0:
            start = begins[end - 1]
            found = self._time(start, end)
            assert found is not None
            segments.append(Segment(tuple(self.groups[start:end]), found[1], (*self._key(start, end), found[1])))
            end = start
        return segments[::-1]

    def _key(self, start: int, end: int) -> Key:
        return tuple(fact.alike for fact in self.facts[start:end])

    def _time(self, start: int, end: int) -> tuple[float, Tiling] | None:
        """Return the least time per input of a segment and its tiling; None if it cannot be a section."""
        key = self._key(start, end)
        if key not in self._best:
            self._best[key] = self._best_tiling(start, end, key)
        return self._best[key]

    def _best_tiling(self, start: int, end: int, key: Key) -> tuple[float, Tiling] | None:
        groups = tuple(self.groups[start:end])
        tiles = find_tiles(self.graph, groups)
        sizes = tile_sizes(tiles)
        best: tuple[float, Tiling] | None = None
        for size in sizes:
            tiling = tiles.tiling(size)
            if (*key, tiling) in self.refused:
                continue
            time, period = self._time_of(start, end, tiles, tiling)
            if period > MAX_SAMPLE_CYCLES and (best is not None or len(groups) > 1):
                break
            if time < (best[0] if best else inf):
                best = (time, tiling)
        if best is None and len(groups) == 1:  # it must be a section of its own
            return LAST_RESORT, tiles.tiling(sizes[0])
        return best

    def refuse(self, key: Key) -> None:
        """Note a segment, with its tiling, that cannot be a section."""
        self.refused.add(key)
        self._best.pop(key[:-1], None)

    def _time_of(self, start: int, end: int, tiles: Tiles, tiling: Tiling) -> tuple[float, float]:
        """Return the cycles per input of a segment, inf if memory cannot hold it, and its period."""
        facts, groups = self.facts[start:end], self.groups[start:end]
        sizes = [tiled_size(fact.size, group, tiles, tiling) for fact, group in zip(facts, groups, strict=True)]
        moved = self._moved(start, end, tiles, tiling)
        try:
            pace, plans = balance_groups(self.fabric, sizes, self.budget, moved, CALM)
        except DoesNotFitError:
            return inf, inf
        stages, held = self._storage(start, end, tiles, tiling, [plan.inner for plan in plans])
        weights = sum(fact.weight_bytes for fact in facts)
        if weights + held > MEMORY_SHARE * self.room and len(groups) > 1:
            return inf, pace
        period = pace + WAIT_CYCLES
        first = (stages * FILL_STAGES + 1) * period
        loading = weights / self.fabric.dram_bytes_per_cycle
        total = self.fabric.switch_cycles + loading + first + (self.batch * tiling.samples - 1) * period
        return total / self.batch, period

    def _elements(self, name: str, group: Group | None, tiles: Tiles, tiling: Tiling) -> float:
        """Return the elements of one sample of a stored tensor, loaded or made by a group."""
        tensor = self.graph.tensors[name]
        if group is None:
            return float(math.prod(load_shape(tensor.shape, tiles, tiling, name)))
        if group.main.kind == OpKind.WEIGHT_GRAD or tiling.axis == TileAxis.NONE:
            return float(tensor.elements)
        if tiling.axis == TileAxis.ROWS:
            return tensor.elements / tensor.rows * tiling.size
        return tensor.elements / tiling.samples

    def _moved(self, start: int, end: int, tiles: Tiles, tiling: Tiling) -> float:
        """Return the vectors that a sample loads and stores."""
        groups = self.groups[start:end]
        inside = {op.name for group in groups for op in group.ops}
        loads = {name for fact in self.facts[start:end] for name in fact.inputs if name not in inside}
        moved = sum(self._elements(name, None, tiles, tiling) for name in loads)
        for group in groups:
            if not self.readers.get(group.output, frozenset()) <= inside:
                moved += self._elements(group.output, group, tiles, tiling)
        return moved / self.fabric.elements_per_vector

    def _storage(self, start: int, end: int, tiles: Tiles, tiling: Tiling, inner: list[int]) -> tuple[int, float]:
        """Return the stages of a segment, and the bytes of its activations."""
        written: dict[str, int] = {}  # stage
        last_read: dict[str, int] = {}
        elements: dict[str, float] = {}
        for group, fact, parts in zip(self.groups[start:end], self.facts[start:end], inner, strict=True):
            finish = max(written.get(name, 0) for name in fact.inputs) + parts
            for name in fact.inputs:
                last_read[name] = max(last_read.get(name, 0), finish)
                if name not in written:
                    written[name], elements[name] = 0, self._elements(name, None, tiles, tiling)
            written[group.output] = finish
            elements[group.output] = self._elements(group.output, group, tiles, tiling)
        held = sum(size * (1 + max(last_read.get(name, 0) - written[name], 1)) for name, size in elements.items())
        return max(written.values()), held * self.fabric.element_bytes


def tile_sizes(tiles: Tiles) -> list[int]:
    """Return the sizes of a tile that are tried, in rows, rows of pixels or heads; smallest first."""
    if tiles.axis == TileAxis.NONE:
        return [1]
    if tiles.axis == TileAxis.HEADS:
        return [size for size in range(1, tiles.extent + 1) if tiles.extent % size == 0]
    tried = TILES if tiles.step == 1 else BANDS
    # As many rows as the same number of samples asks for: the last one is as full as can be.
    even = {-(-tiles.extent // -(-tiles.extent // size)) for size in tried if size < tiles.extent}
    return sorted(even | {tiles.extent}) if tiles.extent <= 4 * tried[-1] else sorted(even)


def _facts_of(
    fabric: Fabric, graph: DataflowGraph, groups: Sequence[Group], readers: dict[str, frozenset[str]]
) -> list[_Facts]:
    position = {group.output: number for number, group in enumerate(groups)}
    group_of = {op.name: number for number, group in enumerate(groups) for op in group.ops}
    last_reader: dict[str, int] = {}
    known: dict[Key, int] = {}
    facts = []
    for number, group in enumerate(groups):
        parts: list[object] = []
        inputs: list[str] = []
        for tensor in group.main.inputs:
            views = tuple((view.kind, view.attributes) for view in views_below(graph, tensor))
            parts.append((views, graph.tensors[tensor].shape))
            for name in sorted(stored(graph, tensor), key=graph.position):
                inputs.append(name)
                near = (_near(number - position[name]) if name in position else graph.op(name).kind,)
                parts.append((*near, _near(number - last_reader.get(name, -MAX_GROUPS)), graph.tensors[name].shape))
                last_reader[name] = number
        ahead = {_near(group_of[name] - number) if name in group_of else 0 for name in readers.get(group.output, ())}
        kinds = tuple((op.kind, nameless(op.attributes)) for op in group.ops)
        key = (kinds, graph.tensors[group.output].shape, *parts, frozenset(ahead))
        weight = weight_bytes(fabric, graph, group.main)
        alike = known.setdefault(key, len(known))
        facts.append(_Facts(size_of(fabric, graph, group), tuple(dict.fromkeys(inputs)), weight, alike))
    return facts


def _near(distance: int) -> int:
    """Return a distance between groups; all that cannot be in one section are the same."""
    return min(distance, MAX_GROUPS)


def nameless(attributes: OpAttributes) -> OpAttributes:
    """Return the constants of an op without which weight, slice of it or expert it is."""
    return replace(attributes, weight="", first_column=0, weight_columns=0, expert=0)
