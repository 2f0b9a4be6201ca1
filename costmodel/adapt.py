"""Command: a model of one fabric learns another one from a share of its labels.

New hardware of the same kind has other rates, which a model does not see: it has learned their
effect. How much of that is still true (the old model as it is), and how many new labels bring it
back (tuned on a share of the netlists), is told against a model that is trained on all of them.
Test netlists are those of a fold of the split by graph; nothing is trained on them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from omegaconf import DictConfig
from rich.console import Console

from costmodel.baselines.heuristic import CalibratedHeuristic
from costmodel.dataset.report_figures import png
from costmodel.dataset.splits import SplitKind
from costmodel.evaluation.methods import Predictor
from costmodel.evaluation.scores import Spread
from costmodel.labelled import Labelled, Selection, open_labelled
from costmodel.metrics import evaluate
from costmodel.model import Model
from costmodel.networks import NetworkConfig
from costmodel.networks.flow import FlowConfig
from costmodel.training import LossConfig, TrainConfig, TrainerConfig, fit
from placer.command import command_line, make_console
from placer.config import run_command, to_dataclass
from placer.errors import InputError
from placer.files import make_folder, read_text, require_folder, write_atomic
from placer.html.report_page import report_page
from placer.study.tables import csv_table, markdown_table, screen_table

HEADER = [
    "model", "labels", "Spearman per graph", "of the retrained", "RE", "pooled Spearman",
    "top-1 regret", "seconds of training",
]  # fmt: skip
RETRAINED = "scratch_100"
OLD = "old"
CALIBRATED = "calibrated"


@dataclass(frozen=True, slots=True)
class AdaptConfig:
    """What `conf/adapt.yaml` holds."""

    model_file: Path
    data: Path
    cache: Path
    fold: int
    tuned: tuple[float, ...]
    scratch: tuple[float, ...]
    rules: bool | None
    seeds: tuple[int, ...]
    loss: LossConfig
    trainer: TrainerConfig
    scratch_trainer: TrainerConfig
    output: Path

    def __post_init__(self) -> None:
        for name in ("tuned", "scratch"):
            wrong = [share for share in getattr(self, name) if not 0 < share <= 1]
            if wrong:
                raise InputError(f"{name} has {wrong}; allowed: shares above 0, up to 1")
        if not self.seeds or min(self.seeds) < 0:
            raise InputError(f"seeds={list(self.seeds)}; allowed: one or more, from 0 on")


@dataclass(frozen=True, slots=True)
class Adapted:
    """One model on the test netlists."""

    name: str
    seed: int
    labels: int  # of the new fabric that it has learned from
    spearman: float  # mean over graphs
    relative_error: float
    pooled: float
    top1_regret: float
    seconds: float  # of training


def name_of(kind: str, share: float) -> str:
    """For example tuned_10 for a tenth."""
    return f"{kind}_{share * 100:g}"


def some_netlists(train: Selection, share: float, seed: int) -> Selection:
    """All decisions of a random share of the netlists; two at least, since one validates."""
    netlists = np.unique(train.netlist)
    number = min(max(round(share * len(netlists)), 2), len(netlists))
    chosen = np.random.default_rng(seed).permutation(netlists)[:number]
    return Selection(train.data, train.ids[np.isin(train.netlist, chosen)])


def adapt(config: AdaptConfig, console: Console) -> Iterator[Adapted]:
    """All models, one after the other; those of the first seed are saved in `output`."""
    data, old = open_labelled(config.data, config.cache), Model.load(config.model_file)
    old.require_features(data.features)
    if data.fabric.name == old.origin["fabric"].get("name"):
        raise InputError(
            f"{config.model_file} was trained on fabric {data.fabric.name!r}, that of the dataset "
            f"{config.data}; give a dataset of another one"
        )
    network = network_of(config, old)
    parts = data.splits.fold(SplitKind.GRAPH, config.fold)
    train, test = Selection(data, parts.train), Selection(data, parts.test)
    calibrated = CalibratedHeuristic.fit(train)
    yield _judge(CALIBRATED, 0, len(train), calibrated, test, 0.0)
    yield _judge(OLD, 0, 0, _save(config, OLD, _moved(old, data)), test, 0.0)
    for seed in config.seeds:
        for kind, shares in (("tuned", config.tuned), ("scratch", config.scratch)):
            for share in shares:
                name, some = name_of(kind, share), some_netlists(train, share, seed)
                console.print(f"{name}, seed {seed}: {len(some)} labels")
                start = old if kind == "tuned" else None
                model, seconds = _train(config, network, some, seed, name, start)
                if seed == config.seeds[0]:
                    _save(config, name, model)
                yield _judge(name, seed, len(some), model, test, seconds)


def _train(
    config: AdaptConfig,
    network: NetworkConfig,
    some: Selection,
    seed: int,
    name: str,
    old: Model | None,
) -> tuple[Model, float]:
    """The model and the seconds of its training, over all runs that were cut off."""
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


def network_of(config: AdaptConfig, old: Model) -> NetworkConfig:
    """That of the old model, with or without the expert's rules as asked for."""
    if config.rules is None:
        return old.config
    if not isinstance(old.config, FlowConfig):
        raise InputError(f"rules={config.rules}: {config.model_file} is no `flow` network")
    return replace(old.config, rules=config.rules)


def _moved(old: Model, data: Labelled) -> Model:
    """The old model as it is, said to be one of the new fabric."""
    return replace(old, origin={**old.origin, "fabric": asdict(data.fabric)})


def _save(config: AdaptConfig, name: str, model: Model) -> Model:
    model.save(config.output / f"{name}.pt")
    return model


def _judge(
    name: str, seed: int, labels: int, model: Predictor, test: Selection, seconds: float
) -> Adapted:
    predicted = model.predict(test).throughput
    scores = evaluate(predicted, test.throughput, test.netlist).overall
    return Adapted(
        name, seed, labels, scores.spearman, scores.relative_error, scores.spearman_pooled,
        scores.top1_regret, seconds,
    )  # fmt: skip


def rows_of(results: Sequence[Adapted]) -> list[list[str]]:
    """A row per model, means over seeds."""
    names = list(dict.fromkeys(result.name for result in results))
    whole = [result.spearman for result in results if result.name == RETRAINED]
    rows = []
    for name in names:
        own = [result for result in results if result.name == name]
        columns = ("relative_error", "pooled", "top1_regret")
        spearman = Spread.of([result.spearman for result in own])
        share = f"{spearman.mean / np.mean(whole):.0%}" if whole else ""
        seconds = np.mean([result.seconds for result in own])
        cells = [str(Spread.of([getattr(result, column) for result in own])) for column in columns]
        labels = f"{np.mean([result.labels for result in own]):.0f}"
        rows.append([name, labels, str(spearman), share, *cells, f"{seconds:.0f}"])
    return rows


def draw(results: Sequence[Adapted]) -> Figure:
    """Spearman per graph against labels."""
    figure = Figure(figsize=(5, 3.4), layout="constrained")
    axes = figure.subplots()
    for kind, color in (("tuned", "#0077BB"), ("scratch", "#CC3311")):
        own = [result for result in results if result.name.startswith(f"{kind}_")]
        axes.scatter([r.labels for r in own], [r.spearman for r in own], color=color, label=kind)
    for name, style in ((OLD, ":"), (CALIBRATED, "--")):
        level = next(result.spearman for result in results if result.name == name)
        axes.axhline(level, color="#000000", ls=style, lw=0.8, label=name)
    axes.set(xscale="log", xlabel="labels of the new fabric", ylabel="Spearman per graph")
    axes.legend(fontsize=8)
    return figure


def main(config: DictConfig) -> None:
    """Entry point."""
    settings = to_dataclass(AdaptConfig, config)
    require_folder(settings.output)
    make_folder(settings.output)
    console, results = make_console(), list[Adapted]()
    for result in adapt(settings, console):
        results.append(result)
        rows = rows_of(results)
        write_atomic(settings.output / "adapt.md", markdown_table(HEADER, rows))
        write_atomic(settings.output / "adapt.csv", csv_table(HEADER, rows))
    write_atomic(settings.output / "adapt.png", png(draw(results)))
    text = f"{markdown_table(HEADER, rows)}\n![Rank against labels](adapt.png)\n"
    write_atomic(settings.output / "adapt.md", text)
    page = report_page(
        settings.output / "adapt.md", "A model learns another fabric",
        command_line("costmodel.adapt"), asdict(settings),
    )  # fmt: skip
    write_atomic(settings.output / "adapt.html", page.to_html())
    console.print(screen_table(HEADER, rows))
    console.print(f"written to {settings.output}")


if __name__ == "__main__":
    run_command(main, "adapt")
