"""Tables and pictures of a comparison.

Within a netlist the median over seeds counts; netlists of a group are put together by the geometric
mean of their gains over the base. `in sum` is the gain in the time of one sample of each netlist,
for a model that of one input through all its sections. The gap is what the limit (the simulator in
the loop, with more time) gains over the base; share = log gain of a method / log gain of the limit.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from placer.base import Picture, Table, write_atomic, write_report
from placer.show.html import Chapter, PageTable, report_page

HEADER = [
    "group", "method", "netlists", "seeds", "throughput", "over base", "in sum",
    "spread over seeds", "worst netlist", "share of the gap", "RE of prediction",
    "RE of favourites", "seconds", "searches",
]  # fmt: skip
LEAST_GAP = 0.01  # smaller ones are noise, and a share of them says nothing
REPORT_FILE = "report.md"
VALUES_HEADER = [
    "group", "netlist", "fabric", "units", "method", "seed", "throughput", "predicted", "favourite",
    "favourite_predicted", "seconds", "searches", "simulation_seconds",
]  # fmt: skip


def grouped(placements: pd.DataFrame) -> dict[tuple[str, str], pd.DataFrame]:
    """Return the placements of each group and method, in the order in which they come.

    Behind them stand all of a fabric together, where it has several groups.
    """
    num_groups = placements.groupby(["fabric", "method"])["group"].transform("nunique")
    several = placements[num_groups > 1]
    together = several.assign(group="all on " + several["fabric"])
    everything = pd.concat([placements, together])
    return dict(iter(everything.groupby(["group", "method"], sort=False)))


def medians(placements: pd.DataFrame) -> pd.Series:
    """Return the median throughput over seeds of each netlist, by fingerprint."""
    return placements.groupby("fingerprint", sort=False)["throughput"].median()


def cycles(placements: pd.DataFrame) -> float:
    """Return the time of all netlists one after the other."""
    work = placements.groupby("fingerprint", sort=False)["work"].first()
    return float((work / medians(placements)).sum())


def gains(placements: pd.DataFrame, base: pd.DataFrame) -> pd.Series:
    """Return the log of the ratio of medians, for the netlists that both have placed."""
    return np.log(medians(placements) / medians(base)).dropna()


def summary_rows(placements: pd.DataFrame, base: str, limit: str) -> list[list[str]]:
    """Return one row per group and method; empty cells where there is no base or no limit."""
    found = grouped(placements)
    return [
        [group, method, *_cells(own, found.get((group, base)), found.get((group, limit)))]
        for (group, method), own in found.items()
    ]


def _cells(own: pd.DataFrame, base: pd.DataFrame | None, limit: pd.DataFrame | None) -> list[str]:
    by_netlist = own.groupby("fingerprint", sort=False)["throughput"]
    num_seeds = by_netlist.size().max()
    spread = ((by_netlist.max() - by_netlist.min()) / by_netlist.median()).mean()
    over, in_sum, worst, share = "", "", "", ""
    if base is not None:
        gain = gains(own, base)
        over, worst = f"{np.expm1(gain.mean()):+.1%}", f"{np.expm1(gain.min()):+.1%}"
        in_sum = f"{cycles(base) / cycles(own) - 1:+.1%}"
        whole = 0.0 if limit is None else gains(limit, base).mean()
        share = f"{gain.mean() / whole:.0%}" if whole > LEAST_GAP else ""
    error = (own["predicted"] / own["throughput"] - 1).abs().mean()
    favourites_error = (own["favourite_predicted"] / own["favourite"] - 1).abs().mean()
    return [
        str(len(by_netlist)),
        str(num_seeds),
        f"{by_netlist.median().mean():.3f}",
        over,
        in_sum,
        f"{spread:.1%}" if num_seeds > 1 else "",
        worst,
        share,
        f"{error:.3f}",
        f"{favourites_error:.3f}",
        f"{own['seconds'].median():.1f}",
        f"{own['searches'].median():.0f}",
    ]


def write_comparison(
    placements: pd.DataFrame,
    folder: Path,
    *,
    base: str,
    limit: str,
    twins: tuple[str, str],
    command: str,
    config: dict[str, Any],
    publish: Path | None = None,
) -> Table:
    """Write `report.md`, `report.html`, `placements.csv` and pictures; return the summary.

    Twins are one search with the rules and with a model in it: where both were run, a picture shows what
    the model adds, against what a simulation takes.
    """
    legend = (
        f"Base: `{base}`. Limit: `{limit}`. Throughput: mean over netlists of the median over "
        "seeds, 1 is the bound. Over base: geometric mean over netlists; in sum: by the time of a "
        "sample of each, for a model of one input through all sections. Spread over seeds: largest "
        "less smallest, to the median. RE of prediction: of the placements that were chosen; of "
        "favourites: of those that the cost model liked best, before finalists were simulated. No "
        f"share where the gap is below {LEAST_GAP:.0%}."
    )
    summary = Table(HEADER, summary_rows(placements, base, limit))
    digits = dict.fromkeys(("throughput", "predicted", "favourite", "favourite_predicted"), 5)
    values = placements[VALUES_HEADER].copy()
    for name, number in (digits | {"seconds": 2}).items():
        values[name] = values[name].map(f"{{:.{number}f}}".format)
    rows = list(values.itertuples(index=False))
    parts: list[str | Table | Picture] = [
        legend,
        summary,
        Picture("gain", "Gain by netlist", draw_gains(placements, base)),
        Picture("predicted", "Predicted against simulated", draw_predicted(placements)),
    ]
    if set(twins) <= set(placements["method"]):
        parts.append(Picture("worth", "Where a model pays", draw_worth(placements, *twins)))
    numbers = [Table(VALUES_HEADER, rows, name="placements")]
    title = "Comparison in simulation"
    write_report(folder, REPORT_FILE, title, command, parts, publish, numbers)
    page = report_page(folder / REPORT_FILE, title, command, config)
    every = Chapter("Placements", [PageTable("All placements", VALUES_HEADER, rows)])
    page = replace(page, subtitle="Placements by cost model", sections=[*page.sections, every])
    write_atomic(folder / "report.html", page.to_html())
    return summary


def draw_gains(placements: pd.DataFrame, base: str) -> Figure:
    """Draw the gain of each method over the base, a point per netlist, a panel per group."""
    found = grouped(placements)
    groups = list(dict.fromkeys(group for group, _ in found))
    figure = Figure(figsize=(max(2.4 * len(groups), 5), 4), layout="constrained")
    panels = figure.subplots(1, len(groups), sharey=True, squeeze=False)[0]
    for axes, group in zip(panels, groups, strict=True):
        names = [method for own, method in found if own == group and method != "random"]
        for number, name in enumerate(names):
            own = found[group, name]
            values = 100 * np.expm1(gains(own, found.get((group, base), own)))
            axes.scatter([number] * len(values), values, s=12, alpha=0.6, color="#0077BB", lw=0)
            axes.plot([number - 0.3, number + 0.3], [np.median(values)] * 2, color="#CC3311")
        axes.axhline(0, color="#000000", lw=0.6, ls=":")
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize=8)
        axes.set_title(group, fontsize=9)
    panels[0].set_ylabel(f"gain over {base}, %")
    return figure


def draw_worth(placements: pd.DataFrame, rules: str, model: str) -> Figure:
    """Draw what the model adds to the same search with rules, a point per netlist, by the time of a simulation."""
    figure = Figure(figsize=(6.4, 4), layout="constrained")
    axes = figure.subplots()
    for fabric, own in placements.groupby("fabric", sort=False):
        of_rules, of_model = (own[own["method"] == name] for name in (rules, model))
        values = 100 * np.expm1(gains(of_model, of_rules))
        seconds = own.groupby("fingerprint")["simulation_seconds"].median()[values.index]
        axes.scatter(1e3 * seconds, values, s=18, alpha=0.7, lw=0, label=f"{fabric}: {np.median(values):+.1f}%")
    axes.axhline(0, color="#000000", lw=0.6, ls=":")
    axes.set(xscale="log", xlabel="one simulation takes, ms", ylabel=f"{model} over {rules}, %")
    axes.legend(title="median", fontsize=8)
    return figure


def draw_predicted(placements: pd.DataFrame) -> Figure:
    """Draw predicted against simulated throughput of the placements that were chosen."""
    methods = dict(iter(placements.groupby("method", sort=False)))
    methods.pop("random", None)
    figure = Figure(figsize=(max(2.4 * len(methods), 5), 2.9), layout="constrained")
    panels = figure.subplots(1, len(methods), sharey=True, squeeze=False)[0]
    for axes, (method, own) in zip(panels, methods.items(), strict=True):
        axes.scatter(own["throughput"], own["predicted"], s=8, alpha=0.5, lw=0, color="#0077BB")
        axes.axline((0, 0), slope=1, color="#000000", lw=0.6, ls=":")
        axes.set(xlim=(0, 1.05), ylim=(0, 1.3), xlabel="simulated", title=method)
    panels[0].set_ylabel("predicted")
    return figure
