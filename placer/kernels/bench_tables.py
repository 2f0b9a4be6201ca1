"""Tables of the benchmark, beside published figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from placer.kernels.bench_jobs import Job, Result
from placer.kernels.published import PUBLISHED, PUBLISHED_TIMES, TWINS, Published

Results = Mapping[Job, Result]


@dataclass(frozen=True, slots=True)
class BenchTable:
    """A table with its title; files are named `name`."""

    name: str
    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


def tables_of(results: Results, engines: Sequence[str], main: str) -> list[BenchTable]:
    """All tables; `main` is the engine of the first one."""
    tables = [
        _scores(results, main),
        _engines(results, engines),
        _times(results),
        _chains(results),
        _variants(results),
    ]
    return [table for table in tables if table.rows]


def letter_of(name: str) -> str:
    """The benchmark whose published figures stand beside a graph, "" if there is none."""
    return name if name in PUBLISHED else TWINS.get(name, "")


def _label(name: str) -> str:
    letter = letter_of(name)
    return f"{name} (as {letter})" if letter and letter != name else name


def _known(name: str) -> Published | None:
    return PUBLISHED.get(letter_of(name))


def _mean_row(label: str, columns: Iterable[Sequence[float]], width: int) -> tuple[str, ...]:
    cells = [f"{mean(column):.3f}" if column else "" for column in columns]
    return (label, *cells, *("",) * (width - 1 - len(cells)))


def _ratios(job: Job, result: Result) -> tuple[float, float, float] | None:
    """Score to CU.POKer's, without adapters, and to the best published score."""
    known = _known(job.name)
    if known is None or result.problem:
        return None
    to_winner = result.score / known.score
    plain = known.without_adapters(job.graph.wafer.adapter_weight)
    return to_winner, result.score_without_adapters / plain, to_winner / known.best_ratio


def _score_cells(job: Job, result: Result) -> tuple[str, ...]:
    if result.problem:
        return (result.problem, *("",) * 6)
    known = _known(job.name)
    return (
        f"{result.slowest:,.10g}",
        f"{result.bound:,.10g}",
        "" if known is None else f"{known.bound:,}",
        f"{result.wire_length:,.1f}",
        str(result.adapters),
        f"{result.score:,.1f}",
        f"{result.seconds:.0f}",
    )


def _scores(results: Results, engine: str) -> BenchTable:
    header = (
        "graph", "to CU.POKer", "without adapters", "to best published", "deltaT", "bound",
        "published bound", "wires", "adapters", "score", "seconds",
    )  # fmt: skip
    rows: list[tuple[str, ...]] = []
    known = []
    for job, result in results.items():
        if job.what == "map" and job.engine == engine:
            ratios = _ratios(job, result)
            cells = ("", "", "") if ratios is None else tuple(f"{ratio:.3f}" for ratio in ratios)
            rows.append((_label(job.name), *cells, *_score_cells(job, result)))
            known += [] if ratios is None else [ratios]
    if known:
        columns = list(zip(*known, strict=True))
        rows.append(_mean_row(f"mean of {len(known)}", columns, len(header)))
    return BenchTable("scores", f"Scores of engine {engine}", header, rows)


def _engines(results: Results, engines: Sequence[str]) -> BenchTable:
    """Ratios to the published winner, the mean over graphs on which all engines have a layout."""
    found: dict[str, dict[str, float]] = {}
    for job, result in results.items():
        known = _known(job.name)
        if job.what == "map" and known is not None:
            ratio = float("nan") if result.problem else result.score / known.score
            found.setdefault(job.name, {})[job.engine] = ratio
    rows: list[tuple[str, ...]] = [
        (_label(name), *(f"{ratios[engine]:.3f}" if engine in ratios else "" for engine in engines))
        for name, ratios in found.items()
    ]
    whole = [
        ratios
        for ratios in found.values()
        if all(ratios.get(engine, float("nan")) > 0 for engine in engines)
    ]
    if whole:
        columns = [[ratios[engine] for ratios in whole] for engine in engines]
        rows.append(_mean_row(f"mean of {len(whole)}", columns, len(engines) + 1))
    title = "Scores of all engines, to CU.POKer's"
    return BenchTable("engines", title, ("graph", *engines), rows)


def _times(results: Results) -> BenchTable:
    header = ("graph", "deltaT", "bound", "published", "best known", "to best known", "seconds")
    rows: list[tuple[str, ...]] = []
    for job, result in results.items():
        if job.what != "time" or result.problem:
            continue
        known = PUBLISHED_TIMES.get(letter_of(job.name))
        cells = ("", "", "")
        if known is not None:
            ratio = result.slowest / known.best
            cells = (f"{known.one_wafer:,}", f"{known.best:,}", f"{ratio:.4f}")
        own = (f"{result.slowest:,.10g}", f"{result.bound:,.10g}")
        rows.append((_label(job.name), *own, *cells, f"{result.seconds:.0f}"))
    return BenchTable("times", "Smallest time of one wafer, wires ignored", header, rows)


def _chains(results: Results) -> BenchTable:
    header = ("graph", "speed-up", "published", "slowest wafer", "published slowest", "wafers")
    one = {job.name: result for job, result in results.items() if job.what == "time"}
    rows: list[tuple[str, ...]] = []
    ratios = []
    for job, result in results.items():
        if job.what != "chain" or result.problem or job.name not in one or one[job.name].problem:
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
    if ratios:
        columns = list(zip(*ratios, strict=True))
        rows.append(_mean_row(f"mean of {len(ratios)}", columns, len(header)))
    title = "Chains of wafers: smallest time of one wafer / time of the slowest in the chain"
    return BenchTable("chains", title, header, rows)


def _variants(results: Results) -> BenchTable:
    rows: list[tuple[str, ...]] = [
        (job.name, f"{result.num_variants:,}", f"{result.seconds:.2f}")
        for job, result in results.items()
        if job.what == "variants"
    ]
    title = "All non-dominated variants of the largest dblock"
    return BenchTable("variants", title, ("graph", "non-dominated variants", "seconds"), rows)
