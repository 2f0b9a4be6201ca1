"""Report on an evaluation: Markdown, LaTeX, CSV and pictures.

Nothing depends on the time of day or on how often a run was cut off: same jobs, same text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from costmodel.dataset.report_figures import png
from costmodel.dataset.report_numbers import ALL
from costmodel.dataset.report_tables import Rows, markdown, to_csv
from costmodel.evaluation import figures, tables
from costmodel.evaluation.jobs import MAIN_SPLIT, Plan, code_version
from costmodel.evaluation.run import Finished
from costmodel.evaluation.scores import LEVELS, Predicted, put_together, score
from costmodel.evaluation.tables import Board
from costmodel.metrics import MIN_BEST
from costmodel.version import git_revision
from placer.files import make_folder, write_atomic

REPORT_FILE = "report.md"
PREDICTIONS_FILE = "predictions.csv"  # large: not published
_TITLES = {
    "random": "Random split: other decisions of the same netlists were seen",
    "graph": "By graph: unseen netlists of known families",
    "family": "Leave one family out",
}
_SUMMARY = (
    "Spearman", "RE", "pooled Spearman", "> 5%", "top-1 regret", "top-5 regret",
    "best decile: Spearman",
)  # fmt: skip
_PICTURES = {
    "predicted.png": "Predicted against measured",
    "rank.png": "Rank within each graph",
    "error.png": "Error by family",
    "uncertainty.png": "Calibration of the uncertainty",
}


@dataclass(frozen=True, slots=True)
class Summary:
    """What a command shows first."""

    split: str
    table: Rows
    winners: list[str]


def write_report(
    plan: Plan, finished: Sequence[Finished], folder: Path, *, main: str, command: str
) -> Summary:
    """Write all tables and pictures to `folder`; `main` is the method that others must not beat.

    Raises OSError when a file cannot be written.
    """
    predictions = put_together(plan.sources, finished)
    board = Board(score(predictions))
    split = MAIN_SPLIT if MAIN_SPLIT in board.splits() else board.splits()[0]
    shown = _first_seeds(predictions, split)
    make_folder(folder)
    numbers = {
        "scores.csv": tables.score_numbers(board),
        "graphs.csv": _graph_numbers(predictions),
        PREDICTIONS_FILE: _prediction_numbers(shown),
    }
    for name, rows in numbers.items():
        write_atomic(folder / name, to_csv(rows))
    compared = [p for p in shown if p.method in plan.methods]
    drawn = {
        "predicted.png": figures.predicted_against_measured(compared),
        "rank.png": figures.rank_within_graphs(compared),
        "error.png": figures.error_by_family(board, split, list(plan.methods)),
        "uncertainty.png": figures.calibration_of_uncertainty(compared),
    }
    for name, figure in drawn.items():
        write_atomic(folder / name, png(figure))
    header = _header(plan, command)
    ablations = _ablation_rows(plan, finished)
    write_atomic(folder / REPORT_FILE, _text(plan, board, split, main, header, ablations))
    write_atomic(folder / "tables.tex", _latex(plan, board, header, ablations))
    methods = list(plan.methods)
    table = tables.score_rows(board, split, ALL, methods, _SUMMARY)
    return Summary(split, table, tables.winner_lines(board, split, methods, main))


def publish(folder: Path, target: Path) -> list[str]:
    """Copy what readers need to another folder; the names of the files."""
    make_folder(target)
    names = [REPORT_FILE, "tables.tex", "scores.csv", "graphs.csv", *_PICTURES]
    for name in names:
        write_atomic(target / name, (folder / name).read_bytes())
    return names


def _first_seeds(predictions: Sequence[Predicted], split: str) -> list[Predicted]:
    """One entry per method."""
    first: dict[str, Predicted] = {}
    for p in predictions:
        if p.split == split:
            first.setdefault(p.method, p)
    return list(first.values())


def _header(plan: Plan, command: str) -> list[str]:
    sources, seeds = plan.sources, plan.seeds
    lines = [f"Command: `{command}`", f"Code: models `{code_version()}`, git `{git_revision()}`"]
    datasets = {"main": sources.main} | {n: sources.tested(n) for n in sources.transfers}
    for name, data in datasets.items():
        graphs = len(np.unique(data.netlist))
        lines.append(
            f"Dataset ({name}): `{data.content_hash[:16]}`, fabric `{data.fabric.name}`, "
            f"{len(data)} decisions of {graphs} netlists"
        )
    used = {"graph": seeds.graph, "family": seeds.family, "random": seeds.random}
    used |= {"transfer": seeds.transfer} if sources.transfers else {}
    used |= {"ablation": seeds.ablation} if plan.ablations else {}
    lines.append("Seeds: " + ", ".join(f"{n} {list(value)}" for n, value in used.items() if value))
    if plan.max_folds is not None:
        lines.append(f"**A trial: at most {plan.max_folds} folds of each split**")
    return lines


def _text(
    plan: Plan, board: Board, main_split: str, main: str, header: list[str], ablations: Rows
) -> str:
    others = [split for split in board.splits() if split != main_split]
    parts = [
        "# Evaluation",
        "\n".join(f"- {line}" for line in header),
        f"Decide on the Spearman **within a graph** of the split `{main_split}`: a placer compares "
        "decisions of one netlist that no model has seen. Pooled Spearman is high for any model "
        "that only tells graphs apart. All folds are scored together; values are means over seeds "
        "± their standard deviation (single folds: scores.csv). *Pairs*: share of the pairs of "
        "one graph in the right order, of all and of those that differ by more. *Best decile*: "
        f"the best tenth of the decisions of a graph, at least {MIN_BEST}.",
        *_split_parts(plan, board, main_split, main),
    ]
    for name, title in _PICTURES.items():
        parts.append(f"![{title}]({name})")
    for split in others:
        parts += _split_parts(plan, board, split, main)
    parts += _ablation_parts(plan, ablations)
    parts += _uncertainty_parts(plan, board)
    parts.append(f"Numbers: scores.csv, graphs.csv, {PREDICTIONS_FILE} (not published).")
    return "\n\n".join(parts) + "\n"


def _split_parts(plan: Plan, board: Board, split: str, main: str) -> list[str]:
    methods = list(plan.methods)
    lines = tables.winner_lines(board, split, methods, main)
    return [
        f"## {_title(split)}",
        markdown(tables.score_rows(board, split, ALL, methods)),
        "Per family:",
        markdown(tables.family_rows(board, split, methods)),
        "Who wins:",
        "\n".join(f"- {line}" for line in lines),
    ]


def _ablation_rows(plan: Plan, finished: Sequence[Finished]) -> Rows:
    """Ablations and what they are compared with, on the same folds and seeds; or nothing."""
    if not plan.ablations or not plan.seeds.ablation:
        return []
    compared = [item for item in finished if plan.in_ablation_table(item.job)]
    board = Board(score(put_together(plan.sources, compared)))
    return tables.ablation_rows(board, MAIN_SPLIT, plan.methods | plan.ablations)


def _ablation_parts(plan: Plan, rows: Rows) -> list[str]:
    if not rows:
        return []
    folds = "All folds" if plan.ablation_folds is None else f"The first {plan.ablation_folds} folds"
    return [
        "## Ablations",
        f"{folds} by graph. Changes are relative to the method that something was taken away from. "
        "The published figures (Guha et al.) are of a random 5-fold split on another machine: "
        "compare directions, not values. Published heuristic: "
        "RE {:.3f}, pooled Spearman {:.3f}.".format(*tables.PUBLISHED_HEURISTIC),
        markdown(rows),
    ]


def _uncertainty_parts(plan: Plan, board: Board) -> list[str]:
    levels = ", ".join(f"{level:.0%}" for level in LEVELS)
    parts = [
        "## Uncertainty",
        f"Share of the labels within the central {levels} intervals of the predicted normal "
        "distribution of log throughput. Baselines predict one width for all decisions.",
    ]
    for split in board.splits():
        rows = tables.uncertainty_rows(board, split, list(plan.methods))
        parts += [f"{_title(split)}:", markdown(rows) if len(rows) > 1 else "None predicted."]
    return parts


def _latex(plan: Plan, board: Board, header: list[str], ablations: Rows) -> str:
    methods = list(plan.methods)
    parts = ["\n".join(f"% {line}" for line in header)]
    for split in board.splits():
        title = _title(split)
        rows = tables.score_rows(board, split, ALL, methods)
        parts.append(tables.latex(rows, title))
        parts.append(tables.latex(tables.family_rows(board, split, methods), f"{title}, families"))
    if ablations:
        parts.append(tables.latex(ablations, "Ablations, by graph"))
    return "\n\n".join(parts) + "\n"


def _title(split: str) -> str:
    return _TITLES.get(split, f"Transfer to fabric {split}: trained on the whole main dataset")


def _graph_numbers(predictions: Sequence[Predicted]) -> Rows:
    rows: Rows = [("split", "method", "seed", "netlist", "family", "spearman")]
    for p in predictions:
        netlists, first = np.unique(p.netlist, return_index=True)
        columns = netlists.tolist(), p.family[first].tolist(), figures.graph_spearman(p).tolist()
        rows += [(p.split, p.method, p.seed, *cells) for cells in zip(*columns, strict=True)]
    return rows


def _prediction_numbers(shown: Sequence[Predicted]) -> Rows:
    rows: Rows = [("method", "seed", "decision", "netlist", "measured", "predicted", "sigma")]
    for p in shown:
        sigma = np.full(len(p.ids), np.nan) if p.log_sigma is None else np.exp(p.log_sigma)
        columns = (p.ids, p.netlist, p.measured, p.predicted, sigma)
        cells = zip(*(column.tolist() for column in columns), strict=True)
        rows += [(p.method, p.seed, *row) for row in cells]
    return rows
