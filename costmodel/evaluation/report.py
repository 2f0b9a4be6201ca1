"""Report on an evaluation: Markdown, LaTeX, CSV and pictures.

Nothing depends on the time of day or on how often a run was cut off: same jobs, same text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from costmodel.base import MIN_BEST
from costmodel.evaluation import figures, tables
from costmodel.evaluation.jobs import MAIN_SPLIT, Finished, Plan, code_version
from costmodel.evaluation.scores import LEVELS, SCORED_TOGETHER, predictions_of, score
from costmodel.evaluation.tables import Board, board_of, splits_of, table_of
from placer.base import Picture, Table, git_revision, write_atomic, write_report

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


def write_evaluation(
    plan: Plan, finished: Sequence[Finished], folder: Path, *, main: str, command: str, publish: Path | None = None
) -> tuple[Table, list[str]]:
    """Write all tables and pictures; `main` is the method that others must not beat.

    Return what a command shows first: a table of the main split, and who wins there. Raises OSError
    when a file cannot be written.
    """
    predictions, methods = predictions_of(finished), list(plan.methods)
    scores = score(predictions)
    board = board_of(scores)
    split = MAIN_SPLIT if MAIN_SPLIT in splits_of(board) else splits_of(board)[0]
    own = predictions[predictions["split"] == split]
    shown = own[own["seed"] == own.groupby("method")["seed"].transform("first")]  # one per method
    header = _header(plan)
    ablations = _ablations(plan, finished)
    parts: list[str | Table | Picture] = [
        "\n".join(f"- {line}" for line in header),
        f"Decide on the Spearman **within a graph** of the split `{split}`: a placer compares "
        "decisions of one netlist that no model has seen. Pooled Spearman is high for any model "
        "that only tells graphs apart. All folds are scored together; values are means over seeds "
        "± their standard deviation (single folds: scores.csv). *Pairs*: share of the pairs of "
        "one graph in the right order, of all and of those that differ by more. *Best decile*: "
        f"the best tenth of the decisions of a graph, at least {MIN_BEST}.",
        *_split_parts(board, split, methods, main),
        *_pictures(board, split, methods, shown[shown["method"].isin(methods)]),
    ]
    for other in splits_of(board):
        if other != split:
            parts += _split_parts(board, other, methods, main)
    parts += [*_ablation_parts(plan, ablations), *_uncertainty_parts(board, methods)]
    parts.append(f"Numbers: scores.csv, graphs.csv, {PREDICTIONS_FILE} (not published).")
    numbers = [table_of(scores, "scores"), table_of(_graphs(predictions), "graphs")]
    write_report(folder, REPORT_FILE, "Evaluation", command, parts, publish, numbers)
    latex = _latex(board, methods, [f"Command: `{command}`", *header], ablations)
    for target in filter(None, (folder, publish)):
        write_atomic(target / "tables.tex", latex)
    columns = ["method", "seed", "decision", "netlist", "measured", "predicted", "sigma"]
    decisions = shown.assign(sigma=np.exp(shown["log_sigma"]))[columns]
    write_atomic(folder / PREDICTIONS_FILE, table_of(decisions, "predictions").csv())
    title = f"{split} split, unseen decisions"
    summary = tables.score_table(board, split, methods, _SUMMARY, title)
    return summary, tables.winner_lines(board, split, methods, main)


def _header(plan: Plan) -> list[str]:
    sources, seeds = plan.sources, plan.seeds
    lines = [f"Code: models `{code_version()}`, git `{git_revision()}`"]
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


def _split_parts(board: Board, split: str, methods: list[str], main: str) -> list[str | Table]:
    lines = tables.winner_lines(board, split, methods, main)
    return [
        tables.score_table(board, split, methods, title=_title(split)),
        "Per family:",
        tables.family_table(board, split, methods),
        "Who wins:",
        "\n".join(f"- {line}" for line in lines),
    ]


def _pictures(board: Board, split: str, methods: list[str], compared: pd.DataFrame) -> list[Picture]:
    by_family = figures.error_by_family(board, split, methods)
    calibration = figures.calibration_of_uncertainty(compared)
    return [
        Picture("predicted", "Predicted against measured", figures.predicted_against_measured(compared)),
        Picture("rank", "Rank within each graph", figures.rank_within_graphs(compared)),
        Picture("error", "Error by family", by_family),
        Picture("uncertainty", "Calibration of the uncertainty", calibration),
    ]


def _ablations(plan: Plan, finished: Sequence[Finished]) -> Table | None:
    """Return ablations and what they are compared with, on the same folds and seeds, if any."""
    if not plan.ablations or not plan.seeds.ablation:
        return None
    compared = predictions_of(item for item in finished if plan.in_ablation_table(item[0]))
    return tables.ablation_table(board_of(score(compared)), MAIN_SPLIT, plan.methods | plan.ablations)


def _ablation_parts(plan: Plan, table: Table | None) -> list[str | Table]:
    if table is None:
        return []
    folds = "All folds" if plan.ablation_folds is None else f"The first {plan.ablation_folds} folds"
    return [
        "## Ablations",
        f"{folds} by graph. Changes are relative to the method that something was taken away from. "
        "The published figures (Guha et al.) are of a random 5-fold split on another machine: "
        "compare directions, not values. Published heuristic: "
        "RE {:.3f}, pooled Spearman {:.3f}.".format(*tables.PUBLISHED_HEURISTIC),
        table,
    ]


def _uncertainty_parts(board: Board, methods: list[str]) -> list[str | Table]:
    levels = ", ".join(f"{level:.0%}" for level in LEVELS)
    parts: list[str | Table] = [
        "## Uncertainty",
        f"Share of the labels within the central {levels} intervals of the predicted normal "
        "distribution of log throughput. Baselines predict one width for all decisions.",
    ]
    for split in splits_of(board):
        table = tables.uncertainty_table(board, split, methods)
        parts += [f"{_title(split)}:", table if table.rows else "None predicted."]
    return parts


def _latex(board: Board, methods: list[str], header: list[str], ablations: Table | None) -> str:
    parts = ["\n".join(f"% {line}" for line in header)]
    for split in splits_of(board):
        title = _title(split)
        parts.append(tables.latex(tables.score_table(board, split, methods), title))
        families = tables.family_table(board, split, methods)
        parts.append(tables.latex(families, f"{title}, families"))
    if ablations is not None:
        parts.append(tables.latex(ablations, "Ablations, by graph"))
    return "\n\n".join(parts) + "\n"


def _title(split: str) -> str:
    return _TITLES.get(split, f"Transfer to fabric {split}: trained on the whole main dataset")


def _graphs(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the Spearman correlation of each graph, by split, method and seed."""
    groups = predictions.groupby(SCORED_TOGETHER, sort=False)
    ranks = [figures.graph_ranks(own).assign(**dict(zip(SCORED_TOGETHER, key, strict=True))) for key, own in groups]
    return pd.concat(ranks)[[*SCORED_TOGETHER, "netlist", "family", "spearman"]]
