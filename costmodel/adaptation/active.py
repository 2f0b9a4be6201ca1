"""Active learning: search with the model, simulate what it likes, learn from it, repeat.

A search finds the errors of its model, and those are the labels that teach it most. Each round
searches every netlist with the model, simulates the placements that it likes best, adds them to the
dataset and tunes the model on all of it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np
from matplotlib.figure import Figure

from costmodel.adaptation.liked import SearchConfig, SearchJob, search_netlist
from costmodel.dataset import Dataset, Found, NetlistSamples, Origin, extend_dataset, label
from costmodel.evaluation.comparison import Case, Models, Unseen
from costmodel.inference import LearnedCost, add_student
from costmodel.model import Model, Selection, open_labelled, open_model
from costmodel.training import LossConfig, StudentConfig, TrainConfig, TrainerConfig, fit
from placer.base import Count, FloatArray, InputError, LongArray, Picture, Table, Within, write_report
from placer.base.tracking import Tracker, TrackingConfig
from placer.base.workers import Workers
from placer.simulation import Outcome

HEADER = ["round", "labels learned", "RE of favourites", "favourite", "best found", "regret"]

# Shows a bar of that name; what it gives is told of (finished searches, all searches).
ShowBar = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]


@dataclass(frozen=True, slots=True)
class ImproveConfig(Workers):
    """What `conf/improve.yaml` holds."""

    model_file: Path
    data: Path
    cache: Path
    unseen: Unseen
    models: Models
    rounds: Count
    new_share: Annotated[float, Within(above=0, most=0.99)]
    search: SearchConfig
    loss: LossConfig
    trainer: TrainerConfig
    student: StudentConfig
    seed: int
    output: Path
    tracking: TrackingConfig


@dataclass(slots=True)
class Target:
    """A netlist, and what is known of it."""

    case: Case
    found: list[Found] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    best: float = 0.0  # simulated throughput

    def samples(self, seed: tuple[int, ...]) -> NetlistSamples:
        """Return all that was found as rows of a dataset."""
        case = self.case
        spec = {"family": case.group, "improve": case.name}
        return label(case.fabric, case.netlist, Origin(seed, spec), self.found, self.outcomes, [])


@dataclass(frozen=True, slots=True)
class Round:
    """A point of the curve; arrays are [num_netlists]."""

    number: int
    learned: int  # labels of these netlists that the model had learned from
    predicted: FloatArray  # of the placements that the model likes best
    favourite: FloatArray  # their simulated throughput
    best: FloatArray  # the fastest that was ever simulated

    def figures(self, best: FloatArray) -> dict[str, float]:
        """Return means over the netlists; regret is told against these best throughputs."""
        return {
            "relative_error": float(np.mean(np.abs(self.predicted / self.favourite - 1))),
            "favourite": float(np.mean(self.favourite)),
            "best_found": float(np.mean(self.best)),
            "regret": float(np.mean(1 - self.favourite / best)),
        }


def improve(config: ImproveConfig, tracker: Tracker, show_bar: ShowBar) -> list[Round]:
    """Return all rounds; the model of each is in its folder, the last also in `output`.

    Raises InputError when the model is of another hardware, or there is nothing to search.
    """
    base = open_labelled(config.data, config.cache)
    model = open_model(config.model_file)
    LearnedCost(base.fabric, model)  # raises InputError when it is of another hardware
    targets = [Target(case) for part in (config.unseen, config.models) for case in part.cases(base.fabric)]
    if not targets:
        raise InputError("nothing to search: unseen.netlists=0 and models.names=[]")
    rounds: list[Round] = []
    for number in range(config.rounds + 1):  # the last only tells what was learned
        with show_bar(f"round {number}: searching") as on_progress:
            rounds.append(explore(targets, model, config, number, on_progress))
        tracker.log_metrics(rounds[-1].figures(rounds[-1].best), number)
        if number < config.rounds:
            model = _tune(config, model, targets, number)
    model.save(config.output / "model.pt")  # only a run that came to its end leaves one
    return rounds


def explore(
    targets: list[Target], model: Model, config: ImproveConfig, number: int, on_progress: Callable[[int, int], None]
) -> Round:
    """Search all netlists, and keep what is found; the same for any number of workers."""
    learned = sum(len(target.found) for target in targets)
    sent, seed = pickle.dumps(model), config.seed + number
    jobs = [SearchJob(target.case, sent, config.search, seed) for target in targets]
    searched = {}
    for k, found in config.run(search_netlist, jobs):
        searched[k] = found
        on_progress(len(searched), len(jobs))
    for k, target in enumerate(targets):
        target.found += searched[k].found
        target.outcomes.append(searched[k].outcome)
        target.best = max(target.best, float(searched[k].throughput.max()))
    in_order = [searched[k] for k in range(len(targets))]
    return Round(
        number,
        learned,
        predicted=np.array([found.predicted for found in in_order]),
        favourite=np.array([max(float(found.throughput[0]), 1e-9) for found in in_order]),
        best=np.array([target.best for target in targets]),
    )


def _tune(config: ImproveConfig, model: Model, targets: list[Target], number: int) -> Model:
    folder = config.output / f"round_{number}"
    samples = [target.samples((config.seed, k)) for k, target in enumerate(targets)]
    base = open_labelled(config.data, config.cache)
    extend_dataset(Dataset.open(config.data), samples, folder / "data")
    data = open_labelled(folder / "data", config.cache)
    ids = repeat_new(data.netlist, int(base.netlist.max()) + 1, config.new_share)
    learning = TrainConfig(model.config, config.loss, config.trainer)
    tuned = fit(
        Selection(data, ids), learning, config.seed, folder / "checkpoints",
        start=model, show_progress=True,
    )  # fmt: skip
    tuned = add_student(tuned, Selection(data, ids), config.student, config.seed)
    tuned.save(folder / "model.pt")
    return tuned


def repeat_new(netlist: LongArray, num_old: int, share: float) -> LongArray:
    """Return decisions of an epoch: all, and those of new netlists as often as makes the share.

    `netlist` [num_decisions]: the first `num_old` are those that the model was trained with.
    """
    everyone, new = np.arange(len(netlist)), np.flatnonzero(netlist >= num_old)
    num_seen = len(netlist) - len(new)
    times = max(1, round(share / (1 - share) * num_seen / len(new)))
    return np.sort(np.concatenate([everyone, *[new] * (times - 1)]))


def write_rounds(rounds: Sequence[Round], folder: Path, command: str) -> Table:
    """Write `rounds.md`, `rounds.csv` and `regret.png`; return the table."""
    table = Table(HEADER, rows_of(rounds), name="rounds")
    picture = Picture("regret", "Regret against labels", draw_regret(rounds))
    write_report(folder, "rounds.md", "Active learning", command, [table, picture])
    return table


def rows_of(rounds: Sequence[Round]) -> list[list[str]]:
    """Return a row per round; regret is told against the best of all rounds."""
    rows = []
    for result in rounds:
        values = result.figures(rounds[-1].best)
        cells = [f"{values[name]:.3f}" for name in ("relative_error", "favourite", "best_found")]
        rows.append([str(result.number), str(result.learned), *cells, f"{values['regret']:.1%}"])
    return rows


def draw_regret(rounds: Sequence[Round]) -> Figure:
    """Draw the regret of the model's favourites against labels."""
    figure = Figure(figsize=(5, 3.4), layout="constrained")
    axes = figure.subplots()
    regret = [100 * result.figures(rounds[-1].best)["regret"] for result in rounds]
    axes.plot([result.learned for result in rounds], regret, marker="o")
    axes.set(xlabel="labels of these netlists the model has learned from", ylabel="regret, %")
    axes.set_ylim(bottom=0)
    return figure
