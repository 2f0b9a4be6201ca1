"""Command: how well mappings of unseen graphs are predicted (conf/wafer_evaluate.yaml).

Trains with the same command as models of the fabric (costmodel.train) on each fold, and compares
with what needs no training data, or hardly any.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from omegaconf import DictConfig

from costmodel.base import Calibration, Evaluation, score_predictions
from costmodel.model import Labelled, Selection, open_labelled
from costmodel.training import RunConfig, run, select
from costmodel.wafer.dataset import WaferDataset
from placer.base import Cell, FloatArray, InputError, Table, make_console, require_folder, write_atomic
from placer.base.config import compose_config, run_command, to_dataclass

SplitName = Literal["graph", "family"]
METHODS = ("deltaT", "deltaT + wires", "slowest kernel", "flow")
_METRICS = ("relative_error", "spearman", "spearman_pooled", "pair_accuracy_5", "top5_regret")


@dataclass(frozen=True, slots=True)
class WaferEvaluateConfig:
    """What `conf/wafer_evaluate.yaml` holds."""

    data: Path
    cache: Path
    graph_folds: list[int]
    families: list[str]
    max_epochs: int
    threads: int | None
    output: Path


class Row(NamedTuple):
    """One method on one part."""

    split: SplitName
    fold: str
    method: str
    evaluation: Evaluation


def fold_folder(output: Path, split: SplitName, fold: str) -> Path:
    """Return where the run of a fold lies; its model is `flow.pt`."""
    return output / f"{split}_{fold}"


def run_folds(config: WaferEvaluateConfig, on_note: Callable[[str], None], *, show_progress: bool = False) -> list[Row]:
    """Train on and test every fold; runs that are there are used again."""
    on_note("reading and encoding the dataset")
    data, numbers = open_labelled(config.data, config.cache), WaferDataset.open(config.data).numbers
    folds: list[tuple[SplitName, str, int]] = [("graph", str(k), k) for k in config.graph_folds]
    known = list(data.splits.families)
    for family in config.families:
        if family not in known:
            raise InputError(f"unknown family {family!r}; the dataset has: {', '.join(known)}")
    folds += [("family", family, known.index(family)) for family in config.families]
    rows = []
    for split, name, fold in folds:
        train, test = select(data, split, fold)
        assert test is not None, "folds have a test part"
        on_note(f"split by {split}, without {name}: {len(train)} mappings to train with")
        training = _training(config, split, name, fold)
        model = run(training, show_progress=show_progress).model
        predictions = {
            "deltaT": _calibrated(numbers["heuristic"], train)[test.ids],
            "deltaT + wires": _calibrated(_with_wires(data, numbers, train), train)[test.ids],
            "slowest kernel": np.minimum(numbers["slowest_kernel"][test.ids], 1.0),
            "flow": model.predict(test).throughput,
        }
        rows += [
            Row(split, name, method, score_predictions(predictions[method], test.throughput, test.netlist))
            for method in METHODS
        ]
    return rows


def _training(config: WaferEvaluateConfig, split: SplitName, name: str, fold: int) -> RunConfig:
    """Return the settings that `python -m costmodel.train` would be called with."""
    threads = "null" if config.threads is None else config.threads
    overrides = [
        f"data={config.data}", f"cache={config.cache}", f"split={split}", f"fold={fold}",
        f"trainer.max_epochs={config.max_epochs}", f"trainer.threads={threads}",
        "tracking.uri=null", f"output={fold_folder(config.output, split, name)}",
    ]  # fmt: skip
    return to_dataclass(RunConfig, compose_config("train", overrides))


def _calibrated(scores: FloatArray, train: Selection) -> FloatArray:
    """Return throughput for all scores, by the curve of the training part."""
    return Calibration.fit(scores[train.ids], train.throughput).apply(scores)


def _with_wires(data: Labelled, numbers: dict[str, FloatArray], train: Selection) -> FloatArray:
    """Return exp of the best mix of log(bound / deltaT), log wire length per edge, adapters."""
    graphs = data.graphs
    edges = np.maximum(1, np.diff(graphs.flow_start)[graphs.facts_of])
    columns = np.stack(
        [
            np.ones(len(data)),
            np.log(numbers["heuristic"]),
            np.log1p(numbers["wire_length"] / edges),
            numbers["adapters"] / edges,
        ],
        axis=1,
    )
    factors, *_ = np.linalg.lstsq(columns[train.ids], np.log(train.throughput), rcond=None)
    mixed: FloatArray = np.exp(columns @ factors)
    return mixed


def main(config: DictConfig) -> None:
    """Train on and test every fold, write the scores and print them."""
    settings, console = to_dataclass(WaferEvaluateConfig, config), make_console()
    require_folder(settings.output)
    names, shown = ("split", "fold", "method"), []
    kept: list[tuple[Cell, ...]] = []
    for row in run_folds(settings, console.print, show_progress=console.is_terminal):
        scores = row.evaluation.overall
        values = [f"{getattr(scores, name):.4f}" for name in _METRICS]
        shown.append((*row[:3], *values))
        kept.append((*row[:3], scores.num_graphs, scores.num_decisions, *values))
    table = Table((*names, "graphs", "mappings", *_METRICS), kept)
    write_atomic(settings.output / "evaluation.csv", table.csv())
    header = (*names, "RE", "per graph", "pooled", "pairs > 5%", "regret")
    console.print(Table(header, shown).screen())
    console.print(f"written: {settings.output / 'evaluation.csv'}")


if __name__ == "__main__":
    run_command(main, "wafer_evaluate")
