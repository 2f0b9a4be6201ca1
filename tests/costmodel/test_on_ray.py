"""Active learning, comparison and evaluation on a running Ray cluster, reached by its address."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from costmodel.comparison.cases import Unseen
from costmodel.comparison.methods import Method, place
from costmodel.comparison.run import jobs_of, run_jobs
from costmodel.evaluation.methods import Baseline
from costmodel.evaluation.methods import Method as Predicting
from costmodel.evaluation.run import JOBS_FOLDER, run_plan
from costmodel.liked import SearchConfig, SearchJob, search_netlist
from placer.config import compose_config, to_dataclass
from placer.executor import ExecutorKind, run_tasks
from placer.placing import PlaceConfig
from tests.costmodel.evaluation.cases import plan_of, sources_in
from tests.costmodel.test_learned import SMALL, model_for
from tests.ray_cluster import ray_cluster

pytestmark = [pytest.mark.ray, pytest.mark.slow]
RAY = ExecutorKind.RAY


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ray_cluster(1) as cluster:
        yield cluster.address


def test_active_learning_finds_the_same(address: str) -> None:
    case = next(iter(Unseen(("mlp",), 1, 10, 77).cases(SMALL)))
    config = SearchConfig(2, 20, 0.003, 5e-4, 3)
    job = SearchJob(case, pickle.dumps(model_for(SMALL)), config, seed=1)
    here = search_netlist(job)
    ((_, there),) = run_tasks(search_netlist, [job], kind=RAY, workers=1, ray_address=address)
    np.testing.assert_array_equal(here.throughput, there.throughput)
    for one, two in zip(here.found, there.found, strict=True):
        np.testing.assert_array_equal(one.decision.sites, two.decision.sites)


def test_a_comparison_finds_the_same(address: str, tmp_path: Path) -> None:
    settings = compose_config("place", ["cost=random", "max_moves=1"])
    method = Method(to_dataclass(PlaceConfig, settings), time_factor=0)
    cases = list(Unseen(("mlp",), 1, 10, 77).cases(SMALL))
    jobs = jobs_of(cases, {"random": method}, 1.0, 2)
    done = run_jobs(jobs, tmp_path, executor=RAY, workers=1, ray_address=address)
    here = [place(job.case, job.method, job.seconds, job.seed) for job in jobs]
    assert [f.placed.throughput for f in done] == [placed.throughput for placed in here]


def test_an_evaluation_writes_the_same_bytes(address: str, tmp_path: Path) -> None:
    methods = {"heuristic": Predicting(Baseline.HEURISTIC)}
    plan = plan_of(sources_in(tmp_path), methods=methods, max_folds=1)
    run_plan(plan, tmp_path / "ray", executor=RAY, workers=1, ray_address=address)
    run_plan(plan, tmp_path / "here", executor=ExecutorKind.LOCAL, workers=1)
    there, here = (
        {path.name: path.read_bytes() for path in (tmp_path / name / JOBS_FOLDER).iterdir()}
        for name in ("ray", "here")
    )
    assert there == here != {}
