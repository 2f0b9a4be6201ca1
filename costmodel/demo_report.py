"""Command: one page about what `make demo` did, which links all its pages."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
MODEL, RULES, RANK, ERROR = "model", "rules", "Spearman per graph", "RE"
JUDGED = {
    RANK: "rank within a netlist (1: the true order)",
    ERROR: "mean error",
    "best decile": "rank among the best tenth",
    "top-1 regret": "lost by taking its favourite",
}
COMPARED = {
    "random": "nothing: a random placement",
    "heuristic": "the expert's rules, tuned, with restarts",
    "pool": "the model's search, rules in the model's place",
    "shipped": "**the learned model in the box**",
    "simulator_1x": "the simulator in the model's place",
}
AT_RANDOM, LEARNED, IN_ITS_PLACE = "random", "shipped", "pool"
NOTHING = 0.005  # gains below it are none: as much comes from the seed
PAGES = {  # what is on the pages of a step
    "simulate": "the attention block of step 1: point at units and links",
    "compare": "all placements of step 4",
    "network": "the network of step 5 on the fabric",
}
WHOLE_NETWORK = "compiled.html"


@dataclass(frozen=True, slots=True)
class DemoConfig:
    """What `conf/demo_report.yaml` holds."""

    folder: Path


@dataclass(frozen=True, slots=True)
class Found:
    """What the steps have left in their folders."""

    simulated: Mapping[str, Any]  # result of the first step
    dataset: Dataset
    judged: Sequence[Mapping[str, str]]
    placements: pd.DataFrame  # of the comparison
    network: Mapping[str, Any]
    toy: Mapping[str, float]  # metrics of validation

    @classmethod
    def read(cls, folder: Path) -> Found:
        """Read all of it. Raises InputError when a step has left nothing."""
        for step in STEPS:
            if not (folder / step).is_dir():
                raise InputError(f"{folder / step} is missing; run make demo")
        (simulated,) = (folder / "simulate").glob("result.*.json")
        return cls(
            json.loads(read_text(simulated)),
            Dataset.open(folder / "dataset"),
            list(csv.DictReader(read_text(folder / "judge/decisions.csv").splitlines())),
            pd.read_csv(folder / "compare/placements.csv"),
            json.loads(read_text(folder / "network/compiled.json")),
            json.loads(read_text(folder / "model/metrics.json"))["validation"],
        )


def report(folder: Path) -> str:
    """Return the page. Raises InputError when a step has left nothing."""
    found = Found.read(folder)
    chapters = (
        f"# {TITLE}",
        "\n".join(f"- {line}" for line in summary(found)),
        "## Pages to open\n\n" + _pages(folder),
        *_of_placements(folder, found),
        *_of_search(found),
        *_of_network(folder, found),
        *_of_toy(folder, found),
    )
    return "\n\n".join(chapters)


def summary(found: Found) -> list[str]:
    """Return what the demo has shown, a sentence or two for each step."""
    time = found.simulated["time"]
    lost = time["congestion"] / sum(time.values())
    first, last = found.network["history"][0]["cycles_per_input"], found.network["cycles_per_input"]
    return [
        f"**Placement matters** (step 1): an attention block that is placed at random spends {lost:.0%} of its time "
        "in congestion.",
        f"**Who knows good placements without simulating them?** (steps 2, 3) {ranking_verdict(found.judged)}",
        f"**And in a search of the same seconds?** (step 4) {search_verdict(found.placements)}",
        f"**It works for networks of your own** (step 5): an encoder layer in plain PyTorch was compiled, "
        f"{first / last:.2f} times as fast as the first plan that was placed.",
        "**Why a model, if there is a simulator?** " + _why(found),
    ]


def _why(found: Found) -> str:
    milliseconds = 1000 * float(found.placements["simulation_seconds"].median())
    errors = {row["method"]: row[ERROR].split(" ")[0] for row in found.judged}
    return (
        f"One simulation of these small netlists takes about {milliseconds:.0f} ms, and a search of seconds can afford "
        "it: here the simulator is the best guide there is. On fabrics and networks of real size one takes seconds, "
        "and a search must judge thousands of placements. Rules are quick enough for that, and so is the model: its "
        f"mean error was {errors[MODEL]} in step 3, that of the rules {errors.get(RULES, 'not measured')}."
    )


def _of_placements(folder: Path, found: Found) -> tuple[str, ...]:
    """Return the chapters about placements that were not searched: one at random, and many that were ranked."""
    data = found.dataset
    return (
        "## Step 1: placement matters",
        "An attention block, placed at random on the small fabric and simulated. Squares are compute units, "
        "circles memory units; links are darker when busier, and red marks what limits the throughput.",
        _pictures(folder, "simulate", "mha*.png"),
        "Where its time goes: congestion is what another placement can win back.",
        _pictures(folder, "simulate", "time*.png"),
        "## Steps 2 and 3: the model in the box ranks placements of netlists that it has never seen",
        f"{len(data)} placements of {len(data.fingerprints)} netlists were simulated. Calibrated rules and "
        "boosting learned from the other netlists of this set; the model was trained long before, on other "
        "netlists and other fabrics.",
        "Placements of the same netlist, ranked by each method:",
        _judged(found.judged),
        ranking_verdict(found.judged),
    )


def _of_search(found: Found) -> tuple[str, ...]:
    return (
        "## Step 4: the same seconds of search with different cost models",
        "Netlists that no model has seen, every method with the same time on one core; pools, restarts and "
        "simulations of finalists are in it.",
        "Simulated throughput (1 is the bound of the hardware):",
        _compared(found.placements),
        search_verdict(found.placements),
    )


def _of_network(folder: Path, found: Found) -> tuple[str, ...]:
    return (
        "## Step 5: a network as you may bring it",
        "One encoder layer in plain PyTorch (data/inputs/networks/encoder.py), imported, checked against its own "
        "numbers, and compiled: the model says which cuts, layouts and placements are worth a simulation.",
        "Its sections:",
        _network(found.network),
        _pictures(folder, "network", "time.*.png"),
    )


def _of_toy(folder: Path, found: Found) -> tuple[str, ...]:
    return (
        "## Step 6: training, for show",
        f"A toy was trained on these {len(found.dataset)} labels alone: on netlists kept for validation its mean "
        f"error is {found.toy['relative_error']:.3f}, its rank within a netlist {found.toy['spearman']:.3f}. The model "
        "in the box learned from far more (docs/model_card.md).",
        _pictures(folder, "model"),
    )


def _judged(judged: Sequence[Mapping[str, str]]) -> str:
    rows = []
    for row in judged:
        cells = [row["method"], *(row[column] for column in JUDGED)]
        rows.append([f"**{cell}**" for cell in cells] if row["method"] == MODEL else cells)
    return Table(("method", *JUDGED.values()), rows).markdown().rstrip()


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
    if abs(gain) <= spread:
        return f"**What the model adds here cannot be told**: {against}, and these few seconds prove little."
    if gain < 0:
        return f"**Here the model is in the way** ({against})."
    return f"What the model itself adds is {against}: it is more than that."


def _medians(placements: pd.DataFrame) -> pd.DataFrame:
    """Return simulated throughput by method and netlist: medians over seeds."""
    return placements.groupby(["method", "netlist"])["throughput"].median().unstack()


def _compared(placements: pd.DataFrame) -> str:
    medians, seconds = _medians(placements), placements.groupby("method")["seconds"].median()
    errors = (placements["predicted"] / placements["throughput"] - 1).abs().groupby(placements["method"]).mean()
    shown = [
        [
            told, *(number(v) for v in medians.loc[name]), number(medians.loc[name].mean()),
            "-" if name == AT_RANDOM else f"{errors[name]:.1%}", f"{seconds[name]:.1f}",
        ]
        for name, told in COMPARED.items()
        if name in medians.index
    ]  # fmt: skip
    header = ("placed with", *medians.columns, "mean", "it predicted this with an error of", "seconds")
    return Table(header, shown).markdown().rstrip()


def _network(found: Mapping[str, Any]) -> str:
    """Return what became of the network, in a table and a sentence."""
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
    """Return the pictures of a step."""
    paths = sorted((folder / step).glob(pattern))
    return "\n".join(f"![{path.stem}]({path.relative_to(folder)})" for path in paths)


def _pages(folder: Path) -> str:
    """Return a table with a link to every page that a step has left."""
    paths = [path.relative_to(folder) for step in PAGES for path in sorted((folder / step).glob("*.html"))]
    whole = "the network of step 5: its time, its cut, the course of the search"
    rows = [[f"[{path.name}]({path})", whole if path.name == WHOLE_NETWORK else PAGES[path.parts[0]]] for path in paths]
    return Table(("page", "what it shows"), rows).markdown().rstrip()


def main(config: DictConfig) -> None:
    """Write the page about the demo and print where it is."""
    folder = to_dataclass(DemoConfig, config).folder
    write_atomic(folder / REPORT_FILE, report(folder) + "\n")
    page = report_page(folder / REPORT_FILE, TITLE, "make demo", {})
    write_atomic(folder / PAGE_FILE, page.to_html())
    make_console().print(f"the page with tables and pictures, open it in a browser: {folder / PAGE_FILE}")


if __name__ == "__main__":
    run_command(main, "demo_report")
