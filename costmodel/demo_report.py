"""Command: one page about what `make demo` did, which links all its pages."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from omegaconf import DictConfig

from costmodel.dataset import Dataset
from placer.base import InputError, Table, make_console, number, read_text, write_atomic
from placer.base.config import run_command, to_dataclass
from placer.show.html import report_page

REPORT_FILE, PAGE_FILE = "report.md", "index.html"
TITLE = "Demo: why a learned cost model helps"
STEPS = ("simulate", "dataset", "judge", "compare", "place_learned", "model")
JUDGED = ("method", "RE", "Spearman per graph", "best decile", "top-1 regret")
COMPARED = {
    "random": "nothing: a random placement",
    "heuristic": "the expert's rules, tuned, with restarts",
    "pool": "the model's search, rules in the model's place",
    "shipped": "**the learned model in the box**",
    "simulator_1x": "the simulator in the model's place",
}


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
            "netlists and other fabrics. Spearman per graph is the rank correlation between placements of one netlist.",
            _table(folder / "judge/decisions.csv", JUDGED),
            "## 3. The same seconds of search with different cost models",
            "Netlists that no model has seen, every method with the same time on one core, all simulations counted; "
            "throughput is simulated, and 1 is the bound of the hardware.",
            _compared(folder),
            "Where the row of rules in the model's place is as good as the model, the gain is due to the search: on "
            "so small a fabric a simulation takes 20 ms, and the simulator itself makes the choice.",
            "## 4. A block placed by the model",
            _pictures(folder, "place_learned"),
            "## 5. Training, for show",
            f"A toy was trained on these {len(dataset)} labels alone: on netlists kept for validation its relative "
            f"error is {metrics['relative_error']:.3f}, its Spearman per graph {metrics['spearman']:.3f}. The model "
            "in the box learned from far more (docs/model_card.md).",
            _pictures(folder, "model"),
            "## All pages",
            _pages(folder),
        )
    )


def _table(path: Path, columns: tuple[str, ...]) -> str:
    """Return some columns of a CSV file as Markdown."""
    rows = list(csv.DictReader(read_text(path).splitlines()))
    return Table(columns, [[row[column] for column in columns] for row in rows]).markdown().rstrip()


def _compared(folder: Path) -> str:
    """Return simulated throughput by method: the mean over netlists of medians over seeds."""
    placements = pd.read_csv(folder / "compare/placements.csv")
    medians = placements.groupby(["method", "netlist"])["throughput"].median().unstack()
    shown = [[told, *(number(value) for value in medians.loc[name]), number(medians.loc[name].mean())]
             for name, told in COMPARED.items() if name in medians.index]  # fmt: skip
    return Table(("placed with", *medians.columns, "mean"), shown).markdown().rstrip()


def _pictures(folder: Path, step: str) -> str:
    paths = sorted((folder / step).glob("*.png"))
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
