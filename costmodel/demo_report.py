"""Command: one page about what `make demo` did, which links all its pages."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from omegaconf import DictConfig

from costmodel.dataset import Dataset
from placer.base import InputError, Table, make_console, number, read_text, write_atomic
from placer.base.config import run_command, to_dataclass
from placer.show.html import report_page

REPORT_FILE, PAGE_FILE = "report.md", "index.html"
TITLE = "Demo: what a learned cost model is worth"
STEPS = ("simulate", "dataset", "judge", "compare", "network", "model")
MODEL, RANK, ERROR = "model", "Spearman per graph", "RE"
JUDGED = ("method", ERROR, RANK, "best decile", "top-1 regret")
COMPARED = {
    "random": "nothing: a random placement",
    "heuristic": "the expert's rules, tuned, with restarts",
    "pool": "the model's search, rules in the model's place",
    "shipped": "**the learned model in the box**",
    "simulator_1x": "the simulator in the model's place",
}
LEARNED, IN_ITS_PLACE = "shipped", "pool"
NOTHING = 0.005  # gains below it are none: as much comes from the seed


@dataclass(frozen=True, slots=True)
class DemoConfig:
    """What `conf/demo_report.yaml` holds."""

    folder: Path


def report(folder: Path) -> str:
    """Return the page. Raises InputError when a step has left nothing."""
    for step in STEPS:
        if not (folder / step).is_dir():
            raise InputError(f"{folder / step} is missing; run make demo")
    dataset = Dataset.open(folder / "dataset")
    metrics = json.loads(read_text(folder / "model" / "metrics.json"))["validation"]
    judged = list(csv.DictReader(read_text(folder / "judge/decisions.csv").splitlines()))
    placements = pd.read_csv(folder / "compare/placements.csv")
    return "\n\n".join(
        (
            f"# {TITLE}",
            "## 1. Placement matters",
            "An attention block, placed at random on the small fabric and simulated. Squares are compute units, "
            "circles memory units; links are darker when busier, and red marks what limits the throughput.",
            _pictures(folder, "simulate"),
            "## 2. The model in the box ranks placements of netlists that it has never seen",
            f"{len(dataset)} placements of {len(dataset.fingerprints)} netlists were simulated. Calibrated rules and "
            "boosting learned from the other netlists of this set; the model was trained long before, on other "
            "netlists and other fabrics. Spearman per graph is the rank correlation between placements of one "
            "netlist, RE the mean relative error.",
            Table(JUDGED, [[row[column] for column in JUDGED] for row in judged]).markdown().rstrip(),
            ranking_verdict(judged),
            "## 3. The same seconds of search with different cost models",
            "Netlists that no model has seen, every method with the same time on one core; pools, restarts and "
            "simulations of finalists are in it. Throughput is simulated, and 1 is the bound of the hardware.",
            _compared(placements),
            search_verdict(placements),
            "## 4. A network as you may bring it",
            "One encoder layer in plain PyTorch (data/inputs/networks/encoder.py), imported, checked against its own "
            "numbers, and compiled: the model says which cuts, layouts and placements are worth a simulation.",
            _network(folder),
            _pictures(folder, "network", "time.*.png"),
            "## 5. Training, for show",
            f"A toy was trained on these {len(dataset)} labels alone: on netlists kept for validation its relative "
            f"error is {metrics['relative_error']:.3f}, its Spearman per graph {metrics['spearman']:.3f}. The model "
            "in the box learned from far more (docs/model_card.md).",
            _pictures(folder, "model"),
            "## All pages",
            _pages(folder),
        )
    )


def ranking_verdict(judged: Sequence[Mapping[str, str]]) -> str:
    """Say whether the model is first by rank and by error, and who is if it is not."""
    lines = []
    for column, told, best in ((RANK, "rank", max), (ERROR, "error", min)):
        values = {row["method"]: float(row[column].split(" ")[0]) for row in judged if row[column] != "-"}
        own, others = values.pop(MODEL), values
        first = best(others, key=others.__getitem__)
        is_first = best(own, others[first]) == own and own != others[first]
        who = "the model is first" if is_first else f"the model is **not** first, {first} is"
        lines.append(f"By {told}, {who}: {own:.3f} against {others[first]:.3f} ({first}).")
    return " ".join(lines)


def search_verdict(placements: pd.DataFrame) -> str:
    """Say what of the gain is the model's own: what it adds to the same search with rules in its place."""
    medians = _medians(placements)
    if not {LEARNED, IN_ITS_PLACE} <= set(medians.index):
        return "What the model adds cannot be told: a method is missing."
    gain = float(np.expm1(np.log(medians.loc[LEARNED] / medians.loc[IN_ITS_PLACE]).mean()))
    by_case = placements.groupby(["method", "netlist"])["throughput"]
    spread = float(((by_case.max() - by_case.min()) / by_case.median()).loc[[LEARNED, IN_ITS_PLACE]].mean())
    against = f"{gain:+.1%} over the same search with rules in its place; seeds differ by {spread:.1%} on average"
    if abs(gain) < NOTHING:
        return f"**Here the model does nothing** ({against}): what is gained over the rules is due to the search."
    if gain < 0:
        return f"**Here the model is in the way** ({against})."
    sure = "more" if gain > spread else "no more, so that these few seconds prove little"
    return f"What the model itself adds is {against}: it is {sure} than that."


def _medians(placements: pd.DataFrame) -> pd.DataFrame:
    """Return simulated throughput by method and netlist: medians over seeds."""
    return placements.groupby(["method", "netlist"])["throughput"].median().unstack()


def _compared(placements: pd.DataFrame) -> str:
    medians, seconds = _medians(placements), placements.groupby("method")["seconds"].median()
    shown = [
        [told, *(number(v) for v in medians.loc[name]), number(medians.loc[name].mean()), f"{seconds[name]:.1f}"]
        for name, told in COMPARED.items()
        if name in medians.index
    ]
    return Table(("placed with", *medians.columns, "mean", "seconds"), shown).markdown().rstrip()


def _network(folder: Path) -> str:
    """Return what became of the network, in a table and a sentence."""
    found = json.loads(read_text(folder / "network" / "compiled.json"))
    rows = []
    for section in found["sections"]:
        bound = section["bound_cycles"]
        shares = (bound / section["cycles_per_sample"], bound / (section["predicted_cycles"] or math.nan))
        rows.append([section["netlist"], str(section["repeats"]), *(number(share) for share in shares)])
    first, last = found["history"][0]["cycles_per_input"], found["cycles_per_input"]
    whole = (
        f"The cuts and layouts of the rules take {first:,.0f} cycles per input, the best that was found in "
        f"{found['seconds']:.0f} s takes {last:,.0f}: {first / last:.2f} times as fast."
    )
    header = ("section", "alike", "simulated throughput", "expected before")
    return Table(header, rows).markdown() + f"\n{whole}"


def _pictures(folder: Path, step: str, pattern: str = "*.png") -> str:
    paths = sorted((folder / step).glob(pattern))
    return "\n".join(f"![{path.stem}]({path.relative_to(folder)})" for path in paths)


def _pages(folder: Path) -> str:
    """Return a table with a link to every page that a step has left."""
    paths = [path.relative_to(folder) for step in STEPS for path in sorted((folder / step).glob("*.html"))]
    rows = [[path.parts[0], f"[{path.name}]({path})"] for path in paths]
    return Table(("step", "page"), rows).markdown().rstrip()


def main(config: DictConfig) -> None:
    """Write the page about the demo and print where it is."""
    folder = to_dataclass(DemoConfig, config).folder
    write_atomic(folder / REPORT_FILE, report(folder) + "\n")
    page = report_page(folder / REPORT_FILE, TITLE, "make demo", {})
    write_atomic(folder / PAGE_FILE, page.to_html())
    make_console().print(f"the page with tables and pictures, open it in a browser: {folder / PAGE_FILE}")


if __name__ == "__main__":
    run_command(main, "demo_report")
