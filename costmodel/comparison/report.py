"""Tables and pictures of a comparison.

Within a netlist the median over seeds counts; netlists of a group are put together by the geometric
mean of their gains over the base. `in sum` is the gain in the time of one sample of each netlist,
for a model that of one input through all its sections. The gap is what the limit (the simulator in
the loop, with more time) gains over the base; share = log gain of a method / log gain of the limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from costmodel.comparison.run import Finished
from costmodel.dataset.report_figures import png
from placer.files import make_folder, write_atomic
from placer.html.page import Page, Picture, Section, Table, Text
from placer.study.tables import csv_table, markdown_table

FloatArray = NDArray[np.float64]

HEADER = [
    "group", "method", "netlists", "seeds", "throughput", "over base", "in sum",
    "spread over seeds", "worst netlist", "share of the gap", "RE of prediction",
    "RE of favourites", "seconds", "searches",
]  # fmt: skip
LEAST_GAP = 0.01  # smaller ones are noise, and a share of them says nothing
PUBLISHED = ("report.md", "placements.csv", "gain.png", "predicted.png")
VALUES_HEADER = [
    "group", "netlist", "fabric", "units", "method", "seed", "throughput", "predicted", "favourite",
    "favourite_predicted", "seconds", "searches",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scores:
    """What one method reached on the netlists of a group."""

    group: str
    method: str
    throughput: dict[str, FloatArray]  # by fingerprint of the netlist, over seeds
    predicted: dict[str, FloatArray]
    favourite: dict[str, FloatArray]  # throughput of what the cost model itself likes best
    favourite_predicted: dict[str, FloatArray]
    work: dict[str, int]  # cycles at the bound: of a sample, or of all that a model input needs
    seconds: float  # median
    searches: float  # median

    @property
    def medians(self) -> dict[str, float]:
        return {name: float(np.median(values)) for name, values in self.throughput.items()}

    @property
    def cycles(self) -> float:
        """Of all netlists one after the other."""
        return sum(self.work[name] / median for name, median in self.medians.items())

    @property
    def relative_error(self) -> float:
        """Mean of |predicted - simulated| / simulated over all placements."""
        return _relative_error(self.predicted, self.throughput)

    @property
    def favourites_error(self) -> float:
        """The same before finalists were simulated: what the search falls for."""
        return _relative_error(self.favourite_predicted, self.favourite)


def _relative_error(predicted: dict[str, FloatArray], simulated: dict[str, FloatArray]) -> float:
    errors = [np.abs(predicted[name] / values - 1) for name, values in simulated.items()]
    return float(np.mean(np.concatenate(errors)))


def scores_of(finished: Sequence[Finished]) -> list[Scores]:
    """One entry per group and method, in the order in which they come.

    Behind them all netlists of a fabric together, where it has several groups.
    """
    groups: dict[tuple[str, str], list[Finished]] = {}
    together: dict[tuple[str, str], list[Finished]] = {}
    for item in finished:
        case = item.job.case
        groups.setdefault((case.group, item.job.name), []).append(item)
        together.setdefault((f"all on {case.fabric.name}", item.job.name), []).append(item)
    several = {
        key: items
        for key, items in together.items()
        if len({item.job.case.group for item in items}) > 1
    }
    return [_scores(*key, items) for key, items in (groups | several).items()]


def _scores(group: str, method: str, items: list[Finished]) -> Scores:
    by_netlist: dict[str, list[Finished]] = {}
    for item in items:
        by_netlist.setdefault(item.job.case.netlist.fingerprint, []).append(item)
    return Scores(
        group,
        method,
        throughput=_column(by_netlist, "throughput"),
        predicted=_column(by_netlist, "predicted"),
        favourite=_column(by_netlist, "favourite"),
        favourite_predicted=_column(by_netlist, "favourite_predicted"),
        work={name: own[0].job.case.work for name, own in by_netlist.items()},
        seconds=float(np.median([item.placed.seconds for item in items])),
        searches=float(np.median([item.placed.searches for item in items])),
    )


def _column(by_netlist: dict[str, list[Finished]], name: str) -> dict[str, FloatArray]:
    return {
        netlist: np.array([getattr(item.placed, name) for item in items])
        for netlist, items in by_netlist.items()
    }


def gains(scores: Scores, base: Scores) -> FloatArray:
    """Log of the ratio of medians [num_netlists], for the netlists that both have placed."""
    ours, theirs = scores.medians, base.medians
    return np.array([np.log(ours[name] / theirs[name]) for name in ours if name in theirs])


def summary_rows(board: Sequence[Scores], base: str, limit: str) -> list[list[str]]:
    """One row per group and method; empty cells where there is no base or no limit."""
    found = {(scores.group, scores.method): scores for scores in board}
    return [
        _row(scores, found.get((scores.group, base)), found.get((scores.group, limit)))
        for scores in board
    ]


def _row(scores: Scores, base: Scores | None, limit: Scores | None) -> list[str]:
    medians = list(scores.medians.values())
    num_seeds = max(len(values) for values in scores.throughput.values())
    spreads = [float((v.max() - v.min()) / np.median(v)) for v in scores.throughput.values()]
    over, in_sum, worst, share = "", "", "", ""
    if base is not None:
        gain = gains(scores, base)
        over, worst = f"{np.expm1(gain.mean()):+.1%}", f"{np.expm1(gain.min()):+.1%}"
        in_sum = f"{base.cycles / scores.cycles - 1:+.1%}"
        whole = 0.0 if limit is None else float(gains(limit, base).mean())
        share = f"{gain.mean() / whole:.0%}" if whole > LEAST_GAP else ""
    return [
        scores.group,
        scores.method,
        str(len(medians)),
        str(num_seeds),
        f"{np.mean(medians):.3f}",
        over,
        in_sum,
        f"{np.mean(spreads):.1%}" if num_seeds > 1 else "",
        worst,
        share,
        f"{scores.relative_error:.3f}",
        f"{scores.favourites_error:.3f}",
        f"{scores.seconds:.1f}",
        f"{scores.searches:.0f}",
    ]


def value_rows(finished: Sequence[Finished]) -> list[list[str | float]]:
    """All placements."""
    return [
        [
            f.job.case.group, f.job.case.name, f.job.case.fabric.name,
            f.job.case.netlist.num_units, f.job.name, f.job.seed, f"{f.placed.throughput:.5f}",
            f"{f.placed.predicted:.5f}", f"{f.placed.favourite:.5f}",
            f"{f.placed.favourite_predicted:.5f}", f"{f.placed.seconds:.2f}", f.placed.searches,
        ]
        for f in finished
    ]  # fmt: skip


def write_report(
    finished: Sequence[Finished],
    folder: Path,
    *,
    base: str,
    limit: str,
    command: str,
    config: dict[str, Any],
) -> list[list[str]]:
    """Write `report.md`, `report.html`, `placements.csv` and pictures; the rows of the summary."""
    make_folder(folder)
    board = scores_of(finished)
    rows = summary_rows(board, base, limit)
    legend = (
        f"Base: `{base}`. Limit: `{limit}`. Throughput: mean over netlists of the median over "
        "seeds, 1 is the bound. Over base: geometric mean over netlists; in sum: by the time of a "
        "sample of each, for a model of one input through all sections. Spread over seeds: largest "
        "less smallest, to the median. RE of prediction: of the placements that were chosen; of "
        "favourites: of those that the cost model liked best, before finalists were simulated. No "
        f"share where the gap is below {LEAST_GAP:.0%}."
    )
    text = (
        f"# Comparison in simulation\n\nCommand: `{command}`\n\n{legend}\n\n"
        f"{markdown_table(HEADER, rows)}\n![Gain by netlist](gain.png)\n\n"
        "![Predicted against simulated](predicted.png)\n"
    )
    values = value_rows(finished)
    write_atomic(folder / "placements.csv", csv_table(VALUES_HEADER, values))
    gain, predicted = png(draw_gains(board, base)), png(draw_predicted(board))
    write_atomic(folder / "gain.png", gain)
    write_atomic(folder / "predicted.png", predicted)
    write_atomic(folder / "report.md", text)
    summary = Section("Summary", [Text(legend), Table("Methods by group", HEADER, rows)])
    pictures = [
        Picture(gain, "image/png", f"Gain of each method over {base}, a point per netlist"),
        Picture(predicted, "image/png", "Predicted against simulated throughput by method"),
    ]
    placements = Section("Placements", [Table("All placements", VALUES_HEADER, values)])
    sections = [summary, Section("Pictures", pictures), placements]
    page = Page("Comparison in simulation", "Placements by cost model", command, config, sections)
    write_atomic(folder / "report.html", page.to_html())
    return rows


def publish(folder: Path, target: Path) -> None:
    """Copy the report to another folder, but for the page, which holds the same once more."""
    make_folder(target)
    for name in PUBLISHED:
        write_atomic(target / name, (folder / name).read_bytes())


def draw_gains(board: Sequence[Scores], base: str) -> Figure:
    """Gain of each method over the base, a point per netlist, a panel per group."""
    groups = list(dict.fromkeys(scores.group for scores in board))
    figure = Figure(figsize=(max(2.4 * len(groups), 5), 4), layout="constrained")
    panels = figure.subplots(1, len(groups), sharey=True, squeeze=False)[0]
    for axes, group in zip(panels, groups, strict=True):
        own = [scores for scores in board if scores.group == group]
        against = next((scores for scores in own if scores.method == base), None)
        names = [scores.method for scores in own if scores.method != "random"]
        for number, name in enumerate(names):
            scores = next(s for s in own if s.method == name)
            values = 100 * np.expm1(gains(scores, against if against is not None else scores))
            axes.scatter([number] * len(values), values, s=12, alpha=0.6, color="#0077BB", lw=0)
            axes.plot([number - 0.3, number + 0.3], [np.median(values)] * 2, color="#CC3311")
        axes.axhline(0, color="#000000", lw=0.6, ls=":")
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize=8)
        axes.set_title(group, fontsize=9)
    panels[0].set_ylabel(f"gain over {base}, %")
    return figure


def draw_predicted(board: Sequence[Scores]) -> Figure:
    """Predicted against simulated throughput of the placements that were chosen."""
    methods = list(dict.fromkeys(s.method for s in board if s.method != "random"))
    figure = Figure(figsize=(max(2.4 * len(methods), 5), 2.9), layout="constrained")
    panels = figure.subplots(1, len(methods), sharey=True, squeeze=False)[0]
    for axes, method in zip(panels, methods, strict=True):
        own = [scores for scores in board if scores.method == method]
        simulated = np.concatenate([v for s in own for v in s.throughput.values()])
        predicted = np.concatenate([v for s in own for v in s.predicted.values()])
        axes.scatter(simulated, predicted, s=8, alpha=0.5, lw=0, color="#0077BB")
        axes.axline((0, 0), slope=1, color="#000000", lw=0.6, ls=":")
        axes.set(xlim=(0, 1.05), ylim=(0, 1.3), xlabel="simulated", title=method)
    panels[0].set_ylabel("predicted")
    return figure
