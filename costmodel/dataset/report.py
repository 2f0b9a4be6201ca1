"""Report on a dataset: Markdown, pictures, and the numbers behind them as CSV.

    summary = write_report(dataset, read_splits(dataset.folder), dataset.folder / "report")

`report.md` says first whether placement matters enough in each family to learn from the dataset.
Nothing depends on the time or the machine: same dataset, same text.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from costmodel.dataset import report_figures as figures
from costmodel.dataset import report_tables as tables
from costmodel.dataset.loader import Dataset
from costmodel.dataset.report_numbers import (
    NEAR_OPTIMAL,
    Check,
    FamilySummary,
    HeuristicScores,
    NetlistNumbers,
    Points,
    checks_of,
    netlist_numbers,
    points_of,
    score_heuristic,
    summarise,
)
from costmodel.dataset.splits import Splits
from costmodel.metrics import MIN_BEST
from placer.files import make_folder, write_atomic

REPORT_FILE = "report.md"
_PICTURES = {
    "labels.png": figures.label_histograms,
    "spread.png": figures.spread_by_netlist,
    "phases.png": figures.throughput_by_phase,
    "heuristic.png": figures.heuristic_scatter,
}


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


def write_report(dataset: Dataset, splits: Splits, folder: Path) -> ReportSummary:
    """Write the report to `folder`.

    Raises InputError when the dataset has no decisions, its heuristic scores are not above 0, or
    the splits belong to another one; OSError when a file cannot be written.
    """
    points = points_of(dataset, splits)
    netlists = netlist_numbers(dataset, points)
    *families, overall = summarise(points, netlists)
    summary = ReportSummary(
        families=tuple(families),
        overall=overall,
        checks=tuple(check for family in families for check in checks_of(family)),
        heuristic=score_heuristic(points),
    )
    make_folder(folder)
    for name, draw in _PICTURES.items():
        write_atomic(folder / name, figures.png(draw(points)))
    numbers = {
        "families.csv": tables.family_numbers((*families, overall)),
        "netlists.csv": tables.netlist_rows(points, netlists),
        "phases.csv": tables.count_rows(points),
        "labels.csv": tables.histogram_rows(points, figures.HISTOGRAM_BINS),
        "heuristic.csv": tables.heuristic_numbers(summary.heuristic),
    }
    for name, rows in numbers.items():
        write_atomic(folder / name, tables.to_csv(rows))
    text = _text(dataset, points, netlists, summary)
    write_atomic(folder / REPORT_FILE, text + f"\nNumbers: {', '.join(numbers)}.\n")
    return summary


def _text(
    dataset: Dataset, points: Points, netlists: NetlistNumbers, summary: ReportSummary
) -> str:
    near_optimal = ", ".join(phase.value for phase in NEAR_OPTIMAL)
    overall = summary.overall
    parts = [
        "# Dataset report",
        f"**{'PASS' if summary.passed else 'FAIL'}**: {overall.num_decisions} decisions of "
        f"{overall.num_netlists} netlists, {overall.num_failures} samples failed. Seed "
        f"{dataset.metadata.seed}, code {dataset.metadata.code_version}, content hash "
        f"`{dataset.content_hash[:16]}`.",
        "## Does placement matter?",
        "Spread is (best - worst) / best throughput within a netlist. Variance within graphs is "
        "the share of the variance of throughput that placement decides; the rest lies between "
        "graphs.",
        tables.markdown(tables.check_rows(summary.checks)),
        tables.markdown(tables.family_rows((*summary.families, overall))),
        "![Worst to best decision of each netlist](spread.png)",
        "## Where decisions come from",
        tables.markdown(tables.count_rows(points)),
        tables.markdown(tables.phase_rows(points)),
        "*best of the netlist*: share of the netlists in which a decision of this phase is the "
        "best, equal ones included.",
        "![Throughput by phase](phases.png)",
        "## Labels",
        "![Throughput by family](labels.png)",
        "## Failures",
        tables.markdown(tables.failure_rows(netlists)) if overall.num_failures else "None.",
        "## Heuristic",
        "*Calibrated*: monotone fit to the training part of each by-graph fold, applied to its "
        "test part. Spearman, Kendall, pair accuracy and regret are within a graph; pooled "
        "Spearman is not, and is high for any model that only tells graphs apart. *Best decile*: "
        f"a tenth of the decisions of a graph, at least {MIN_BEST}.",
        "All phases:",
        tables.markdown(
            tables.heuristic_rows([s for s in summary.heuristic if not s.near_optimal])
        ),
        f"Near-optimal phases only ({near_optimal}), regret relative to their best:",
        tables.markdown(tables.heuristic_rows([s for s in summary.heuristic if s.near_optimal]))
        if points.is_near_optimal.any()
        else "None.",
        "![Heuristic against the simulator](heuristic.png)",
    ]
    return "\n\n".join(parts) + "\n"
