"""From sized kernels and positions to a layout, judged by the independent checker."""

from __future__ import annotations

from dataclasses import dataclass

from placer.kernels.check import OutRules, Score, judge
from placer.kernels.floorplan import Floorplan
from placer.kernels.joint import Sized
from placer.kernels.layout import Layout, Placed
from placer.kernels.problem import Problem


@dataclass(frozen=True, slots=True)
class Mapping:
    """A legal layout with its score; with its throughput where a cost chooses by it."""

    layout: Layout
    score: Score
    throughput: float | None = None  # simulated, normalised, in (0, 1]
    predicted: float | None = None  # the same as the cost sees it

    def describe(self) -> str:
        """One line with the score and what it is made of."""
        score = self.score
        throughput = "" if self.throughput is None else f"throughput {self.throughput:.4f}, "
        return (
            f"{throughput}best score {score.total:,.1f} (deltaT {float(score.slowest):,.10g}, "
            f"wires {float(score.wire_length):,.1f}, adapters {score.adapters})"
        )


def make_mapping(problem: Problem, plan: Floorplan, sized: Sized, rules: OutRules) -> Mapping:
    """The layout of a floorplan whose rectangles have the extents of the sized kernels."""
    placed = zip(sized.executions, plan.x.tolist(), plan.y.tolist(), sized.is_rotated, strict=True)
    layout = Layout(tuple(Placed(*parts) for parts in placed))
    return Mapping(layout, judge(problem.graph, layout, rules))
