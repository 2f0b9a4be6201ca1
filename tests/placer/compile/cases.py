"""Small networks that are compiled in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from placer.base.workers import Workers
from placer.compile import CompiledNetwork, Options, compile_network
from placer.cost import HeuristicChoice, Rules
from placer.fabric import Fabric, load_fabric
from placer.graph import DataflowGraph

SMALL = load_fabric("small", ["columns=6", "rows=6"])


class Here:
    """A crew that does every job at once; `before_round` may end a round, as Ctrl-C or a lost worker would."""

    def __init__(self, function: Callable[[Any], Any], before_round: Callable[[int], None]) -> None:
        self._function, self._before_round, self._rounds = function, before_round, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def run(self, tasks: Sequence[Any], until: float = 0.0) -> Iterator[tuple[int, Any]]:
        self._rounds += 1
        for index, task in reversed(list(enumerate(tasks))):  # the order does not matter
            yield index, self._function(task)
            if index == len(tasks) - 1:
                self._before_round(self._rounds - 1)


@dataclass(frozen=True, slots=True)
class InThisProcess(Workers):
    """Workers that are none."""

    before_round: Callable[[int], None] = lambda number: None

    def crew(self, function: Callable[[Any], Any]) -> Here:
        return Here(function, self.before_round)


def options(max_rounds: int | None = 2, seed: int = 0, seconds: float = 1e6) -> Options:
    return Options(HeuristicChoice("rules"), Rules(), 4, seed, seconds, max_rounds)


def compiled(graph: DataflowGraph, asked: Options, fabric: Fabric = SMALL, **workers: Any) -> CompiledNetwork:
    return compile_network(fabric, graph, asked, InThisProcess(**workers))
