"""What `python -m placer.compile` is asked, and what it prints."""

from __future__ import annotations

import time
from dataclasses import dataclass

from rich.console import Console

from placer.base import Count, Positive, StatusLine
from placer.base.workers import ExecutorKind, Workers
from placer.compile.compiled import CompiledNetwork, Progress
from placer.compile.page import prediction_error
from placer.compile.search import Options, Watch, compile_network
from placer.cost import CostChoice, Rules
from placer.graph import DataflowGraph
from placer.netlist.lowering import load_plan
from placer.pipeline import Source, time_facts, time_table

SHORTEST = 1e-3  # seconds of a search: there is a first result in any case


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileConfig(Source):
    """What `conf/compile.yaml` holds."""

    cost: CostChoice
    rules: Rules
    time_limit: Positive
    max_rounds: Count | None
    cuts: bool
    layouts: bool
    draft_first: bool | None
    executor: ExecutorKind
    workers: Count | None
    ray_address: str | None

    def compiled(self, watch: Watch | None = None, graph: DataflowGraph | None = None) -> CompiledNetwork:
        """Compile the configured network, or a graph that is given in its place; see `compile_network`."""
        begin = time.monotonic()
        plan = None if self.plan is None else load_plan(self.plan)
        graph = graph or self.make_graph()
        seconds = max(self.time_limit - (time.monotonic() - begin), SHORTEST)  # reading counts
        draft_first = self.cost.name == "learned" if self.draft_first is None else self.draft_first
        options = Options(
            self.cost, self.rules, self.batch, self.seed, seconds, self.max_rounds, self.cuts, self.layouts, draft_first
        )
        workers = Workers(executor=self.executor, workers=self.workers, ray_address=self.ray_address)
        return compile_network(self.fabric, graph, options, workers, plan, watch)


def watch_on(console: Console, line: StatusLine) -> Watch:
    """Return what tells every better time: a line each, also without a terminal."""

    def watch(progress: Progress, share: float) -> None:
        text = f"{progress.cycles_per_input:,.0f} cycles per input, {share:.1%} of the MAC peak"
        line.note(text)
        console.print(f"{progress.seconds:6.1f} s  {text}, {progress.num_placed} placements", highlight=False)

    return watch


def show_compiled(compiled: CompiledNetwork, console: Console) -> None:
    """Print where the time of a compiled network goes."""
    console.print(time_table(compiled.time).screen())
    for name, fact in time_facts(compiled.time).items():
        console.print(f"{name}: {fact}", highlight=False)
    error = prediction_error(compiled)
    if error is not None:
        console.print(f"predicted against simulated: mean error {error:.1%}", highlight=False)
