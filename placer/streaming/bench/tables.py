"""Tables of a benchmark: one line per graph, the policy against lists, fronts, speeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from placer.streaming.bench.jobs import SAMPLES, Job

Header = tuple[str, ...]
Rows = list[tuple[str, ...]]
SUMMARY_MAPPERS = ("list", "sa", "exact", "hybrid")  # of the short table
POLICY_NODES = 40  # the policy is judged up to here


@dataclass(frozen=True, slots=True)
class Measured:
    """A job and what came of it."""

    job: Job
    result: dict[str, Any]


def of_kind(measured: Sequence[Measured], kind: str) -> list[Measured]:
    return [item for item in measured if item.job.kind == kind]


def by_graph(measured: Sequence[Measured]) -> dict[str, list[Measured]]:
    """In the order of the jobs."""
    groups: dict[str, list[Measured]] = {}
    for item in measured:
        groups.setdefault(item.job.graph, []).append(item)
    return groups


def best_known(items: Sequence[Measured]) -> int | None:
    """Fewest cycles that any mapper or sample of this benchmark found for a graph."""
    keys = ("cycles", "best", "ranked", "single", "list")
    maps = [item.result for item in items if item.job.kind in ("map", "zero_shot")]
    found = [result.get(key) for result in maps for key in keys]
    return min((cycles for cycles in found if cycles is not None), default=None)


def mapper_table(
    measured: Sequence[Measured], only: Sequence[str] | None = None
) -> tuple[Header, Rows]:
    """Graphs x mappers: cycles over the seeds (seconds), `*` where proved optimal."""
    maps = of_kind(measured, "map")
    mappers = list(dict.fromkeys(item.job.settings["mapper"] for item in maps))
    if only is not None:
        mappers = [mapper for mapper in mappers if mapper in only]
    rows = []
    for graph, items in by_graph([*maps, *of_kind(measured, "zero_shot")]).items():
        bound = max((item.result.get("bound", 0) for item in items), default=0)
        cells = [
            _mapper_cell([item for item in items if item.job.settings.get("mapper") == mapper])
            for mapper in mappers
        ]
        samples = of_kind(items, "zero_shot")
        cells.append(_spread(samples, "best", "best_seconds"))
        rows.append((graph, str(items[0].job.nodes), str(bound), *cells))
    return ("graph", "nodes", "bound", *mappers, f"rl, {SAMPLES} samples"), rows


def _mapper_cell(items: Sequence[Measured]) -> str:
    text = _spread(items, "cycles", "seconds")
    is_proved = bool(items) and all(
        "cycles" in item.result and item.result["cycles"] == item.result["bound"] for item in items
    )
    return text.replace(" (", "* (") if is_proved else text


def _spread(items: Sequence[Measured], key: str, seconds: str) -> str:
    found = [item.result[key] for item in items if item.result.get(key) is not None]
    if not found:
        return "-"
    low, high = min(found), max(found)
    mean = fmean(item.result[seconds] for item in items if item.result.get(key) is not None)
    cycles = f"{low}" if low == high else f"{low}-{high}"
    return f"{cycles} ({mean:.2f})" if mean < 1 else f"{cycles} ({mean:.1f})"


def zero_shot_table(measured: Sequence[Measured]) -> tuple[Header, Rows]:
    """The policy against list scheduling in the seconds that its samples take."""
    rows = []
    for graph, items in by_graph(measured).items():
        samples, known = of_kind(items, "zero_shot"), best_known(items)
        if samples:
            cells = [
                _spread(samples, key, f"{key}_seconds") for key in ("single", "best", "ranked")
            ]
            cells.append(_spread(samples, "list", "best_seconds"))
            rows.append((graph, str(items[0].job.nodes), str(known or "-"), *cells))
    header = ("graph", "nodes", "best known", "likeliest", f"best of {SAMPLES}",
              "ranked by the value model", "list in equal time")  # fmt: skip
    return header, rows


def zero_shot_lines(measured: Sequence[Measured]) -> list[str]:
    """Share of cycles above the best known, over graphs of up to 40 nodes and all seeds."""
    above: dict[str, list[float]] = {"single": [], "best": [], "ranked": [], "list": []}
    worse, seconds = [], []
    for graph, items in by_graph(measured).items():
        known = best_known(items)
        for item in of_kind(items, "zero_shot"):
            if item.job.nodes > POLICY_NODES or not known or not item.result.get("best"):
                continue
            for key, shares in above.items():
                if item.result[key] is not None:
                    shares.append(100 * (item.result[key] / known - 1))
            seconds.append(item.result["best_seconds"])
            if item.result["list"] is not None and item.result["list"] < item.result["best"]:
                worse.append(f"{graph} (seed {item.job.settings['seed']})")
    names = {
        "single": "likeliest mapping",
        "best": f"best of {SAMPLES}",
        "ranked": "ranked by the value model",
        "list": "list scheduling in equal time",
    }
    lines = [
        f"{names[key]}: {fmean(shares):.1f}% above the best known on average, at most "
        f"{max(shares):.1f}%"
        for key, shares in above.items()
        if shares
    ]
    if seconds:
        lines.append(f"seconds of {SAMPLES} samples: {min(seconds):.2f} to {max(seconds):.2f}")
        lines.append(f"list scheduling was better on: {', '.join(worse) or 'none'}")
    return lines


def front_table(measured: Sequence[Measured]) -> tuple[Header, Rows]:
    """Cycles for every initiation interval; `*` where proved optimal."""
    fronts = by_graph(of_kind(measured, "front"))
    intervals = sorted({item.job.settings["ii"] for items in fronts.values() for item in items})
    rows = []
    for graph, items in fronts.items():
        cells = {item.job.settings["ii"]: _front_cell(item.result) for item in items}
        rows.append((graph, *(cells.get(ii, "") for ii in intervals)))
    return ("program", *(f"ii {ii}" for ii in intervals)), rows


def _front_cell(result: dict[str, Any]) -> str:
    if "cycles" not in result:
        return "-"
    return f"{result['cycles']}{'*' if result['cycles'] == result['bound'] else ''}"


def speed_table(measured: Sequence[Measured]) -> tuple[Header, Rows]:
    """Steps per second without and with the network."""
    games = {m.job.nodes: m.result["steps_per_second"] for m in of_kind(measured, "game_speed")}
    rows = []
    for item in of_kind(measured, "training_speed"):
        ppo = (item.result.get(f"threads_{threads}") for threads in (1, 2))
        speeds = (games.get(item.job.nodes), *ppo)
        cells = ("-" if speed is None else f"{speed:,}" for speed in speeds)
        rows.append((str(item.job.nodes), *cells))
    return ("nodes", "game alone", "PPO, one thread", "PPO, two threads"), rows
