"""Jobs: same job, same bytes; nothing finished is lost or computed twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel.evaluation import Baseline, Method, Seeds, Sources, jobs, run_plan, write_evaluation
from costmodel.evaluation.jobs import JOBS_FOLDER, Finished, Job
from costmodel.evaluation.methods import checked_prediction
from costmodel.model import Prediction, Selection
from costmodel.networks.guha import GuhaConfig
from costmodel.training import TrainConfig, TrainerConfig
from placer.base import InputError
from placer.base.workers import Workers
from placer.fabric import load_fabric
from tests.costmodel.evaluation.cases import (
    BY_GRAPH,
    METHODS,
    NO_SEEDS,
    NUM_FOLDS,
    make_dataset,
    plan_of,
    run_inline,
    sources_in,
)

LESS = {"less": Method(Baseline.HEURISTIC, base="heuristic")}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    return sources_in(tmp_path_factory.mktemp("run"))


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """No processes; the names of the jobs that were computed."""
    computed: list[str] = []

    def record(function: Any, tasks: Any, **options: Any) -> Iterator[tuple[int, Any]]:
        for index, result in run_inline(function, tasks):
            yield index, result
            computed.append(str(tasks[index]))

    monkeypatch.setattr("placer.base.workers.jobs.run_tasks", record)
    return computed


def _run(plan: Any, folder: Path, **options: Any) -> list[Finished]:
    return run_plan(plan, folder, Workers(), **options)


def _predicted(folder: Path) -> dict[str, tuple[list[float], list[float] | None]]:
    """What was found, by file; but for the seconds that it took."""
    found = {}
    for path in sorted((folder / JOBS_FOLDER).glob("*.json")):
        result = json.loads(path.read_text())["result"]
        found[path.name] = result["throughput"], result["log_sigma"]
    return found


@pytest.mark.slow
def test_same_job_same_predicted(sources: Sources, tmp_path: Path, inline: list[str]) -> None:
    plan = plan_of(sources, methods={"boosting": Method(Baseline.BOOSTING)}, max_folds=1)
    for name in ("a", "b"):
        _run(plan, tmp_path / name)
    assert len(inline) == 2
    assert _predicted(tmp_path / "a") == _predicted(tmp_path / "b") != {}


def test_a_run_that_was_cut_off_computes_only_what_is_missing(
    sources: Sources, tmp_path: Path, inline: list[str]
) -> None:
    def stop(done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    plan = plan_of(sources)
    whole = _run(plan, tmp_path / "whole")
    inline.clear()
    with pytest.raises(KeyboardInterrupt):
        _run(plan, tmp_path / "parts", on_progress=stop)
    assert len(_predicted(tmp_path / "parts")) == 2
    inline.clear()
    resumed = _run(plan, tmp_path / "parts")
    assert len(inline) == len(plan.jobs()) - 2 == 2 * NUM_FOLDS - 2
    assert [job for job, _ in resumed] == [job for job, _ in whole]
    assert _predicted(tmp_path / "parts") == _predicted(tmp_path / "whole")
    inline.clear()
    _run(plan, tmp_path / "parts")
    assert inline == []


def test_damaged_files_are_computed_again(sources: Sources, tmp_path: Path, inline: list[str]) -> None:
    plan = plan_of(sources)
    _run(plan, tmp_path)
    before = _predicted(tmp_path)
    first, second, *_ = sorted((tmp_path / JOBS_FOLDER).glob("*.json"))
    first.write_bytes(first.read_bytes()[:50])
    document = json.loads(second.read_text())
    document["result"]["throughput"][0] *= 2
    second.write_text(json.dumps(document))
    inline.clear()
    _run(plan, tmp_path)
    assert len(inline) == 2
    assert _predicted(tmp_path) == before


def test_the_origin_of_a_job_tells_all_others_apart(sources: Sources) -> None:
    job = Job("some", METHODS["calibrated"], "graph", 0, 0, sources)
    others = [
        replace(job, seed=1),
        replace(job, fold=1),
        replace(job, split="random"),
        replace(job, method=METHODS["heuristic"]),
        replace(job, method=Method(TrainConfig())),
        replace(job, method=Method(TrainConfig(network=GuhaConfig()))),
    ]
    origins = [str(item.origin()) for item in (job, *others)]
    assert len(set(origins)) == len(origins)
    assert replace(job, name="other").origin() == job.origin()


def test_training_and_test_never_overlap(sources: Sources) -> None:
    for split in ("graph", "family", "random"):
        tested = []
        for fold in range(2 if split == "family" else NUM_FOLDS):
            train, test = sources.selections(split, fold)
            assert not set(train.ids) & set(test.ids)
            if split == "graph":
                assert not set(train.netlist) & set(test.netlist)
            tested.append(test.ids)
        np.testing.assert_array_equal(np.sort(np.concatenate(tested)), np.arange(len(train.data)))


class _Broken:
    """Predicts what is no number."""

    def predict(self, selection: Selection) -> Prediction:
        return Prediction(np.full(len(selection), np.nan), None)


def test_predictions_that_are_no_numbers_stop_the_run_and_keep_what_is_finished(
    sources: Sources, tmp_path: Path, inline: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = jobs.fit

    def fit(config: Any, *arguments: Any, **options: Any) -> Any:
        is_broken = config is Baseline.CALIBRATED
        return _Broken() if is_broken else real(config, *arguments, **options)

    monkeypatch.setattr(jobs, "fit", fit)
    with pytest.raises(InputError, match="predicted throughput is nan for 24 of 24 decisions"):
        _run(plan_of(sources), tmp_path)
    assert len(_predicted(tmp_path)) == NUM_FOLDS


def test_predictions_of_the_wrong_length_are_refused(sources: Sources) -> None:
    class Short:
        def predict(self, selection: Selection) -> Prediction:
            return Prediction(np.ones(2), None)

    with pytest.raises(InputError, match=r"has shape \(2,\); needed 5 numbers"):
        checked_prediction(Short(), Selection(sources.main, np.arange(5)))


def test_transfer_needs_a_dataset_of_that_fabric(tmp_path: Path, inline: list[str]) -> None:
    sources = sources_in(tmp_path, large=make_dataset(tmp_path / "other"))
    with pytest.raises(InputError, match=r"transfers\.large: .*made for fabric 'small'.*make data"):
        _run(plan_of(sources), tmp_path / "out")


def test_transfer_trains_on_all_and_tests_on_all_of_another_fabric(tmp_path: Path, inline: list[str]) -> None:
    other = make_dataset(tmp_path / "other", fabric=replace(load_fabric("small"), name="small_v2"))
    sources = sources_in(tmp_path, small_v2=other)
    seeds = replace(NO_SEEDS, transfer=(0, 1))
    finished = _run(plan_of(sources, seeds=seeds), tmp_path / "out")
    assert [(job.split, job.seed) for job, _ in finished] == [("small_v2", seed) for seed in (0, 1) for _ in METHODS]
    assert all(len(outcome.throughput) == 72 for _, outcome in finished)


def test_empty_splits_are_refused(tmp_path: Path) -> None:
    lonely = Sources(make_dataset(tmp_path / "data", families=("mlp",)), tmp_path / "cache")
    with pytest.raises(InputError, match=r"only one family; leave it out with seeds\.family=\[\]"):
        plan_of(lonely, seeds=replace(BY_GRAPH, family=(0,))).jobs()
    with pytest.raises(InputError, match="no jobs"):
        plan_of(lonely, seeds=NO_SEEDS).jobs()


def test_wrong_plans_are_refused(sources: Sources) -> None:
    with pytest.raises(InputError, match="compared with 'flow', which is not among the methods"):
        plan_of(sources, ablations={"less": Method(Baseline.HEURISTIC, base="flow")})
    with pytest.raises(InputError, match="max_folds=0"):
        plan_of(sources, max_folds=0)
    with pytest.raises(InputError, match="ablation_folds=0"):
        plan_of(sources, ablation_folds=0)
    with pytest.raises(InputError, match=r"seeds\.ablation has \[1\] that seeds\.graph has not"):
        plan_of(sources, seeds=replace(BY_GRAPH, ablation=(1,)), ablations=LESS)
    with pytest.raises(InputError, match=r"seeds\.graph=\[1, 1\]"):
        Seeds(graph=(1, 1), random=(), family=(), transfer=(), ablation=())


@pytest.mark.slow
def test_ablations_are_compared_on_the_folds_that_they_have(
    sources: Sources, tmp_path: Path, inline: list[str]
) -> None:
    plan = plan_of(sources, seeds=replace(BY_GRAPH, ablation=(0,)), ablations=LESS, ablation_folds=1)
    finished = _run(plan, tmp_path)
    own = [job for job, _ in finished if job.name == "less"]
    assert [(job.split, job.fold, job.seed) for job in own] == [("graph", 0, 0)]
    write_evaluation(plan, finished, tmp_path, main="heuristic", command="evaluate")
    text = (tmp_path / "report.md").read_text()
    assert "The first 1 folds by graph" in text
    rows = [line.split("|")[1:] for line in text.splitlines() if line.startswith("| less | ")]
    assert rows and all(row[5].strip() == "+0.000" for row in rows)  # it is its own base


def test_stages_grow_to_the_whole_plan(sources: Sources) -> None:
    whole = plan_of(sources, seeds=replace(BY_GRAPH, random=(0,)))
    stages = [plan.jobs() for plan in whole.stages()]
    assert [{job.split for job in stage} for stage in stages] == [{"graph"}, {"graph", "random"}]
    assert stages[-1] == whole.jobs()
    assert [plan.seeds for plan in plan_of(sources, seeds=NO_SEEDS).stages()] == [NO_SEEDS]


@pytest.mark.slow
def test_a_network_is_a_method(sources: Sources, tmp_path: Path, inline: list[str]) -> None:
    config = TrainConfig(GuhaConfig(width=8, rounds=1), trainer=TrainerConfig(max_epochs=1))
    ((_, outcome),) = _run(plan_of(sources, methods={"guha": Method(config)}, max_folds=1), tmp_path)
    assert outcome.log_sigma is not None
    assert [path.suffix for path in (tmp_path / JOBS_FOLDER).iterdir() if path.is_dir()] == []


@pytest.mark.slow
def test_processes_give_the_same_predicted(sources: Sources, tmp_path: Path) -> None:
    plan = plan_of(sources, max_folds=2)
    for workers in (1, 2):
        folder = tmp_path / str(workers)
        run_plan(plan, folder, Workers(workers=workers))
    assert _predicted(tmp_path / "1") == _predicted(tmp_path / "2") != {}
