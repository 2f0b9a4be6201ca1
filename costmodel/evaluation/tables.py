"""Tables of an evaluation for readers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from costmodel.dataset import ALL
from costmodel.evaluation.methods import Method, Published
from costmodel.evaluation.scores import LEVELS, UNCERTAINTY, Spread
from placer.base import Cell, Table

# Spreads of all metrics by name, by (split, family, method); all folds together.
Board = dict[tuple[str, str, str], dict[str, Spread]]

METRICS = {
    "RE": "relative_error",
    "pooled Spearman": "spearman_pooled",
    "Spearman": "spearman",
    "Kendall": "kendall",
    "pairs": "pair_accuracy",
    "> 2%": "pair_accuracy_2",
    "> 5%": "pair_accuracy_5",
    "> 10%": "pair_accuracy_10",
    "top-1 regret": "top1_regret",
    "top-5 regret": "top5_regret",
    "best decile: Spearman": "best_spearman",
    "best decile: RE": "best_relative_error",
}

# RE and pooled Spearman as published: 5-fold, random split, 5878 decisions of another machine.
PUBLISHED_HEURISTIC = (0.406, 0.468)
PUBLISHED = {
    Published.FULL: {
        ALL: (0.193, 0.808), "mlp": (0.148, 0.778), "ffn": (0.404, 0.563), "mha": (0.139, 0.794),
    },
    Published.WITHOUT_EDGE_EMBEDDING: {
        "mlp": (0.343, 0.291), "ffn": (0.576, 0.116), "mha": (0.297, 0.337),
    },
    Published.WITHOUT_NODE_EMBEDDING: {
        "mlp": (0.205, 0.428), "ffn": (0.413, 0.293), "mha": (0.249, 0.477),
    },
}  # fmt: skip


def board_of(scores: pd.DataFrame) -> Board:
    """Return the spreads over seeds of what `score` gave."""
    whole, first = scores[scores["fold"] == ALL], scores.columns.get_loc("num_decisions")
    return {
        key: {name: Spread.of(own[name].to_numpy()) for name in scores.columns[first:]}
        for key, own in whole.groupby(["split", "family", "method"], sort=False)
    }


def splits_of(board: Board) -> list[str]:
    """Return the splits in the order of the jobs."""
    return list(dict.fromkeys(split for split, _, _ in board))


def families_of(board: Board, split: str) -> list[str]:
    """Return the families of a split sorted by name, ALL first."""
    return [ALL, *sorted({family for own, family, _ in board if own == split} - {ALL})]


def table_of(frame: pd.DataFrame, name: str) -> Table:
    """Return the exact numbers of a frame, for a CSV file of that name."""
    rows: list[Any] = list(frame.itertuples(index=False))
    return Table(list(frame), rows, name=name)


def score_table(
    board: Board, split: str, methods: Sequence[str], columns: Sequence[str] = tuple(METRICS), title: str = ""
) -> Table:
    """Return a row per method over all families."""
    rows: list[tuple[Cell, ...]] = []
    for method in methods:
        found = board[split, ALL, method]
        cells = [found[METRICS[name]] for name in columns]
        rows.append((method, cells[0].seeds, *map(str, cells)))
    return Table(("method", "seeds", *columns), rows, title)


def family_table(board: Board, split: str, methods: Sequence[str]) -> Table:
    """Return RE and per-graph Spearman of each family."""
    families, metrics = families_of(board, split), ("spearman", "relative_error")
    header = ("method", *(f"{f}: {name}" for f in families for name in ("Spearman", "RE")))
    rows = [
        (method, *(str(board[split, f, method][metric]) for f in families for metric in metrics)) for method in methods
    ]
    return Table(header, rows)


def winner_lines(board: Board, split: str, methods: Sequence[str], main: str) -> list[str]:
    """Say who is best in each family, and plainly who beats the main method."""
    lines = []
    for family in families_of(board, split):
        found = {method: board[split, family, method] for method in methods}
        ranks = {method: metrics["spearman"].mean for method, metrics in found.items()}
        errors = {method: metrics["relative_error"].mean for method, metrics in found.items()}
        rank = _verdict("per-graph Spearman", ranks, main, is_more_better=True)
        lines.append(f"{family}: {rank}; {_verdict('RE', errors, main, is_more_better=False)}.")
    return lines


def _verdict(title: str, values: dict[str, float], main: str, *, is_more_better: bool) -> str:
    told = {method: value for method, value in values.items() if not np.isnan(value)}
    if not told:
        return f"{title} tells nothing"
    ordered = sorted(told, key=told.__getitem__, reverse=is_more_better)
    if main not in told or len(ordered) == 1:
        return f"{title} best `{ordered[0]}` {told[ordered[0]]:.3f}"
    ahead = [method for method in ordered[: ordered.index(main)] if told[method] != told[main]]
    if ahead:
        named = ", ".join(f"`{method}` {told[method]:.3f}" for method in ahead)
        return f"{title}: {named} beats `{main}` {told[main]:.3f}"
    second = next(method for method in ordered if method != main)
    return f"{title} best `{main}` {told[main]:.3f}, next `{second}` {told[second]:.3f}"


def ablation_table(board: Board, split: str, methods: dict[str, Method]) -> Table:
    """Return ablations beneath the methods that they belong to, beside published figures."""
    header = (
        "method", "family", "RE", "pooled Spearman", "Spearman", "change of RE",
        "of pooled Spearman", "of Spearman", "published RE", "published pooled Spearman",
    )  # fmt: skip
    rows = []
    metrics = ("relative_error", "spearman_pooled", "spearman")
    for name in _by_base(methods):
        method = methods[name]
        for family in families_of(board, split):
            values, changes = board[split, family, name], ["", "", ""]
            if method.base is not None:
                base = board[split, family, method.base]
                changes = [f"{values[m].mean - base[m].mean:+.3f}" for m in metrics]
            known = PUBLISHED[method.published].get(family) if method.published else None
            published = ("", "") if known is None else tuple(f"{value:.3f}" for value in known)
            cells = (str(values[m]) for m in metrics)
            rows.append((name, family, *cells, *changes, *published))
    return Table(header, rows)


def _by_base(methods: dict[str, Method]) -> list[str]:
    """Return the methods with ablations, each followed by these."""
    bases = dict.fromkeys(method.base for method in methods.values() if method.base is not None)
    return [name for base in bases for name in (base, *(n for n, r in methods.items() if r.base == base))]


def uncertainty_table(board: Board, split: str, methods: Sequence[str]) -> Table:
    """Return the coverage of the intervals of those methods that tell their uncertainty."""
    levels = (f"within {level:.0%}" for level in LEVELS)
    rows = []
    for method in methods:
        for family in families_of(board, split):
            found = board[split, family, method]
            if not np.isnan(found["mean_sigma"].mean):
                rows.append((method, family, *(str(found[name]) for name in UNCERTAINTY)))
    return Table(("method", "family", *levels, "mean sigma", "log likelihood"), rows)


def latex(table: Table, caption: str) -> str:
    """Return a table for `\\usepackage{booktabs}`."""
    header, *rows = ([_latex_cell(str(cell)) for cell in row] for row in (table.header, *table.rows))
    text: str = pd.DataFrame(rows, columns=header).to_latex(
        index=False, caption=_latex_cell(caption), column_format="l" + "r" * (len(header) - 1)
    )
    return text.rstrip()


def _latex_cell(text: str) -> str:
    for plain, escaped in (
        ("_", r"\_"), ("%", r"\%"), ("> ", "$>$ "), ("±", r"$\pm$"), ("**", ""), ("`", ""),
    ):  # fmt: skip
        text = text.replace(plain, escaped)
    return text
