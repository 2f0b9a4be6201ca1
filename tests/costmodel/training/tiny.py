"""A dataset of a few random netlists, and settings that train on it in about a second."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import NoReturn

from costmodel.dataset import Dataset, Metadata, NetlistSamples, make_splits, write_splits
from costmodel.networks import FlowConfig
from costmodel.training import RunConfig, TrainerConfig
from placer.base.config import compose_config, to_dataclass
from tests.costmodel.dataset.samples import random_samples, small_fabric, write_dataset

QUICK = (
    "trainer.max_epochs=2", "trainer.threads=1", "trainer.accelerator=cpu",
    "trainer.graphs_per_batch=3", "trainer.decisions_per_graph=4", "trainer.validation_share=0.2",
    "tracking.uri=null",
)  # fmt: skip
SMALL_FLOW = ("student.steps=0", "potential.max_epochs=0", "model.width=8", "model.lane_width=8", "model.rounds=1")
NETLISTS = 8
FLOW = FlowConfig(width=8, lane_width=8, rounds=1)
TRAINER = TrainerConfig(
    max_epochs=3, graphs_per_batch=2, decisions_per_graph=4, validation_share=0.25, threads=1, accelerator="cpu"
)


def write_tiny(folder: Path) -> Dataset:
    """NETLISTS netlists of two families with five decisions each, and splits."""
    dataset = write_dataset(folder, [tiny_samples(i) for i in range(NETLISTS)], metadata())
    write_splits(folder, make_splits(dataset, num_folds=2))
    return dataset


def tiny_samples(netlist_id: int) -> NetlistSamples:
    """With an operation that models know."""
    family = ("even", "odd")[netlist_id % 2]
    samples = random_samples(netlist_id, 5, seed=netlist_id, family=family)
    units = tuple(replace(u, op="matmul" if u.op == "op" else u.op) for u in samples.netlist.units)
    return replace(samples, netlist=replace(samples.netlist, units=units))


def metadata() -> Metadata:
    return Metadata(config={"fabric": asdict(small_fabric())}, seed=7, code_version="1")


def overrides(folder: Path, *more: str) -> list[str]:
    """Of the train command; `folder` holds the dataset, and gets all else."""
    places = (f"data={folder / 'data'}", f"cache={folder / 'cache'}", f"output={folder / 'out'}")
    return [*QUICK, *SMALL_FLOW, *places, *more]


def settings(folder: Path, *more: str) -> RunConfig:
    return to_dataclass(RunConfig, compose_config("train", overrides(folder, *more)))


def interrupt(*_: object, **__: object) -> NoReturn:
    """Stands in for a function in which Ctrl-C comes."""
    raise KeyboardInterrupt
