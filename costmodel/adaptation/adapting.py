"""A model of one fabric learns another one from a share of its labels.

New hardware of the same kind has other rates, which a model does not see: it has learned their
effect. How much of that is still true (the old model as it is), and how many new labels bring it
back (tuned on a share of the netlists), is told against a model that is trained on all of them.
Test netlists are those of a fold of the split by graph; nothing is trained on them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from costmodel.base import score_predictions
from costmodel.baselines import CalibratedHeuristic
from costmodel.dataset import SplitKind
from costmodel.evaluation import Predictor, Spread
from costmodel.inference import add_student
from costmodel.model import Model, Selection, open_labelled, open_model
from costmodel.networks import FlowConfig, NetworkConfig
from costmodel.training import LossConfig, StudentConfig, TrainConfig, TrainerConfig, fit
from placer.base import (
    Fill,
    InputError,
    Picture,
    Settings,
    Some,
    Table,
    Whole,
    make_folder,
    percent,
    read_text,
    write_atomic,
    write_report,
)

HEADER = [
    "model", "labels", "Spearman per graph", "of the retrained", "RE", "pooled Spearman",
    "top-1 regret", "seconds of training",
]  # fmt: skip
RETRAINED = "scratch_100"
OLD = "old"
CALIBRATED = "calibrated"


@dataclass(frozen=True, slots=True)
class AdaptConfig(Settings):
    """What `conf/adapt.yaml` holds."""

    model_file: Path
    data: Path
    cache: Path
    fold: int
    tuned: tuple[Fill, ...]
    scratch: tuple[Fill, ...]
    rules: bool | None
    seeds: Some[Whole]
    loss: LossConfig
    trainer: TrainerConfig
    scratch_trainer: TrainerConfig
    student: StudentConfig  # of the models that are saved
    output: Path

    def network(self, old: Model) -> NetworkConfig:
        """Return that of the old model, with or without the expert's rules as asked for."""
        if self.rules is None:
            return old.config
        if not isinstance(old.config, FlowConfig):
            raise InputError(f"rules={self.rules}: {self.model_file} is no `flow` network")
        return replace(old.config, rules=self.rules)


@dataclass(frozen=True, slots=True)
class Adapted:
    """One model on the test netlists."""

    name: str  # for example tuned_10 for a tenth
    seed: int
    labels: int  # of the new fabric that it has learned from
    spearman: float  # mean over graphs
    relative_error: float
    pooled: float
    top1_regret: float
    seconds: float  # of training


def some_netlists(train: Selection, share: float, seed: int) -> Selection:
    """Return all decisions of a random share of the netlists; two at least, since one validates."""
    netlists = np.unique(train.netlist)
    number = min(max(round(share * len(netlists)), 2), len(netlists))
    chosen = np.random.default_rng(seed).permutation(netlists)[:number]
    return Selection(train.data, train.ids[np.isin(train.netlist, chosen)])


def adapt(config: AdaptConfig, on_training: Callable[[str], None]) -> Iterator[Adapted]:
    """Yield all models, one after the other; those of the first seed are saved in `output`.

    `on_training` is told what is trained next. Raises InputError when the model and the dataset are
    of the same fabric, or do not fit together.
    """
    data, old = open_labelled(config.data, config.cache), open_model(config.model_file)
    old.require_features(data.features)
    if data.fabric.name == old.origin["fabric"].get("name"):
        raise InputError(
            f"{config.model_file} was trained on fabric {data.fabric.name!r}, that of the dataset "
            f"{config.data}; give a dataset of another one"
        )
    network = config.network(old)
    parts = data.splits.fold(SplitKind.GRAPH, config.fold)
    train, test = Selection(data, parts.train), Selection(data, parts.test)
    yield _judge(CALIBRATED, 0, len(train), CalibratedHeuristic.fit(train), test)
    moved = replace(old, origin={**old.origin, "fabric": asdict(data.fabric)})
    moved.save(config.output / f"{OLD}.pt")  # as it is, said to be one of the new fabric
    yield _judge(OLD, 0, 0, moved, test)
    for seed in config.seeds:
        for kind, shares in (("tuned", config.tuned), ("scratch", config.scratch)):
            for share in shares:
                name, some = f"{kind}_{share * 100:g}", some_netlists(train, share, seed)
                on_training(f"{name}, seed {seed}: {len(some)} labels")
                start = old if kind == "tuned" else None
                model, seconds = _train(config, network, some, seed, name, start)
                if seed == config.seeds[0]:
                    add_student(model, some, config.student, seed).save(config.output / f"{name}.pt")
                yield _judge(name, seed, len(some), model, test, seconds)


def _train(
    config: AdaptConfig, network: NetworkConfig, some: Selection, seed: int, name: str, old: Model | None
) -> tuple[Model, float]:
    """Return the model and the seconds of its training, over all runs that were cut off."""
    trainer = config.scratch_trainer if old is None else config.trainer
    folder = config.output / "checkpoints" / f"{name}_seed{seed}"
    learning = TrainConfig(network, config.loss, trainer)
    make_folder(folder)
    spent, begin = folder / "seconds", time.monotonic()
    before = float(read_text(spent)) if spent.exists() else 0.0
    try:
        model = fit(some, learning, seed, folder, start=old, show_progress=True)
    finally:
        seconds = before + time.monotonic() - begin
        write_atomic(spent, f"{seconds:.3f}")
    return model, seconds


def _judge(name: str, seed: int, labels: int, model: Predictor, test: Selection, seconds: float = 0.0) -> Adapted:
    predicted = model.predict(test).throughput
    scores = score_predictions(predicted, test.throughput, test.netlist).overall
    return Adapted(
        name, seed, labels, scores.spearman, scores.relative_error, scores.spearman_pooled,
        scores.top1_regret, seconds,
    )  # fmt: skip


def rows_of(results: Sequence[Adapted]) -> list[list[str]]:
    """Return a row per model, means over seeds."""
    whole = [result.spearman for result in results if result.name == RETRAINED]
    rows = []
    for name in dict.fromkeys(result.name for result in results):
        own = [result for result in results if result.name == name]
        spreads = {
            column: Spread.of([getattr(result, column) for result in own])
            for column in ("labels", "spearman", "relative_error", "pooled", "top1_regret", "seconds")
        }
        labels, spearman, *errors, seconds = spreads.values()
        share = percent(spearman.mean / float(np.mean(whole))) if whole else ""
        numbers = [str(spearman), share, *map(str, errors), f"{seconds.mean:.0f}"]
        rows.append([name, f"{labels.mean:.0f}", *numbers])
    return rows


def write_adapted(results: Sequence[Adapted], folder: Path, command: str) -> Table:
    """Write `adapt.md`, `adapt.csv` and `adapt.png`; return the table."""
    table = Table(HEADER, rows_of(results), name="adapt")
    picture = Picture("adapt", "Rank against labels", draw(results))
    title = "A model learns another fabric"
    write_report(folder, "adapt.md", title, command, [table, picture])
    return table


def draw(results: Sequence[Adapted]) -> Figure:
    """Draw Spearman per graph against labels."""
    figure = Figure(figsize=(5, 3.4), layout="constrained")
    axes = figure.subplots()
    trained = [result for result in results if result.name not in (OLD, CALIBRATED)]
    for kind, color in (("tuned", "#0077BB"), ("scratch", "#CC3311")):
        own = [result for result in trained if result.name.startswith(f"{kind}_")]
        axes.scatter([r.labels for r in own], [r.spearman for r in own], color=color, label=kind)
    for name, style in ((OLD, ":"), (CALIBRATED, "--")):
        for result in results:
            if result.name == name:
                axes.axhline(result.spearman, color="#000000", ls=style, lw=0.8, label=name)
    axes.set(xlabel="labels of the new fabric", ylabel="Spearman per graph")
    axes.set_xscale("log" if trained else "linear")
    axes.legend(fontsize=8)
    return figure
