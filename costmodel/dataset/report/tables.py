"""Tables of a dataset report: `*_table` for readers, rounded; `*_numbers` exact, for CSV files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from costmodel.base import score_graphs
from costmodel.dataset import ALL, Phase
from costmodel.dataset.report.numbers import Check, FamilySummary, HeuristicScores, NetlistNumbers, Points
from placer.base import Cell, Table, number, percent

_MAX_REASONS = 20
_SCORES = (
    "relative_error", "spearman_pooled", "spearman", "kendall", "pair_accuracy", "pair_accuracy_5",
    "top1_regret", "top5_regret", "best_spearman", "best_pair_accuracy", "best_top1_regret",
)  # fmt: skip


def check_table(checks: Sequence[Check]) -> Table:
    """Return each demand, what was found, and the verdict."""
    rows = []
    for check in checks:
        is_share = check.needed < 1
        found, needed = (percent(v) if is_share else number(v, 0) for v in (check.value, check.needed))
        needed += f" (aim {percent(check.aim)})" if check.aim > check.needed else ""
        rows.append((check.family, check.what, found, needed, check.verdict))
    return Table(("family", "check", "found", "needed", "verdict"), rows)


def family_table(summaries: Sequence[FamilySummary]) -> Table:
    """Return counts, spread and variance per family."""
    header = (
        "family", "netlists", "decisions", "least per netlist", "failed", "median throughput",
        "median best", "median spread", "range", "variance", "within graphs",
    )  # fmt: skip
    rows = [
        (
            s.family, s.num_netlists, s.num_decisions, s.least_decisions, s.num_failures,
            number(s.median_throughput), number(s.median_best), percent(s.median_spread),
            f"{percent(s.least_spread)} .. {percent(s.most_spread)}", number(s.variance, 4),
            percent(s.share_within),
        )
        for s in summaries
    ]  # fmt: skip
    return Table(header, rows)


def count_table(points: Points) -> Table:
    """Return the decisions per family and phase."""
    rows: list[tuple[Cell, ...]] = []
    for family in (*points.families, ALL):
        own = points.phase[points.of(family)]
        rows.append((family, *(int((own == phase.value).sum()) for phase in Phase), len(own)))
    return Table(("family", *(phase.value for phase in Phase), ALL), rows, name="phases")


def phase_table(points: Points) -> Table:
    """Return the throughput per phase, as it is and relative to the best of the netlist."""
    header = (
        "phase", "decisions", "median throughput", "median / best", "5%", "95%",
        "best of the netlist",
    )  # fmt: skip
    rows, num_netlists = [], len(np.unique(points.netlist_id))
    for phase in points.phases:
        own = points.phase == phase.value
        low, median, high = np.quantile(points.of_best[own], (0.05, 0.5, 0.95))
        winners = len(np.unique(points.netlist_id[own & (points.of_best == 1)]))
        values = (float(np.median(points.throughput[own])), median, low, high)
        share = percent(winners / num_netlists)
        rows.append((phase.value, int(own.sum()), *map(number, values), share))
    return Table(header, rows)


def failure_table(netlists: NetlistNumbers) -> Table:
    """Return the reasons, up to their first colon, the most frequent first."""
    counts = Counter(reason.split(":")[0].strip() for reasons in netlists.failures for reason in reasons)
    by_count = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rest = sum(count for _, count in by_count[_MAX_REASONS:])
    others = [("others", rest)] if rest else []
    return Table(("reason", "samples"), [*by_count[:_MAX_REASONS], *others])


def heuristic_table(results: Sequence[HeuristicScores]) -> Table:
    """Return error and rank of the heuristic, raw and calibrated."""
    header = (
        "family", "heuristic", "decisions", "RE", "pooled Spearman", "Spearman", "Kendall",
        "pairs", "pairs > 5%", "top-1 regret", "top-5 regret",
        "best decile: Spearman", "pairs", "top-1 regret",
    )  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    for result in results:
        family, _, kind = result.cells
        scores = result.scores.to_dict()
        values = (number(scores[name]) for name in _SCORES)
        rows.append((family, kind, result.scores.overall.num_decisions, *values))
    return Table(header, rows)


def heuristic_numbers(results: Sequence[HeuristicScores]) -> Table:
    """Return all metrics of the heuristic."""
    header = ("family", "phases", "heuristic", *results[0].scores.to_dict())
    rows: list[tuple[Cell, ...]] = [(*result.cells, *result.scores.to_dict().values()) for result in results]
    return Table(header, rows, name="heuristic")


def family_numbers(summaries: Sequence[FamilySummary]) -> Table:
    """Return all numbers per family."""
    rows = [tuple(asdict(summary).values()) for summary in summaries]
    return Table(tuple(asdict(summaries[0])), rows, name="families")


def netlist_numbers_table(points: Points, netlists: NetlistNumbers) -> Table:
    """Return the spread of each netlist, and the rank of the raw heuristic in it."""
    ranks = np.full((3, len(netlists.family)), np.nan)
    scores = score_graphs(points.heuristic, points.throughput, points.netlist_id)
    ranks[:, scores.graph] = scores.spearman, scores.kendall, scores.regret[:, 0]
    columns = {
        "netlist_id": np.arange(len(netlists.family)),
        "family": netlists.family,
        "num_decisions": netlists.num_decisions,
        "num_failures": netlists.num_failures,
        "best": netlists.best,
        "worst": netlists.worst,
        "spread": netlists.spread,
        "variance": netlists.variance,
        "heuristic_spearman": ranks[0],
        "heuristic_kendall": ranks[1],
        "heuristic_top1_regret": ranks[2],
    }
    rows = list(zip(*(column.tolist() for column in columns.values()), strict=True))
    return Table(tuple(columns), rows, name="netlists")


def histogram_numbers(points: Points, num_bins: int) -> Table:
    """Return the decisions per family and bin of throughput."""
    edges = np.linspace(0, 1, num_bins + 1)
    counts = [np.histogram(points.throughput[points.of(f)], edges)[0] for f in points.families]
    columns = (edges[:-1], edges[1:], *counts)
    rows = list(zip(*(column.tolist() for column in columns), strict=True))
    return Table(("from", "to", *points.families), rows, name="labels")
