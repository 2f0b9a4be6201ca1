"""Active learning, comparison and evaluation on a running Ray cluster, reached by its address."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from costmodel.adaptation.liked import SearchConfig, SearchJob, search_netlist
from costmodel.evaluation import Baseline, Method, run_plan
from costmodel.evaluation.comparison import PlacingMethod, Unseen, jobs_of, run_placings
from placer.base.config import compose_config, to_dataclass
from placer.base.workers import ExecutorKind, Workers
from placer.pipeline import PlaceConfig
from tests.costmodel.evaluation.cases import plan_of, sources_in
from tests.costmodel.inference.test_learned import SMALL, model_for
from tests.ray_cluster import ray_cluster

pytestmark = [pytest.mark.ray, pytest.mark.slow]


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with ray_cluster(1) as cluster:
        yield Workers(executor=ExecutorKind.RAY, ray_address=cluster.address)


def test_active_learning_finds_the_same(workers: Workers) -> None:
    case = next(iter(Unseen(("mlp",), 1, 10, 77).cases(SMALL)))
    config = SearchConfig(2, 20, 0.003, 5e-4, 3)
    job = SearchJob(case, pickle.dumps(model_for(SMALL)), config, seed=1)
    here = search_netlist(job)
    ((_, there),) = workers.run(search_netlist, [job])
    np.testing.assert_array_equal(here.throughput, there.throughput)
    for one, two in zip(here.found, there.found, strict=True):
        np.testing.assert_array_equal(one.decision.sites, two.decision.sites)


def test_a_comparison_finds_the_same(workers: Workers, tmp_path: Path) -> None:
    settings = compose_config("place", ["cost=random", "max_moves=1"])
    method = PlacingMethod(to_dataclass(PlaceConfig, settings), time_factor=0)
    cases = list(Unseen(("mlp",), 1, 10, 77).cases(SMALL))
    jobs = jobs_of(cases, {"random": method}, 1.0, 2)
    done = run_placings(jobs, tmp_path, workers)
    assert done["throughput"].tolist() == [job.place().throughput for job in jobs]


def test_an_evaluation_finds_the_same(workers: Workers, tmp_path: Path) -> None:
    methods = {"heuristic": Method(Baseline.HEURISTIC)}
    plan = plan_of(sources_in(tmp_path), methods=methods, max_folds=1)
    there, here = (
        [(job, outcome.throughput) for job, outcome in run_plan(plan, tmp_path / name, by)]
        for name, by in (("ray", workers), ("here", Workers()))
    )
    assert there == here != []
