"""Report on a dataset: Markdown, pictures, and the numbers behind them as CSV.

    summary = report_dataset(dataset, read_splits(dataset.folder), dataset.folder / "report")

`report.md` says first whether placement matters enough in each family to learn from the dataset.
Nothing depends on the time or the machine: same dataset, same text.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from costmodel.base import MIN_BEST
from costmodel.dataset import ALL, Dataset, Splits
from costmodel.dataset.report import figures, tables
from costmodel.dataset.report.numbers import (
    NEAR_OPTIMAL,
    Check,
    FamilySummary,
    HeuristicScores,
    NetlistNumbers,
    Points,
    netlist_numbers,
    points_of,
    score_heuristic,
    summarise,
)
from placer.base import Picture, Table, write_report


@dataclass(frozen=True, slots=True)
class ReportSummary:
    """The main numbers of a report."""

    families: tuple[FamilySummary, ...]  # sorted by name
    overall: FamilySummary
    checks: tuple[Check, ...]
    heuristic: tuple[HeuristicScores, ...]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)


def report_dataset(dataset: Dataset, splits: Splits, folder: Path) -> ReportSummary:
    """Write the report to `folder`.

    Raises InputError when the dataset has no decisions, its heuristic scores are not above 0, or
    the splits belong to another one; OSError when a file cannot be written.
    """
    points = points_of(dataset, splits)
    netlists = netlist_numbers(dataset, points)
    families = tuple(summarise(name, points, netlists) for name in sorted(set(dataset.families)))
    summary = ReportSummary(
        families=families,
        overall=summarise(ALL, points, netlists),
        checks=tuple(check for family in families for check in family.checks()),
        heuristic=score_heuristic(points),
    )
    numbers = (
        tables.family_numbers((*families, summary.overall)),
        tables.netlist_numbers_table(points, netlists),
        tables.histogram_numbers(points, figures.HISTOGRAM_BINS),
        tables.heuristic_numbers(summary.heuristic),
    )
    parts = [
        *_parts(dataset, points, netlists, summary),
        f"Numbers: {', '.join(f'{table.name}.csv' for table in numbers)}, phases.csv.",
    ]
    command = "python -m costmodel.dataset"
    write_report(folder, "report.md", "Dataset report", command, parts, numbers=numbers)
    return summary


def _parts(
    dataset: Dataset, points: Points, netlists: NetlistNumbers, summary: ReportSummary
) -> list[str | Table | Picture]:
    near_optimal = ", ".join(phase.value for phase in NEAR_OPTIMAL)
    overall, metadata = summary.overall, dataset.metadata
    near = [scores for scores in summary.heuristic if scores.near_optimal]
    return [
        f"**{'PASS' if summary.passed else 'FAIL'}**: {overall.num_decisions} decisions of "
        f"{overall.num_netlists} netlists, {overall.num_failures} samples failed. Seed "
        f"{metadata.seed}, code {metadata.code_version}, content hash "
        f"`{dataset.content_hash[:16]}`.",
        "## Does placement matter?",
        "Spread is (best - worst) / best throughput within a netlist. Variance within graphs is "
        "the share of the variance of throughput that placement decides; the rest lies between "
        "graphs.",
        tables.check_table(summary.checks),
        tables.family_table((*summary.families, overall)),
        Picture("spread", "Worst to best decision of each netlist", figures.spread_by_netlist(points)),
        "## Where decisions come from",
        tables.count_table(points),
        tables.phase_table(points),
        "*best of the netlist*: share of the netlists in which a decision of this phase is the "
        "best, equal ones included.",
        Picture("phases", "Throughput by phase", figures.throughput_by_phase(points)),
        "## Labels",
        Picture("labels", "Throughput by family", figures.label_histograms(points)),
        "## Failures",
        tables.failure_table(netlists) if overall.num_failures else "None.",
        "## Heuristic",
        "*Calibrated*: monotone fit to the training part of each by-graph fold, applied to its "
        "test part. Spearman, Kendall, pair accuracy and regret are within a graph; pooled "
        "Spearman is not, and is high for any model that only tells graphs apart. *Best decile*: "
        f"a tenth of the decisions of a graph, at least {MIN_BEST}.",
        "All phases:",
        tables.heuristic_table([s for s in summary.heuristic if not s.near_optimal]),
        f"Near-optimal phases only ({near_optimal}), regret relative to their best:",
        tables.heuristic_table(near) if near else "None.",
        Picture("heuristic", "Heuristic against the simulator", figures.heuristic_scatter(points)),
    ]
