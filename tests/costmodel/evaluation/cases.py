"""A small labelled dataset for tests: two families, six netlists, labels from the simulator."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from costmodel.dataset import Metadata, NetlistSamples, make_splits, write_splits
from costmodel.encoding import OPS
from costmodel.evaluation import Baseline, Method, Plan, Seeds, Sources
from placer.fabric import Fabric
from tests.costmodel.dataset.samples import random_samples, small_fabric, write_dataset

NUM_NETLISTS, NUM_DECISIONS, NUM_FOLDS = 6, 12, 3
NO_SEEDS = Seeds(graph=(), random=(), family=(), transfer=(), ablation=())
BY_GRAPH = replace(NO_SEEDS, graph=(0,))
METHODS = {name.value: Method(name) for name in (Baseline.HEURISTIC, Baseline.CALIBRATED)}


def make_dataset(folder: Path, *, families: tuple[str, ...] = ("mha", "mlp"), fabric: Fabric | None = None) -> Path:
    fabric = small_fabric() if fabric is None else fabric
    samples = [_samples(i, families[i % len(families)], fabric) for i in range(NUM_NETLISTS)]
    description = asdict(fabric)
    plain = json.loads(json.dumps(description, default=lambda item: item.value))
    dataset = write_dataset(folder, samples, Metadata({"fabric": plain}, 7, "1"))
    write_splits(folder, make_splits(dataset, NUM_FOLDS))
    return folder


def _samples(number: int, family: str, fabric: Fabric) -> NetlistSamples:
    """Of operations that the encoding knows."""
    samples = random_samples(number, NUM_DECISIONS, seed=number, family=family)
    units = tuple(replace(unit, op=OPS[i % len(OPS)]) for i, unit in enumerate(samples.netlist.units))
    return replace(samples, fabric=fabric, netlist=replace(samples.netlist, units=units, fabric=fabric.name))


def sources_in(folder: Path, **transfers: Path) -> Sources:
    return Sources(make_dataset(folder / "data"), folder / "cache", transfers)


def plan_of(sources: Sources, **changes: Any) -> Plan:
    plan = Plan(sources, METHODS, {}, BY_GRAPH)
    return replace(plan, **changes)


def run_inline(function: Callable[[Any], Any], tasks: Sequence[Any], **options: Any) -> Iterator[tuple[int, Any]]:
    """Stands in for the executor: no processes, in order."""
    return ((index, function(task)) for index, task in enumerate(tasks))


def predicted(
    measured: np.ndarray,
    guess: np.ndarray,
    *,
    method: str = "some",
    seed: int = 0,
    split: str = "graph",
    log_sigma: np.ndarray | None = None,
) -> pd.DataFrame:
    """Predictions for decisions of graphs with ten each; graphs take families and folds in turn."""
    netlist = np.arange(len(measured)) // 10
    return pd.DataFrame(
        {
            "split": split,
            "method": method,
            "seed": seed,
            "fold": netlist % 2,
            "decision": np.arange(len(measured)),
            "netlist": netlist,
            "family": np.array(["mha", "mlp"])[netlist % 2],
            "measured": measured,
            "predicted": guess,
            "log_sigma": np.nan if log_sigma is None else log_sigma,
            "fit_seconds": 1.0 + netlist % 2,
        }
    )
