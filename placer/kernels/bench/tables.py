"""Tables of the benchmark, beside published figures of the ISPD 2020 benchmarks.

CU.POKer: B. Jiang et al., ICCAD 2020. Best: the smallest ratio to CU.POKer of all rivals in its
table (GigaPlacer, CUPID, annealing, divide and conquer), where one of them is ahead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, median
from typing import NamedTuple

from placer.base import Table
from placer.kernels.bench.jobs import Job, Result


class Published(NamedTuple):
    """What CU.POKer reached on a benchmark, and the lower bound of its time."""

    bound: int
    slowest: int
    wire_length: float
    adapters: int
    score: float
    best_ratio: float = 1.0  # best published score / CU.POKer's


PUBLISHED = {
    "A": Published(33152, 34496, 1314, 15, 35810),
    "B": Published(62181, 63504, 2639.5, 18, 66143.5),
    "C": Published(60270, 64512, 2408, 185, 66920),
    "D": Published(32256, 33712, 2722, 123, 36434, 0.98),
    "E": Published(33152, 39312, 562, 11, 46032),
    "F": Published(62181, 65170, 1489.5, 12, 81265),
    "G": Published(60270, 64512, 2508.5, 98, 99397),
    "H": Published(32256, 39520, 1104.5, 49, 55465),
    "I": Published(46592, 52136, 617.5, 13, 54606),
    "J": Published(45752, 50274, 2472.5, 69, 60164, 0.95),
    "K": Published(252, 432, 240, 3, 1392),
    "L": Published(252, 864, 279, 18, 1980),
    "M": Published(2156544, 2211840, 3610.5, 41, 2226282),
    "N": Published(1020, 1482, 480.5, 10, 3404),
    "O": Published(46592, 52136, 617.5, 13, 82036),
    "P": Published(45752, 57792, 1101, 85, 135832),
    "Q": Published(252, 882, 166, 6, 9922, 0.87),
    "R": Published(252, 8064, 259, 20, 26424),
    "S": Published(2156544, 2396304, 1897.5, 48, 3174500, 0.93),
    "T": Published(1020, 4102, 208.5, 4, 14042),
}


class PublishedTime(NamedTuple):
    """Times with wires ignored: of one wafer, of the slowest of four, and the best known of one.

    One and four: the paper on strips and stacks (its second table). Best: rows with stacks of up to
    three kernels, measured before this mapper was written.
    """

    one_wafer: int
    four_wafers: int
    best: int


PUBLISHED_TIMES = {
    "A": PublishedTime(34496, 10752, 34048),
    "B": PublishedTime(63504, 16128, 63504),
    "C": PublishedTime(62720, 16128, 62720),
    "D": PublishedTime(33516, 9702, 33264),
    "I": PublishedTime(48216, 13608, 48160),
    "J": PublishedTime(47628, 12096, 46592),
    "M": PublishedTime(2228224, 681984, 2211840),
}

# Generated graphs with the kernels, edges and bounds of a benchmark.
TWINS = {
    "resnet50": "A", "doubled": "B", "doubled_convs": "C", "resnet50_convs": "D",
    "resnet50_wired": "E", "resnet50_convs_wired": "H", "lean": "K", "lean_convs_wired": "R",
    "unet": "M", "unet_wired": "S",
}  # fmt: skip


Results = Mapping[Job, Result]
Row = tuple[str, ...]


def tables_of(results: Results, engines: Sequence[str], main: str) -> list[Table]:
    """Return all tables that have a row; `main` is the engine of the first one."""
    tables = [
        _scores(results, main),
        _seeds(results, main),
        _engines(results, engines),
        _times(results),
        _chains(results),
        _variants(results),
    ]
    return [table for table in tables if table.rows]


def letter_of(name: str) -> str:
    """Return the benchmark whose published figures stand beside a graph, "" if there is none."""
    return name if name in PUBLISHED else TWINS.get(name, "")


def _label(name: str) -> str:
    letter = letter_of(name)
    return f"{name} (as {letter})" if letter and letter != name else name


def _of(results: Results, what: str) -> list[tuple[Job, Result]]:
    return [(job, result) for job, result in results.items() if job.what == what]


def _first(results: Results) -> list[tuple[Job, Result]]:
    """Return the mappings with the first seed and rule."""
    found = _of(results, "map")
    return [(job, result) for job, result in found if (job.seed, job.rule) == (found[0][0].seed, found[0][0].rule)]


def _means(ratios: Sequence[Sequence[float]], width: int) -> list[Row]:
    """Return a row with the means over graphs, none if there is no graph."""
    cells = [f"{mean(column):.3f}" for column in zip(*ratios, strict=True)]
    row = (f"mean of {len(ratios)}", *cells, *("",) * (width - 1 - len(cells)))
    return [row] if ratios else []


def _scores(results: Results, engine: str) -> Table:
    header = (
        "graph", "to CU.POKer", "without adapters", "to best published", "deltaT", "bound",
        "published bound", "wires", "adapters", "score", "seconds",
    )  # fmt: skip
    rows: list[Row] = []
    ratios = []
    for job, result in _first(results):
        if job.engine != engine:
            continue
        known, cells, bound = PUBLISHED.get(letter_of(job.name)), ("", "", ""), ""
        if result.problem:
            rows.append((_label(job.name), *cells, result.problem, *("",) * 6))
            continue
        if known is not None:
            ratio, bound = result.score / known.score, f"{known.bound:,}"
            plain = known.score - job.graph.wafer.adapter_weight * known.adapters
            ratios.append((ratio, result.score_without_adapters / plain, ratio / known.best_ratio))
            first, second, third = (f"{value:.3f}" for value in ratios[-1])
            cells = (first, second, third)
        rows.append((
            _label(job.name), *cells, f"{result.slowest:,.10g}", f"{result.bound:,.10g}", bound,
            f"{result.wire_length:,.1f}", str(result.adapters), f"{result.score:,.1f}",
            f"{result.seconds:.0f}",
        ))  # fmt: skip
    rows += _means(ratios, len(header))
    return Table(header, rows, f"Scores of engine {engine}", "scores")


def _seeds(results: Results, engine: str) -> Table:
    """Return a row per graph and rule of adapters, if there are several seeds or rules."""
    header = (
        "graph", "adapter rule", "seeds", "median score", "least", "most", "spread",
        "median to best published", "median adapters", "layouts",
    )  # fmt: skip
    groups: dict[tuple[str, str], list[Result]] = {}
    for job, result in _of(results, "map"):
        if job.engine == engine and not result.problem:
            groups.setdefault((job.name, job.rule), []).append(result)
    rows: list[Row] = []
    for (name, rule), found in groups.items():
        scores, known = [result.score for result in found], PUBLISHED.get(letter_of(name))
        middle = median(scores)
        ratio = "" if known is None else f"{middle / (known.score * known.best_ratio):.3f}"
        different = {(result.score, result.wire_length, result.adapters) for result in found}
        rows.append((
            _label(name), rule, str(len(found)), f"{middle:,.1f}", f"{min(scores):,.1f}", f"{max(scores):,.1f}",
            f"{(max(scores) - min(scores)) / middle:.2%}", ratio,
            f"{median(result.adapters for result in found):g}", str(len(different)),
        ))  # fmt: skip
    is_wanted = len(groups) < sum(map(len, groups.values())) or len({rule for _, rule in groups}) > 1
    return Table(
        header, rows if is_wanted else [], "Over seeds, optimised for the rule of adapters that is asked", "seeds"
    )


def _engines(results: Results, engines: Sequence[str]) -> Table:
    """Compare with the published winner; means are over graphs that all engines have mapped."""
    found: dict[str, dict[str, float]] = {}
    for job, result in _first(results):
        known = PUBLISHED.get(letter_of(job.name))
        if known is not None:
            ratio = float("nan") if result.problem else result.score / known.score
            found.setdefault(job.name, {})[job.engine] = ratio
    rows: list[Row] = [
        (_label(name), *(f"{ratios[engine]:.3f}" if engine in ratios else "" for engine in engines))
        for name, ratios in found.items()
    ]
    values = [[ratios.get(engine, float("nan")) for engine in engines] for ratios in found.values()]
    rows += _means([ratios for ratios in values if all(r > 0 for r in ratios)], len(engines) + 1)
    title = "Scores of all engines, to CU.POKer's"
    return Table(("graph", *engines), rows, title, "engines")


def _times(results: Results) -> Table:
    header = ("graph", "deltaT", "bound", "published", "best known", "to best known", "seconds")
    rows: list[Row] = []
    for job, result in _of(results, "time"):
        if result.problem:
            continue
        known, cells = PUBLISHED_TIMES.get(letter_of(job.name)), ("", "", "")
        if known is not None:
            ratio = result.slowest / known.best
            cells = (f"{known.one_wafer:,}", f"{known.best:,}", f"{ratio:.4f}")
        own = (f"{result.slowest:,.10g}", f"{result.bound:,.10g}")
        rows.append((_label(job.name), *own, *cells, f"{result.seconds:.0f}"))
    return Table(header, rows, "Smallest time of one wafer, wires ignored", "times")


def _chains(results: Results) -> Table:
    header = ("graph", "speed-up", "published", "slowest wafer", "published slowest", "wafers")
    one = {job.name: result for job, result in _of(results, "time") if not result.problem}
    rows: list[Row] = []
    ratios = []
    for job, result in _of(results, "chain"):
        if result.problem or job.name not in one:
            continue
        ratio = one[job.name].slowest / result.slowest
        known = PUBLISHED_TIMES.get(letter_of(job.name))
        published, slowest = "", ""
        if known is not None:
            ratios.append((ratio, known.one_wafer / known.four_wafers))
            published, slowest = f"{ratios[-1][1]:.2f}", f"{known.four_wafers:,}"
        wafers = " / ".join(f"{time:,.10g}" for time in result.times)
        own = f"{result.slowest:,.10g}"
        rows.append((_label(job.name), f"{ratio:.2f}", published, own, slowest, wafers))
    rows += _means(ratios, len(header))
    title = "Chains of wafers: smallest time of one wafer / time of the slowest in the chain"
    return Table(header, rows, title, "chains")


def _variants(results: Results) -> Table:
    rows = [(job.name, f"{result.num_variants:,}", f"{result.seconds:.2f}") for job, result in _of(results, "variants")]
    title = "All non-dominated variants of the largest dblock"
    return Table(("graph", "non-dominated variants", "seconds"), rows, title, "variants")
