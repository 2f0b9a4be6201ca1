"""Tables of a dataset report: the first row is the header.

`*_rows` are for readers, rounded; `*_numbers` and what else goes to CSV files are exact.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from math import isnan

import numpy as np

from costmodel.dataset.records import Phase
from costmodel.dataset.report_numbers import (
    ALL,
    Check,
    FamilySummary,
    HeuristicScores,
    NetlistNumbers,
    Points,
    score_netlists,
)

_MAX_REASONS = 20

Cell = str | int | float
Rows = list[tuple[Cell, ...]]


def markdown(rows: Rows) -> str:
    """A Markdown table."""
    header, *body = ([str(cell).replace("|", "\\|") for cell in row] for row in rows)
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *body))


def to_csv(rows: Rows) -> str:
    """Floats with six digits, nothing where there is no value."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow([_csv_cell(cell) for cell in row])
    return text.getvalue()


def check_rows(checks: Sequence[Check]) -> Rows:
    """Each demand, what was found, and the verdict."""
    rows: Rows = [("family", "check", "found", "needed", "verdict")]
    for check in checks:
        is_share = check.needed < 1
        found, needed = (
            _percent(v) if is_share else _number(v, 0) for v in (check.value, check.needed)
        )
        needed += f" (aim {_percent(check.aim)})" if check.aim > check.needed else ""
        rows.append((check.family, check.what, found, needed, check.verdict))
    return rows


def family_rows(summaries: Sequence[FamilySummary]) -> Rows:
    """Counts, spread and variance per family."""
    rows: Rows = [
        (
            "family", "netlists", "decisions", "least per netlist", "failed", "median throughput",
            "median best", "median spread", "range", "variance", "within graphs",
        )
    ]  # fmt: skip
    for s in summaries:
        spread_range = f"{_percent(s.least_spread)} .. {_percent(s.most_spread)}"
        rows.append(
            (
                s.family, s.num_netlists, s.num_decisions, s.least_decisions, s.num_failures,
                _number(s.median_throughput), _number(s.median_best), _percent(s.median_spread),
                spread_range, _number(s.variance, 4), _percent(s.share_within),
            )
        )  # fmt: skip
    return rows


def count_rows(points: Points) -> Rows:
    """Decisions per family and phase."""
    rows: Rows = [("family", *(phase.value for phase in Phase), ALL)]
    for family in (*sorted(set(points.family.tolist())), ALL):
        own = points.phase[(points.family == family) | (family == ALL)]
        rows.append((family, *(int((own == phase.value).sum()) for phase in Phase), len(own)))
    return rows


def phase_rows(points: Points) -> Rows:
    """Throughput per phase, as it is and relative to the best of the netlist."""
    rows: Rows = [
        (
            "phase", "decisions", "median throughput", "median / best", "5%", "95%",
            "best of the netlist",
        )
    ]  # fmt: skip
    num_netlists = len(set(points.netlist_id.tolist()))
    for phase in Phase:
        own = points.phase == phase.value
        if own.any():
            low, median, high = np.quantile(points.of_best[own], (0.05, 0.5, 0.95))
            winners = len(set(points.netlist_id[own & (points.of_best == 1)].tolist()))
            values = (float(np.median(points.throughput[own])), median, low, high)
            share = _percent(winners / num_netlists)
            rows.append((phase.value, int(own.sum()), *map(_number, values), share))
    return rows


def failure_rows(netlists: NetlistNumbers) -> Rows:
    """Reasons, up to their first colon, the most frequent first."""
    counts = Counter(
        reason.split(":")[0].strip() for reasons in netlists.failures for reason in reasons
    )
    by_count = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    rest = sum(count for _, count in by_count[_MAX_REASONS:])
    rows: Rows = [("reason", "samples"), *by_count[:_MAX_REASONS]]
    return [*rows, ("others", rest)] if rest else rows


def heuristic_rows(results: Sequence[HeuristicScores]) -> Rows:
    """Error and rank of the heuristic, raw and calibrated."""
    rows: Rows = [
        (
            "family", "heuristic", "decisions", "RE", "pooled Spearman", "Spearman", "Kendall",
            "pairs", "pairs > 5%", "top-1 regret", "top-5 regret",
            "best decile: Spearman", "pairs", "top-1 regret",
        )
    ]  # fmt: skip
    for result in results:
        s, best = result.scores.overall, result.scores.best
        values = (
            s.relative_error, s.spearman_pooled, s.spearman, s.kendall,
            s.pair_accuracy, s.pair_accuracy_5, s.top1_regret, s.top5_regret,
            best.spearman, best.pair_accuracy, best.top1_regret,
        )  # fmt: skip
        rows.append((result.family, _name(result), s.num_decisions, *map(_number, values)))
    return rows


def heuristic_numbers(results: Sequence[HeuristicScores]) -> Rows:
    """All metrics of the heuristic."""
    rows: Rows = [("family", "phases", "heuristic", *results[0].scores.to_dict())]
    for result in results:
        phases = "near-optimal" if result.near_optimal else ALL
        rows.append((result.family, phases, _name(result), *result.scores.to_dict().values()))
    return rows


def family_numbers(summaries: Sequence[FamilySummary]) -> Rows:
    """All numbers per family."""
    return [tuple(asdict(summaries[0])), *(tuple(asdict(s).values()) for s in summaries)]


def netlist_rows(points: Points, netlists: NetlistNumbers) -> Rows:
    """Spread of each netlist, and the rank of the raw heuristic in it."""
    header: tuple[Cell, ...] = (
        "netlist_id", "family", "num_decisions", "num_failures", "best", "worst", "spread",
        "variance", "heuristic_spearman", "heuristic_kendall", "heuristic_top1_regret",
    )  # fmt: skip
    ranks = np.full((3, len(netlists.family)), np.nan)
    scores = score_netlists(points)
    ranks[:, scores.graph] = scores.spearman, scores.kendall, scores.regret[:, 0]
    variance = np.divide(
        netlists.squares_within,
        netlists.num_decisions,
        out=np.full(len(netlists.family), np.nan),
        where=netlists.num_decisions > 0,
    )
    columns = (
        np.arange(len(netlists.family)), netlists.family, netlists.num_decisions,
        netlists.num_failures, netlists.best, netlists.worst, netlists.spread, variance, *ranks,
    )  # fmt: skip
    return [header, *zip(*(column.tolist() for column in columns), strict=True)]


def histogram_rows(points: Points, num_bins: int) -> Rows:
    """Decisions per family and bin of throughput."""
    families = sorted(set(points.family.tolist()))
    edges = np.linspace(0, 1, num_bins + 1)
    counts = [np.histogram(points.throughput[points.family == f], edges)[0] for f in families]
    rows: Rows = [("from", "to", *families)]
    for number in range(num_bins):
        cells = [int(count[number]) for count in counts]
        rows.append((float(edges[number]), float(edges[number + 1]), *cells))
    return rows


def _name(result: HeuristicScores) -> str:
    return "calibrated" if result.calibrated else "raw"


def _percent(value: float) -> str:
    return "-" if isnan(value) else f"{value:.0%}"


def _number(value: float, digits: int = 3) -> str:
    return "-" if isnan(value) else f"{value:.{digits}f}"


def _csv_cell(cell: Cell) -> Cell:
    if isinstance(cell, float):
        return "" if isnan(cell) else f"{cell:.6g}"
    return cell
