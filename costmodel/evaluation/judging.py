"""A trained model on datasets that it has never seen, beside rules and trees that learned from the same labels.

Two questions are judged. Of decisions: how far off is the predicted throughput, and how well are
decisions of one netlist ranked? Of netlists alone: how far off is the potential, and how well are
plans of one segment ranked by their time per input, samples x bound / potential?
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from costmodel.base import score_graphs, score_predictions
from costmodel.baselines import Boosting, CalibratedHeuristic, RawHeuristic
from costmodel.dataset import Dataset, SplitKind
from costmodel.evaluation.methods import Predictor, checked_prediction
from costmodel.evaluation.scores import COVERAGE, Spread, uncertainty_of
from costmodel.model import Labelled, Model, Prediction, Selection, open_labelled, open_model, open_potentials
from placer.base import FloatArray, InputError, LongArray, Published, Settings, Some, Table

DECISION_HEADER = (
    "test set", "method", "netlists", "RE", "Spearman per graph", "best decile", "top-1 regret",
    "in 50%", "in 80%", "in 95%",
)  # fmt: skip
NETLIST_HEADER = ("test set", "method", "netlists", "RE", "rank between plans", "in 50%", "in 80%", "in 95%")
MODEL = "model"
TOLERANCE = 0.01  # of a published figure
_HELD: dict[str, Literal["higher", "lower"]] = {"relative_error": "lower", "spearman": "higher", "rank": "higher"}

Fit = Callable[[Selection], Predictor]  # what it has learned from decisions
BASELINES: dict[str, Fit] = {
    "rules": lambda train: RawHeuristic(),
    "calibrated rules": CalibratedHeuristic.fit,
    "boosting": lambda train: Boosting.fit(train, 0),
}
BOUNDS = ("full bound", "calibrated bound", "boosting")  # the same, of netlists alone


@dataclass(frozen=True, slots=True)
class JudgeConfig(Settings):
    """What `conf/judge.yaml` holds."""

    models: Some[str]
    others: tuple[Path, ...]
    data: Path | None
    tests: Some[Path]
    exclude: tuple[Path, ...]
    cache: Path
    output: Path
    publish: Path | None = None


@dataclass(slots=True)
class Judgement:
    """Figures by test set and method, one entry per seed."""

    decisions: dict[tuple[str, str], list[dict[str, float]]] = field(default_factory=dict)
    netlists: dict[tuple[str, str], list[dict[str, float]]] = field(default_factory=dict)

    def tables(self) -> list[Table]:
        """Return a table of decisions and, if potentials are known, one of netlists alone."""
        columns = ("relative_error", "spearman", "best_spearman", "top1_regret", *COVERAGE)
        tables = [Table(DECISION_HEADER, _rows(self.decisions, columns), "Decisions", "decisions")]
        if self.netlists:
            columns = ("relative_error", "rank", *COVERAGE)
            tables.append(Table(NETLIST_HEADER, _rows(self.netlists, columns), "Netlists alone", "netlists"))
        return tables

    def figures(self, command: str, commit: str, date: str) -> list[Published]:
        """Return what is held against later versions: means over seeds of the model's error and rank."""
        return [
            Published(f"judge {test} {about} {name}", mean, TOLERANCE, better, command, commit, date)
            for about, found in (("decisions", self.decisions), ("netlists", self.netlists))
            for (test, method), seeds in found.items()
            for name, better in _HELD.items()
            if method == MODEL
            and name in seeds[0]
            and np.isfinite(mean := round(float(np.mean([figures[name] for figures in seeds])), 4))
        ]


def judge(config: JudgeConfig) -> Judgement:
    """Judge models, one per seed, and what learned from `config.data`, on all test sets.

    Without `config.data`, rules and trees learn from the other netlists of each test set, by folds:
    they then know the fabric and the families better than a model that has seen none of them.
    Netlists that are in a dataset of `config.exclude` do not count.
    Raises InputError when a dataset or a model cannot be read, or a test set was learned from.
    """
    networks = {path.stem: [open_model(path)] for path in config.others}
    networks[MODEL] = [open_model(location) for location in config.models]
    known = None if config.data is None else _whole(open_labelled(config.data, config.cache))
    result = Judgement()
    seen = {name for folder in config.exclude for name in Dataset.open(folder).fingerprints}
    for folder in config.tests:
        data = open_labelled(folder, config.cache)
        unseen = np.flatnonzero([name not in seen for name in Dataset.open(folder).fingerprints])
        if not len(unseen):
            raise InputError(f"tests: all netlists of {folder} are in a dataset of exclude; name another test set")
        name, test = folder.name, Selection(data, np.flatnonzero(np.isin(data.netlist, unseen)))
        for model in (model for models in networks.values() for model in models):
            if model.origin.get("dataset") == test.data.content_hash:
                raise InputError(f"tests: {folder} is what a model has learned from; name other datasets")
        for method, fit in BASELINES.items():
            result.decisions[name, method] = [_of_decisions(_learned(fit, test, known), test)]
        for method, models in networks.items():
            said = [_of_decisions(checked_prediction(model, test), test) for model in models]
            result.decisions[name, method] = said
        _judge_netlists(result, name, networks[MODEL], folder, unseen, config)
    return result


def _whole(data: Labelled) -> Selection:
    return Selection(data, np.arange(len(data)))


def _learned(fit: Fit, test: Selection, known: Selection | None) -> Prediction:
    """Return what a predictor says that has learned from `known`, or from the other folds by graph of the test set."""
    if known is not None:
        return checked_prediction(fit(known), test)
    data, num = test.data, len(test.data)
    throughput, log_sigma = np.empty(num), np.full(num, np.nan)
    for number in range(data.splits.folds(SplitKind.GRAPH)):
        fold = data.splits.fold(SplitKind.GRAPH, number)
        train, rest = (Selection(data, np.intersect1d(ids, test.ids)) for ids in (fold.train, fold.test))
        said = checked_prediction(fit(train), rest)
        throughput[rest.ids] = said.throughput
        if said.log_sigma is not None:
            log_sigma[rest.ids] = said.log_sigma
    is_sure = np.isfinite(log_sigma[test.ids]).all()
    return Prediction(throughput[test.ids], log_sigma[test.ids] if is_sure else None)


def _of_decisions(found: Prediction, test: Selection) -> dict[str, float]:
    scores = score_predictions(found.throughput, test.throughput, test.netlist).to_dict()
    return scores | _coverage(found, test.throughput)


def _judge_netlists(
    result: Judgement, name: str, models: Sequence[Model], folder: Path, unseen: LongArray, config: JudgeConfig
) -> None:
    """Add what is said of the unseen netlists of a test set, if their potentials are known."""
    found = open_potentials(folder, config.cache)
    if found is None:
        return
    test = Selection(found.data, np.intersect1d(found.ids, unseen))
    known = None if config.data is None else open_potentials(config.data, config.cache)
    names = ["samples", "bound_cycles"]
    columns = Dataset.open(folder).netlists_file.read_columns(names)
    work = np.prod([columns[name].to_numpy()[test.ids] for name in names], axis=0).astype(float)
    for method, fit in zip(BOUNDS, BASELINES.values(), strict=True):
        result.netlists[name, method] = [_of_netlists(_learned(fit, test, known), test, work)]
    said = [
        Model(part.network.config, part.network, part.sigma_scale, model.origin).predict(test)
        for model in models
        if (part := model.potential) is not None
    ]
    if said:
        result.netlists[name, MODEL] = [_of_netlists(prediction, test, work) for prediction in said]


def _of_netlists(said: Prediction, test: Selection, work: FloatArray) -> dict[str, float]:
    """Score potentials; `work` [num_netlists] is the time of a whole input at potential 1."""
    ranks = score_graphs(said.throughput / work, test.throughput / work, test.data.group[test.ids]).spearman
    error = np.abs(said.throughput / test.throughput - 1).mean()
    figures = {"num_graphs": float(len(test)), "relative_error": float(error), "rank": float(np.nanmean(ranks))}
    return figures | _coverage(said, test.throughput)


def _coverage(said: Prediction, measured: FloatArray) -> dict[str, float]:
    if said.log_sigma is None:
        return dict.fromkeys(COVERAGE, float("nan"))
    return uncertainty_of(said.throughput, measured, said.log_sigma)


def _rows(found: Mapping[tuple[str, str], Sequence[Mapping[str, float]]], columns: Sequence[str]) -> list[list[str]]:
    """Return a row per test set and method, with means and deviations over seeds."""
    rows = []
    for (name, method), seeds in found.items():
        cells = [str(Spread.of([figures[column] for figures in seeds])) for column in columns]
        rows.append([name, method, f"{seeds[0]['num_graphs']:.0f}", *cells])
    return rows
