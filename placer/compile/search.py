"""The search: draft, verify, learn, until the time is over.

1. The plan by rules is placed and simulated: the first result, which only a faster one replaces. With
   `draft_first`, new plans of all segments are judged before that, and its sections are laid out as is believed
   to be the fastest; a plan that is given is placed as it is.
2. Every round, workers judge new plans of the segments that matter, and place and simulate the plans
   from which most is to be expected.
3. What was measured corrects what is expected of other plans, and the best way through the network is
   found again: over what was measured, which is the result so far, and over what is believed.

How much a placement can gain, on average, is its *expected improvement*: how far the network would get
below the best time so far, if the time of the segment is as uncertain as expectations have proved to be.
A round has the same jobs for any number of workers.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from placer.base import DoesNotFitError, InputError
from placer.base.workers import Crew, WorkerCrashError, Workers
from placer.compile.book import Book, Kind
from placer.compile.choosing import Chosen, Drawn, choose, new_recipes
from placer.compile.compiled import CompiledNetwork, CompiledSection, Progress
from placer.compile.jobs import Candidate, EstimateJob, Job, Placed, PlaceJob, Setting, candidate_of, do, section_of
from placer.cost import CostChoice, Rules
from placer.fabric import Fabric
from placer.graph import DataflowGraph
from placer.netlist.lowering import Cut, Plan, check_plan, default_plan, lower_plan, near_segments, segment_of
from placer.pipeline import SectionResult, time_of

log = logging.getLogger(__name__)

SLACK = 0.04  # how much slower by rules a cut may be than the best one to be looked at
MAX_KINDS = 48  # segments that are looked at beyond those of the first plan


@dataclass(frozen=True, slots=True)
class Options:
    """How a network is compiled."""

    cost: CostChoice
    rules: Rules
    batch: int
    seed: int
    time_limit: float  # seconds of wall clock, of which the first result may take more
    max_rounds: int | None = None  # None: as many as there is time for
    cuts: bool = True  # look for other cuts than those of the first plan,
    layouts: bool = True  # and for other layouts of sections; without both, only placements are searched
    draft_first: bool = False  # place the best draft first; False: the plan by rules


Watch = Callable[[Progress, float], None]  # the best so far, and its share of the peak


class Search:
    """The state of one compilation; `run` does it."""

    def __init__(
        self, fabric: Fabric, graph: DataflowGraph, plan: Plan | None, options: Options, watch: Watch | None = None
    ) -> None:
        self.begin = time.monotonic()
        self.fabric, self.graph, self.options, self.watch = fabric, graph, options, watch
        self.setting = Setting(fabric, options.cost, options.rules, options.seed)
        if plan is not None:
            check_plan(fabric, graph, plan)
        self.plan = plan or default_plan(fabric, graph, batch=options.batch)
        self.has_plan = plan is not None
        self.places = near_segments(fabric, graph, self.plan, options.batch, SLACK if options.cuts else -1.0, MAX_KINDS)
        self.kinds = self._first_kinds()
        self.first = [(kind, kind.entries[0]) for kind in self.kinds if kind.entries]  # of that plan
        self.book = Book(fabric, self.places, self.kinds, options.batch)
        self.best: CompiledNetwork | None = None
        self.history: list[Progress] = []
        self.num_placed = 0

    def _first_kinds(self) -> list[Kind]:
        """Return all kinds of segments; those of the first plan have its layouts."""
        kinds: dict[int, Kind] = {}
        for number, place in enumerate(self.places):
            is_first = number < len(self.plan.sections)
            if place.kind not in kinds:
                layout = self.plan.layouts[self.plan.sections[number].layout] if is_first else None
                try:
                    segment = segment_of(self.fabric, place, layout)
                    built = section_of(self.fabric, segment, segment.plan)
                except DoesNotFitError:
                    continue
                kinds[place.kind] = Kind(place.kind, segment, segment.usual_recipe())
                if is_first:
                    kinds[place.kind].add([candidate_of(self.fabric, kinds[place.kind].usual, built)])
            kinds[place.kind].places.append(place)
        return list(kinds.values())

    def run(self, workers: Workers) -> CompiledNetwork:
        """Compile until the time is over, or as many rounds as asked for; Ctrl-C ends it with the best so far.

        Raises KeyboardInterrupt when there is no result yet.
        """
        is_interrupted = False
        try:
            with workers.crew(do) as crew:
                rounds = self._begin(crew)
                while self._seconds_left > 0 and rounds != self.options.max_rounds:
                    self._round(crew, rounds)
                    rounds += 1
        except KeyboardInterrupt:
            if self.best is None:
                raise
            is_interrupted = True
        assert self.best is not None
        seconds = time.monotonic() - self.begin
        return replace(self.best, seconds=seconds, history=tuple(self.history), is_interrupted=is_interrupted)

    @property
    def _until(self) -> float:
        return self.begin + self.options.time_limit

    @property
    def _seconds_left(self) -> float:
        return self._until - time.monotonic()

    def _begin(self, crew: Crew) -> int:
        """Get a first result, whatever time that takes; return the number of rounds in it.

        With a draft, a first round judges plans without placing any, and the best layouts of the sections by rules are
        placed (other cuts wait until something was measured); where they cannot be simulated, the plan by rules is.
        """
        has_draft = self.options.draft_first and self.options.layouts and not self.has_plan
        if has_draft:
            self._round(crew, 0)
            best = [(kind, self.book.promising(kind)[0], math.inf) for kind, _ in self.first]
            self._do(crew, [], best, math.inf)
        if self.best is None:
            self._place_first_plan(crew)
        return int(has_draft)

    def _place_first_plan(self, crew: Crew) -> None:
        """Place the plan that was given, or that by rules. Raises InputError when it cannot be simulated."""
        self._do(crew, [], [(kind, entry, math.inf) for kind, entry in self.first], math.inf)
        if self.best is None:
            names = [kind.places[0].names[0] for kind, entry in self.first if entry.run is None]
            raise InputError(f"no placement of the section of {names[0]!r} reached a steady state; use another seed")

    def _round(self, crew: Crew, number: int) -> None:
        """Judge new plans, and place the most promising ones; in the first round there are none to place yet."""
        draft, has_layouts = self.book.draft(), self.options.layouts
        drawn = new_recipes(self.book, draft, self.options.seed, number == 0, has_layouts)
        has_choice = number > 0 or not has_layouts
        chosen = choose(self.book, draft, self.book.measured_draft().cycles) if has_choice else []
        self._do(crew, drawn, chosen, self._until)

    def _do(self, crew: Crew, drawn: list[Drawn], chosen: list[Chosen], until: float) -> None:
        """Have all jobs done, and take what came out in their order."""
        jobs: list[Job] = []
        for kind, entry, limit in chosen:
            number = (kind.number, kind.entries.index(entry), entry.num_begun)
            jobs.append(PlaceJob(self.setting, kind.segment, entry.candidate.plan, number, limit))
            entry.num_begun += 1
        jobs += [EstimateJob(self.setting, kind.segment, recipes) for kind, recipes in drawn]
        done: dict[int, list[Candidate] | Placed] = {}
        try:
            for index, result in crew.run(jobs, until):
                done[index] = result
        except WorkerCrashError as error:
            log.warning("%s", error)
        finally:
            for index in sorted(done):
                self._take(done[index], chosen, drawn, index)
            self.book.update()
            self._look_for_better()

    def _take(self, result: list[Candidate] | Placed, chosen: list[Chosen], drawn: list[Drawn], index: int) -> None:
        if isinstance(result, Placed):
            chosen[index][1].add(result)
            self.num_placed += 1
        else:
            drawn[index - len(chosen)][0].add(result)

    def _look_for_better(self) -> None:
        """Find the best way over what was measured; if it is faster than the best so far, it takes its place."""
        path = self.book.measured_draft().path
        if not path:
            return
        found = self._assemble(path)
        before = math.inf if self.best is None else self.best.cycles_per_input
        if found.cycles_per_input <= before:
            self.best = found  # also the same again: the cost model may have been asked in the meantime
        if found.cycles_per_input < before:
            self.history.append(Progress(time.monotonic() - self.begin, found.cycles_per_input, self.num_placed))
            if self.watch is not None:
                self.watch(self.history[-1], found.share_of_peak)

    def _assemble(self, path: Sequence[int]) -> CompiledNetwork:
        """Build the network of a way; the checkers look at all of it."""
        kinds = {kind.number: kind for kind in self.kinds}
        order = list(dict.fromkeys(self.places[number].kind for number in path))
        entries = [self.book.fastest(kinds[number]) for number in order]
        cuts = tuple(Cut(self.places[n].names, order.index(self.places[n].kind)) for n in path)
        layouts = tuple(entry.candidate.plan for entry in entries if entry is not None)
        plan = replace(self.plan, layouts=layouts, sections=cuts)
        sections = []
        for section, entry in zip(lower_plan(self.fabric, self.graph, plan), entries, strict=True):
            assert entry is not None and entry.best is not None and entry.best.measurement is not None
            result = SectionResult(section, entry.best.decision, entry.best.measurement)
            sections.append(CompiledSection(result, entry.candidate.predicted_cycles))
        time = time_of(self.fabric, [section.result for section in sections], self.options.batch)
        options = self.options
        return CompiledNetwork(
            self.fabric, self.graph, plan, tuple(sections), time, options.cost.name, options.seed, 0.0, ()
        )


def compile_network(
    fabric: Fabric,
    graph: DataflowGraph,
    options: Options,
    workers: Workers,
    plan: Plan | None = None,
    watch: Watch | None = None,
) -> CompiledNetwork:
    """Return the fastest compiled network that is found in the time; `plan` is where the search begins.

    Raises DoesNotFitError when the network does not fit, and KeyboardInterrupt after Ctrl-C before
    there is a result; later, what was found is returned. `watch` is told whenever the best gets better.
    """
    return Search(fabric, graph, plan, options, watch).run(workers)
