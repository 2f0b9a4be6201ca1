"""Command: one page about what `make demo` did, with its pictures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from costmodel.dataset import Dataset
from placer.base import InputError, Table, make_console, number, read_text, write_atomic
from placer.base.config import run_command, to_dataclass

REPORT_FILE = "report.md"
HEADER = ("cost model", "predicted", "simulated", "search, s")
STEPS = ("simulate", "place_heuristic", "dataset", "model", "evaluate", "place_learned")


@dataclass(frozen=True, slots=True)
class DemoConfig:
    """What `conf/demo_report.yaml` holds."""

    folder: Path


def report(folder: Path) -> str:
    """Return the page. Raises InputError when a step has left nothing."""
    for step in STEPS:
        if not (folder / step).is_dir():
            raise InputError(f"{folder / step} is missing; run make demo")
    placed = {name: _placed(folder / f"place_{name}") for name in ("heuristic", "learned")}
    known = Dataset.open(folder / "dataset").fingerprints
    seen = placed["learned"]["fingerprint"] in known
    metrics = json.loads(read_text(folder / "model" / "metrics.json"))["validation"]
    return "\n\n".join(
        (
            "# Demo: from random decisions to a placement by a learned model",
            "## 1. An attention block on the fabric, placed at random",
            _pictures(folder, "simulate"),
            "## 2. A dataset and a model",
            f"The model was trained on {len(Dataset.open(folder / 'dataset'))} decisions of "
            f"{len(known)} netlists; on netlists kept for validation its relative error is "
            f"{metrics['relative_error']:.3f}, its Spearman per graph {metrics['spearman']:.3f}. "
            "`make model` trains on 9,216 decisions and is far better. "
            "[Dataset](dataset/report/report.md), [evaluation](evaluate/report.md).",
            _pictures(folder, "model"),
            "## 3. The same block, placed by the expert's rules and by the model",
            f"The block was {'part of' if seen else 'not in'} the dataset. Throughput 1 is the bound of the fabric.",
            Table(HEADER, [_row(*item) for item in placed.items()]).markdown().rstrip(),
            _pictures(folder, "place_heuristic"),
            _pictures(folder, "place_learned"),
        )
    )


def _placed(folder: Path) -> dict[str, Any]:
    """Return the only section of a result of `placer.place`."""
    paths = sorted(folder.glob("result.*.json"))
    if not paths:
        raise InputError(f"{folder} holds no result; run make demo")
    section: dict[str, Any] = json.loads(read_text(paths[0]))["sections"][0]
    return section


def _row(name: str, section: dict[str, Any]) -> list[str]:
    found = section["result"]
    shares = [number(found[key]) for key in ("predicted_throughput", "throughput")]
    return [name, *shares, number(section["seconds"], 1)]


def _pictures(folder: Path, step: str) -> str:
    paths = sorted((folder / step).glob("*.png"))
    return "\n".join(f"![{path.stem}]({path.relative_to(folder)})" for path in paths)


def main(config: DictConfig) -> None:
    """Write the page about the demo and print where it is."""
    folder = to_dataclass(DemoConfig, config).folder
    write_atomic(folder / REPORT_FILE, report(folder) + "\n")
    make_console().print(f"the report with pictures: {folder / REPORT_FILE}")


if __name__ == "__main__":
    run_command(main, "demo_report")
