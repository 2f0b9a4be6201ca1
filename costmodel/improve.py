"""Command: active learning. Search with the model, simulate what it likes, learn from it, repeat.

A search finds the errors of its model, and those are the labels that teach it most. Each round
searches every netlist with the model, simulates the placements that it likes best, adds them to the
dataset and tunes the model on all of it.
"""

from __future__ import annotations

import json
import os
import pickle
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from omegaconf import DictConfig
from rich.console import Console
from rich.progress import track

from costmodel.comparison.cases import Case, Models, Unseen
from costmodel.dataset.extend import extend_dataset
from costmodel.dataset.generate import label
from costmodel.dataset.loader import Dataset
from costmodel.dataset.records import NetlistSamples
from costmodel.dataset.report_figures import png
from costmodel.dataset.search import Found
from costmodel.labelled import LongArray, Selection, open_labelled
from costmodel.learned import LearnedCost
from costmodel.liked import SearchConfig, Searched, SearchJob, search_netlist
from costmodel.model import Model
from costmodel.tracking import Tracker, TrackingConfig, open_tracker
from costmodel.training import LossConfig, TrainConfig, TrainerConfig, fit
from placer.command import command_line, make_console
from placer.config import run_command, to_dataclass
from placer.errors import InputError
from placer.executor import ExecutorKind, run_tasks
from placer.files import make_folder, require_folder, write_atomic
from placer.html.report_page import report_page
from placer.simulation.engine import Outcome
from placer.study.tables import csv_table, markdown_table, screen_table

HEADER = ["round", "labels learned", "RE of favourites", "favourite", "best found", "regret"]


@dataclass(frozen=True, slots=True)
class ImproveConfig:
    """What `conf/improve.yaml` holds."""

    model_file: Path
    data: Path
    cache: Path
    unseen: Unseen
    models: Models
    rounds: int
    new_share: float
    search: SearchConfig
    loss: LossConfig
    trainer: TrainerConfig
    seed: int
    workers: int | None
    executor: ExecutorKind
    ray_address: str | None
    output: Path
    tracking: TrackingConfig

    def __post_init__(self) -> None:
        if self.rounds < 1 or self.search.labels < 1:
            raise InputError(
                f"rounds={self.rounds}, search.labels={self.search.labels}; allowed 1 or more"
            )
        if not 0 < self.new_share < 1:
            raise InputError(f"new_share={self.new_share}; allowed: above 0, below 1")


@dataclass(slots=True)
class Target:
    """A netlist, and what is known of it."""

    case: Case
    found: list[Found] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    best: float = 0.0  # simulated throughput

    def samples(self, seed: tuple[int, ...]) -> NetlistSamples:
        case = self.case
        spec = {"family": case.group, "improve": case.name}
        return label(case.fabric, case.netlist, spec, self.found, self.outcomes, [], seed)


@dataclass(frozen=True, slots=True)
class Explored:
    """What a round found for one netlist."""

    predicted: float  # of the placement that the model likes best
    favourite: float  # its simulated throughput
    best: float  # the fastest that was ever simulated


@dataclass(frozen=True, slots=True)
class RoundResult:
    """A point of the curve."""

    number: int
    labels: int  # so far, of these netlists
    explored: tuple[Explored, ...]

    def figures(self, best: list[float]) -> dict[str, float]:
        """Against the best throughput ever seen of each netlist."""
        favourite = np.array([item.favourite for item in self.explored])
        predicted = np.array([item.predicted for item in self.explored])
        return {
            "relative_error": float(np.mean(np.abs(predicted / favourite - 1))),
            "favourite": float(np.mean(favourite)),
            "best_found": float(np.mean([item.best for item in self.explored])),
            "regret": float(np.mean(1 - favourite / np.array(best))),
        }


def learn_of(target: Target, searched: Searched) -> Explored:
    """Keep what a search found."""
    target.found += searched.found
    target.outcomes.append(searched.outcome)
    target.best = max(target.best, float(searched.throughput.max()))
    favourite = max(float(searched.throughput[0]), 1e-9)
    return Explored(searched.predicted, favourite, target.best)


def explore(
    targets: list[Target], model: Model, config: ImproveConfig, number: int, console: Console
) -> tuple[Explored, ...]:
    """Search all netlists, and keep what is found; the same for any number of workers."""
    sent, seed = pickle.dumps(model), config.seed + number
    jobs = [SearchJob(target.case, sent, config.search, seed) for target in targets]
    workers = len(os.sched_getaffinity(0)) if config.workers is None else config.workers
    results = run_tasks(
        search_netlist, jobs,
        kind=config.executor, workers=workers, ray_address=config.ray_address,
    )  # fmt: skip
    title = f"round {number}: searching"
    shown = track(results, title, total=len(jobs), console=console, transient=True)
    searched = dict(shown)
    return tuple(learn_of(target, searched[k]) for k, target in enumerate(targets))


def improve(config: ImproveConfig, console: Console, tracker: Tracker) -> list[RoundResult]:
    """All rounds; the model of each is in its folder, the last also in `output`."""
    base = open_labelled(config.data, config.cache)
    model = Model.load(config.model_file)
    LearnedCost(base.fabric, model)  # raises InputError when it is of another hardware
    targets = [
        Target(case) for part in (config.unseen, config.models) for case in part.cases(base.fabric)
    ]
    if not targets:
        raise InputError("nothing to search: unseen.netlists=0 and models.names=[]")
    results: list[RoundResult] = []
    for number in range(config.rounds + 1):  # the last only tells what was learned
        explored = explore(targets, model, config, number, console)
        labels = sum(len(target.found) for target in targets)
        results.append(RoundResult(number, labels, explored))
        tracker.log_metrics(results[-1].figures([t.best for t in targets]), number)
        if number < config.rounds:
            model = _tune(config, model, targets, number)
    model.save(config.output / "model.pt")  # only a run that came to its end leaves one
    return results


def _tune(config: ImproveConfig, model: Model, targets: list[Target], number: int) -> Model:
    folder = config.output / f"round_{number}"
    samples = [target.samples((config.seed, k)) for k, target in enumerate(targets)]
    base = open_labelled(config.data, config.cache)
    extend_dataset(Dataset.open(config.data, [base.fabric]), samples, base.fabric, folder / "data")
    data = open_labelled(folder / "data", config.cache)
    ids = repeat_new(data.netlist, int(base.netlist.max()) + 1, config.new_share)
    learning = TrainConfig(model.config, config.loss, config.trainer)
    tuned = fit(
        Selection(data, ids), learning, config.seed, folder / "checkpoints",
        start=model, show_progress=True,
    )  # fmt: skip
    tuned.save(folder / "model.pt")
    return tuned


def repeat_new(netlist: LongArray, num_old: int, share: float) -> LongArray:
    """Decisions of an epoch, rising: all, and those of new netlists as often as makes the share.

    `netlist` [num_decisions]: the first `num_old` are those that the model was trained with.
    """
    everyone, new = np.arange(len(netlist)), np.flatnonzero(netlist >= num_old)
    num_seen = len(netlist) - len(new)
    times = max(1, round(share / (1 - share) * num_seen / len(new)))
    return np.sort(np.concatenate([everyone, *[new] * (times - 1)]))


def rows_of(results: list[RoundResult]) -> list[list[str]]:
    """A row per round; regret is told against the best of all rounds."""
    best = [item.best for item in results[-1].explored]
    learned = [0, *(result.labels for result in results[:-1])]
    rows = []
    for result, labels in zip(results, learned, strict=True):
        values = result.figures(best)
        rows.append(
            [
                str(result.number), str(labels), f"{values['relative_error']:.3f}",
                f"{values['favourite']:.3f}", f"{values['best_found']:.3f}",
                f"{values['regret']:.1%}",
            ]
        )  # fmt: skip
    return rows


def draw_regret(results: list[RoundResult]) -> Figure:
    """Regret of the model's favourites against labels."""
    best = [item.best for item in results[-1].explored]
    figure = Figure(figsize=(5, 3.4), layout="constrained")
    axes = figure.subplots()
    labels = [0, *(result.labels for result in results[:-1])]
    axes.plot(labels, [100 * r.figures(best)["regret"] for r in results], marker="o")
    axes.set(xlabel="labels of these netlists the model has learned from", ylabel="regret, %")
    axes.set_ylim(bottom=0)
    return figure


def _write(config: ImproveConfig, results: list[RoundResult]) -> None:
    rows = rows_of(results)
    text = f"{markdown_table(HEADER, rows)}\n![Regret against labels](regret.png)\n"
    write_atomic(config.output / "rounds.md", text)
    write_atomic(config.output / "rounds.csv", csv_table(HEADER, rows))
    write_atomic(config.output / "regret.png", png(draw_regret(results)))
    page = report_page(
        config.output / "rounds.md", "Active learning", command_line("costmodel.improve"),
        asdict(config),
    )  # fmt: skip
    write_atomic(config.output / "rounds.html", page.to_html())


def _parameters(config: ImproveConfig) -> dict[str, Any]:
    described: dict[str, Any] = json.loads(json.dumps(asdict(config), default=str))
    return described


def main(config: DictConfig) -> None:
    """Entry point."""
    settings = to_dataclass(ImproveConfig, config)
    require_folder(settings.output)
    make_folder(settings.output)
    console = make_console()
    note = settings.output / "mlflow.json"
    with open_tracker(settings.tracking, settings.output.name, _parameters(settings), note) as run:
        results = improve(settings, console, run)
        _write(settings, results)
        run.log_files(sorted(settings.output.glob("*.*")))
    console.print(screen_table(HEADER, rows_of(results)))
    console.print(f"written to {settings.output}; the model: {settings.output / 'model.pt'}")


if __name__ == "__main__":
    run_command(main, "improve")
