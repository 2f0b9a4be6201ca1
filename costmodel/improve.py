"""Command: active learning. Search with the model, simulate what it likes, learn from it, repeat.

A search finds the errors of its model, and those are the labels that teach it most. Each round
searches every netlist with the model, simulates the placements that it likes best, adds them to the
dataset and tunes the model on all of it.
"""

from __future__ import annotations

import json
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
from costmodel.dataset.records import NetlistSamples, Phase
from costmodel.dataset.report_figures import png
from costmodel.dataset.search import Found
from costmodel.labelled import Selection, open_labelled
from costmodel.learned import LearnedCost
from costmodel.model import Model
from costmodel.tracking import Tracker, TrackingConfig, open_tracker
from costmodel.training import LossConfig, TrainConfig, TrainerConfig, fit
from placer.annealing import AnnealOptions, Schedule
from placer.annealing.constraints import allowed_sites
from placer.annealing.finalists import Elite
from placer.annealing.multistart import SearchTask, search_once
from placer.annealing.problem import Problem, StartKind
from placer.command import make_console
from placer.config import run_command, to_dataclass
from placer.decision import Decisions
from placer.errors import InputError
from placer.files import make_folder, require_folder, write_atomic
from placer.simulation import label_limits, simulate_stack
from placer.simulation.engine import Outcome
from placer.study.tables import csv_table, markdown_table, screen_table

HEADER = ["round", "labels", "RE of favourites", "favourite", "best found", "regret"]


@dataclass(frozen=True, slots=True)
class SearchConfig:
    """How each netlist is searched in a round."""

    pool: int  # searches with the heuristic, of which the model chooses the start
    max_moves: int
    start_temperature: float
    end_temperature: float
    labels: int  # placements that are simulated

    def options(self) -> AnnealOptions:
        return AnnealOptions(
            max_moves=self.max_moves,
            start_temperature=self.start_temperature,
            schedule=Schedule(end=self.end_temperature),
        )


@dataclass(frozen=True, slots=True)
class ImproveConfig:
    """What `conf/improve.yaml` holds."""

    model_file: Path
    data: Path
    cache: Path
    unseen: Unseen
    models: Models
    rounds: int
    search: SearchConfig
    loss: LossConfig
    trainer: TrainerConfig
    seed: int
    output: Path
    tracking: TrackingConfig

    def __post_init__(self) -> None:
        if self.rounds < 1 or self.search.labels < 1:
            raise InputError(
                f"rounds={self.rounds}, search.labels={self.search.labels}; allowed 1 or more"
            )


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


def explore(target: Target, cost: LearnedCost, config: SearchConfig, seed: int) -> Explored:
    """Search one netlist, simulate what the model likes, and keep it."""
    case, elite = target.case, Elite()
    problem = Problem(
        case.fabric,
        case.netlist,
        cost,
        allowed_sites(case.fabric, case.netlist, None),
        config.options(),
        StartKind.HEURISTIC,
        pool=config.pool,
    )
    search_once(SearchTask(problem, 0, (seed,)), elite=elite)
    scores = cost.score(case.netlist, Decisions.concatenate(elite.decisions))
    order = np.argsort(-scores, kind="stable")[: config.labels]
    chosen = [elite.decisions[k] for k in order]
    stack = Decisions.concatenate(chosen)
    limits = label_limits(case.netlist.bound_cycles)
    outcome = simulate_stack(case.fabric, case.netlist, stack, limits)
    period = np.nan_to_num(outcome.cycles_per_sample, nan=np.inf)
    throughput = case.netlist.bound_cycles / period
    about = {"cost": "learned", "search": asdict(config), "seed": seed}
    target.found += [Found(decision, Phase.OPTIMAL, about) for decision in chosen]
    target.outcomes.append(outcome)
    target.best = max(target.best, float(throughput.max()))
    return Explored(float(scores[order[0]]), max(float(throughput[0]), 1e-9), target.best)


def improve(config: ImproveConfig, console: Console, tracker: Tracker) -> list[RoundResult]:
    """All rounds; the model of each is in `output`."""
    base = open_labelled(config.data, config.cache)
    fabric, model = base.fabric, Model.load(config.model_file)
    targets = [
        Target(case) for part in (config.unseen, config.models) for case in part.cases(fabric)
    ]
    if not targets:
        raise InputError("nothing to search: unseen.netlists=0 and models.names=[]")
    results: list[RoundResult] = []
    for number in range(config.rounds + 1):  # the last only tells what was learned
        cost = LearnedCost(fabric, model)
        explored = tuple(
            explore(target, cost, config.search, config.seed + number)
            for target in track(
                targets, f"round {number}: searching", console=console, transient=True
            )
        )
        labels = sum(len(target.found) for target in targets)
        results.append(RoundResult(number, labels, explored))
        tracker.log_metrics(results[-1].figures([t.best for t in targets]), number)
        if number < config.rounds:
            model = _tune(config, model, targets, number)
    return results


def _tune(config: ImproveConfig, model: Model, targets: list[Target], number: int) -> Model:
    folder = config.output / f"round_{number}"
    samples = [target.samples((config.seed, k)) for k, target in enumerate(targets)]
    base = open_labelled(config.data, config.cache)
    extend_dataset(Dataset.open(config.data, [base.fabric]), samples, base.fabric, folder / "data")
    data = open_labelled(folder / "data", config.cache)
    learning = TrainConfig(model.config, config.loss, config.trainer)
    tuned = fit(
        Selection(data, np.arange(len(data))), learning, config.seed, folder / "checkpoints",
        start=model, show_progress=True,
    )  # fmt: skip
    tuned.save(folder / "model.pt")
    tuned.save(config.output / "model.pt")
    return tuned


def rows_of(results: list[RoundResult]) -> list[list[str]]:
    """A row per round; regret is told against the best of all rounds."""
    best = [item.best for item in results[-1].explored]
    rows = []
    for result in results:
        values = result.figures(best)
        rows.append(
            [
                str(result.number), str(result.labels), f"{values['relative_error']:.3f}",
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
    write_atomic(config.output / "rounds.md", markdown_table(HEADER, rows))
    write_atomic(config.output / "rounds.csv", csv_table(HEADER, rows))
    write_atomic(config.output / "regret.png", png(draw_regret(results)))


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
