"""Tables of an evaluation: the first row is the header. `*_numbers` are exact, for CSV."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from costmodel.dataset.report_numbers import ALL
from costmodel.dataset.report_tables import Rows
from costmodel.evaluation.methods import Method, Published
from costmodel.evaluation.scores import LEVELS, Scored, Spread

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


@dataclass(frozen=True, slots=True)
class Board:
    """Scores, to be asked for by split, family and method."""

    scores: Sequence[Scored]

    def splits(self) -> list[str]:
        return list(dict.fromkeys(s.split for s in self.scores))

    def families(self, split: str) -> list[str]:
        """Sorted by name, ALL first."""
        found = {s.family for s in self.scores if s.split == split}
        return [ALL, *sorted(found - {ALL})]

    def find(self, split: str, family: str, method: str) -> list[Scored]:
        """One entry per seed."""
        wanted = (split, family, method, None)
        return [s for s in self.scores if (s.split, s.family, s.method, s.fold) == wanted]

    def spread(self, split: str, family: str, method: str, metric: str) -> Spread:
        """A metric over seeds."""
        found = self.find(split, family, method)
        return Spread.of([s.metrics.to_dict()[metric] for s in found])


def score_rows(
    board: Board,
    split: str,
    family: str,
    methods: Sequence[str],
    columns: Sequence[str] = tuple(METRICS),
) -> Rows:
    """One row per method."""
    rows: Rows = [("method", "seeds", *columns)]
    for method in methods:
        seeds = len(board.find(split, family, method))
        cells = [str(board.spread(split, family, method, METRICS[name])) for name in columns]
        rows.append((method, seeds, *cells))
    return rows


def family_rows(board: Board, split: str, methods: Sequence[str]) -> Rows:
    """RE and per-graph Spearman of each family."""
    families = board.families(split)
    rows: Rows = [("method", *(f"{f}: {name}" for f in families for name in ("Spearman", "RE")))]
    for method in methods:
        cells = [
            str(board.spread(split, family, method, metric))
            for family in families
            for metric in ("spearman", "relative_error")
        ]
        rows.append((method, *cells))
    return rows


def winner_lines(board: Board, split: str, methods: Sequence[str], main: str) -> list[str]:
    """Who is best in each family, and plainly who beats the main method."""
    lines = []
    for family in board.families(split):
        verdicts = [
            _verdict(board, split, family, methods, main, *what)
            for what in (("per-graph Spearman", "spearman", max), ("RE", "relative_error", min))
        ]
        lines.append(f"{family}: {'; '.join(verdicts)}.")
    return lines


def _verdict(
    board: Board,
    split: str,
    family: str,
    methods: Sequence[str],
    main: str,
    title: str,
    metric: str,
    best_of: Callable[[float, float], float],
) -> str:
    values = {method: board.spread(split, family, method, metric).mean for method in methods}
    told = {method: value for method, value in values.items() if value == value}
    if not told:
        return f"{title} tells nothing"
    ordered = sorted(told, key=told.__getitem__, reverse=best_of is max)
    if main not in told or len(ordered) == 1:
        return f"{title} best `{ordered[0]}` {told[ordered[0]]:.3f}"
    ahead = [method for method in ordered[: ordered.index(main)] if told[method] != told[main]]
    if ahead:
        named = ", ".join(f"`{method}` {told[method]:.3f}" for method in ahead)
        return f"{title}: {named} **beats** `{main}` {told[main]:.3f}"
    second = next(method for method in ordered if method != main)
    return f"{title} best `{main}` {told[main]:.3f}, next `{second}` {told[second]:.3f}"


def ablation_rows(board: Board, split: str, methods: dict[str, Method]) -> Rows:
    """Ablations beneath the methods that they belong to, with published figures beside them."""
    rows: Rows = [
        (
            "method", "family", "RE", "pooled Spearman", "Spearman", "change of RE",
            "of pooled Spearman", "of Spearman", "published RE", "published pooled Spearman",
        )
    ]  # fmt: skip
    metrics = ("relative_error", "spearman_pooled", "spearman")
    for name in _by_base(methods):
        method = methods[name]
        for family in board.families(split):
            values = [board.spread(split, family, name, metric) for metric in metrics]
            changes = ["", "", ""]
            if method.base is not None:
                base = [board.spread(split, family, method.base, m).mean for m in metrics]
                changes = [f"{v.mean - b:+.3f}" for v, b in zip(values, base, strict=True)]
            known = PUBLISHED[method.published].get(family) if method.published else None
            published = ("", "") if known is None else tuple(f"{value:.3f}" for value in known)
            rows.append((name, family, *map(str, values), *changes, *published))
    return rows


def _by_base(methods: dict[str, Method]) -> list[str]:
    """Methods with ablations, each followed by these."""
    bases = dict.fromkeys(method.base for method in methods.values() if method.base is not None)
    return [
        name
        for base in bases
        for name in (base, *(n for n, r in methods.items() if r.base == base))
    ]


def uncertainty_rows(board: Board, split: str, methods: Sequence[str]) -> Rows:
    """Coverage of the intervals of those methods that tell their uncertainty."""
    levels = tuple(f"within {level:.0%}" for level in LEVELS)
    rows: Rows = [("method", "family", *levels, "mean sigma", "log likelihood")]
    for method in methods:
        for family in board.families(split):
            known = [s.uncertainty for s in board.find(split, family, method) if s.uncertainty]
            if not known:
                continue
            covered = zip(*(u.coverage for u in known), strict=True)
            sigma = Spread.of([u.mean_sigma for u in known])
            likelihood = Spread.of([u.log_likelihood for u in known])
            cells = (*map(Spread.of, covered), sigma, likelihood)
            rows.append((method, family, *map(str, cells)))
    return rows


def score_numbers(board: Board) -> Rows:
    """Everything: each split, method, family, fold and seed."""
    names = tuple(board.scores[0].metrics.to_dict())
    levels = tuple(f"coverage_{level:.0%}".rstrip("%") for level in LEVELS)
    extra = (*levels, "mean_sigma", "log_likelihood")
    rows: Rows = [("split", "method", "seed", "family", "fold", "fit_seconds", *names, *extra)]
    for s in board.scores:
        u = s.uncertainty
        found = (float("nan"),) * len(extra)
        if u is not None:
            found = (*u.coverage, u.mean_sigma, u.log_likelihood)
        fold = ALL if s.fold is None else s.fold
        values = s.metrics.to_dict().values()
        rows.append((s.split, s.method, s.seed, s.family, fold, s.seconds, *values, *found))
    return rows


def latex(rows: Rows, caption: str) -> str:
    """A table for `\\usepackage{booktabs}`."""
    header, *body = ([_latex_cell(str(cell)) for cell in row] for row in rows)
    lines = [" & ".join(row) + r" \\" for row in (header, *body)]
    return "\n".join(
        (
            r"\begin{table}",
            rf"\caption{{{_latex_cell(caption)}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
            r"\toprule",
            lines[0],
            r"\midrule",
            *lines[1:],
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        )
    )


def _latex_cell(text: str) -> str:
    for plain, escaped in (
        ("_", r"\_"), ("%", r"\%"), ("> ", "$>$ "), ("±", r"$\pm$"), ("**", ""), ("`", ""),
    ):  # fmt: skip
        text = text.replace(plain, escaped)
    return text
