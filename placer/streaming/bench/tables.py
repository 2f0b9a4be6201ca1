"""Tables of a benchmark: one line per graph, the policy against lists, fronts, speeds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from placer.base import Table
from placer.streaming.bench.jobs import SAMPLES, Job

Measured = tuple[Job, dict[str, Any]]  # a job and what came of it
SUMMARY_MAPPERS = ("list", "sa", "exact", "hybrid")  # of the short table
POLICY_NODES = 40  # the policy is judged up to here
SHOTS = {
    "single": "likeliest mapping",
    "best": f"best of {SAMPLES}",
    "ranked": "ranked by the value model",
    "list": "list scheduling in equal time",
}


def _of_kind(measured: Sequence[Measured], kind: str) -> list[Measured]:
    return [item for item in measured if item[0].kind == kind]


def _by_graph(measured: Sequence[Measured]) -> dict[str, list[Measured]]:
    """Return the measurements of each graph, in the order of the jobs."""
    groups: dict[str, list[Measured]] = {}
    for item in measured:
        groups.setdefault(item[0].graph, []).append(item)
    return groups


def _best_known(items: Sequence[Measured]) -> int | None:
    """Return the fewest cycles that any mapper or sample of this benchmark found for a graph."""
    maps = [result for job, result in items if job.kind in ("map", "zero_shot")]
    found = [result.get(key) for result in maps for key in ("cycles", *SHOTS)]
    return min((cycles for cycles in found if cycles is not None), default=None)


def mapper_table(measured: Sequence[Measured]) -> Table:
    """Return graphs x mappers: cycles over the seeds (seconds), `*` where proved optimal."""
    maps = _of_kind(measured, "map")
    mappers = list(dict.fromkeys(job.settings["mapper"] for job, _ in maps))
    rows = []
    for graph, items in _by_graph([*maps, *_of_kind(measured, "zero_shot")]).items():
        bound = max(result.get("bound", 0) for _, result in items)
        cells = [
            _mapper_cell([item for item in items if item[0].settings.get("mapper") == mapper]) for mapper in mappers
        ]
        cells.append(_spread(_of_kind(items, "zero_shot"), "best", "best_seconds"))
        rows.append((graph, items[0][0].nodes, bound, *cells))
    header = ("graph", "nodes", "bound", *mappers, f"rl, {SAMPLES} samples")
    return Table(header, rows, "Mappers", "mappers")


def summary_table(whole: Table) -> Table:
    """Return the table of mappers with the columns of a few of them."""
    edges = (0, 1, 2, len(whole.header) - 1)
    kept = [k for k, name in enumerate(whole.header) if k in edges or name in SUMMARY_MAPPERS]
    rows = [[row[k] for k in kept] for row in whole.rows]
    return Table([whole.header[k] for k in kept], rows, "In short")


def _mapper_cell(items: Sequence[Measured]) -> str:
    text = _spread(items, "cycles", "seconds")
    is_proved = bool(items) and all("cycles" in result and result["cycles"] == result["bound"] for _, result in items)
    return text.replace(" (", "* (") if is_proved else text


def _spread(items: Sequence[Measured], key: str, seconds: str) -> str:
    found = [result for _, result in items if result.get(key) is not None]
    if not found:
        return "-"
    low, high = (limit(result[key] for result in found) for limit in (min, max))
    mean = fmean(result[seconds] for result in found)
    cycles = f"{low}" if low == high else f"{low}-{high}"
    return f"{cycles} ({mean:.2f})" if mean < 1 else f"{cycles} ({mean:.1f})"


def zero_shot_table(measured: Sequence[Measured]) -> Table:
    """Return the policy against list scheduling in the seconds that its samples take."""
    rows = []
    for graph, items in _by_graph(measured).items():
        samples, known = _of_kind(items, "zero_shot"), _best_known(items)
        if samples:
            cells = [_spread(samples, key, f"{key}_seconds") for key in ("single", "best", "ranked")]
            cells.append(_spread(samples, "list", "best_seconds"))
            rows.append((graph, items[0][0].nodes, known or "-", *cells))
    header = ("graph", "nodes", "best known", "likeliest", f"best of {SAMPLES}",
              "ranked by the value model", "list in equal time")  # fmt: skip
    title = "The policy against list scheduling in equal time"
    return Table(header, rows, title, "zero_shot")


def zero_shot_lines(measured: Sequence[Measured]) -> list[str]:
    """Say how far above the best known, over graphs of up to 40 nodes and all seeds."""
    above: dict[str, list[float]] = {key: [] for key in SHOTS}
    worse, seconds = [], []
    for graph, items in _by_graph(measured).items():
        known = _best_known(items)
        for job, result in _of_kind(items, "zero_shot"):
            if job.nodes > POLICY_NODES or not known or not result.get("best"):
                continue
            for key, shares in above.items():
                if result[key] is not None:
                    shares.append(100 * (result[key] / known - 1))
            seconds.append(result["best_seconds"])
            if result["list"] is not None and result["list"] < result["best"]:
                worse.append(f"{graph} (seed {job.settings['seed']})")
    lines = [
        f"{SHOTS[key]}: {fmean(shares):.1f}% above the best known on average, at most {max(shares):.1f}%"
        for key, shares in above.items()
        if shares
    ]
    if seconds:
        lines.append(f"seconds of {SAMPLES} samples: {min(seconds):.2f} to {max(seconds):.2f}")
        lines.append(f"list scheduling was better on: {', '.join(worse) or 'none'}")
    return lines


def front_table(measured: Sequence[Measured]) -> Table:
    """Return the cycles for every initiation interval; `*` where proved optimal."""
    fronts = _by_graph(_of_kind(measured, "front"))
    intervals = sorted({job.settings["ii"] for items in fronts.values() for job, _ in items})
    rows = []
    for graph, items in fronts.items():
        cells = {
            job.settings["ii"]: f"{r['cycles']}{'*' * (r['cycles'] == r['bound'])}" if "cycles" in r else "-"
            for job, r in items
        }
        rows.append((graph, *(cells.get(ii, "") for ii in intervals)))
    header = ("program", *(f"ii {ii}" for ii in intervals))
    return Table(header, rows, "Cycles by initiation interval", "fronts")


def speed_table(measured: Sequence[Measured]) -> Table:
    """Return the steps per second without and with the network."""
    games = {job.nodes: r["steps_per_second"] for job, r in _of_kind(measured, "game_speed")}
    rows: list[tuple[str | int, ...]] = []
    for job, result in _of_kind(measured, "training_speed"):
        ppo = (result.get(f"threads_{threads}") for threads in (1, 2))
        speeds = (games.get(job.nodes), *ppo)
        cells = ("-" if speed is None else f"{speed:,}" for speed in speeds)
        rows.append((job.nodes, *cells))
    header = ("nodes", "game alone", "PPO, one thread", "PPO, two threads")
    return Table(header, rows, "Steps per second", "speed")
