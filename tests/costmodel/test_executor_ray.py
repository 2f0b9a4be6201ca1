"""Tasks on a real Ray cluster of two nodes on this machine, one of which is lost."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from costmodel.executor import ExecutorKind, TaskFailedError, WorkerCrashError, run_tasks
from placer.errors import InputError
from tests.costmodel.test_executor import (
    ShardTask,
    collect,
    die_always,
    die_once,
    expected,
    fail_on_three,
    is_alive,
    make_shard,
    tasks_of,
    thread_settings,
    worker_pid_and_shard,
)

pytestmark = pytest.mark.slow
RAY = ExecutorKind.RAY


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head and one more node, each with one CPU; the tests connect by address."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    logging.getLogger("ray").setLevel(logging.ERROR)
    from ray.cluster_utils import Cluster

    nodes = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    try:
        nodes.add_node(num_cpus=1)
        yield nodes
    finally:
        nodes.shutdown()


def slow_shard(task: ShardTask) -> bytes:
    time.sleep(0.3)
    return make_shard(task)


def test_a_cluster_gives_the_same_and_survives_a_crash(cluster: Any, tmp_path: Path) -> None:
    tasks = tasks_of(7)
    tasks[2] = ShardTask(2, marker=tmp_path / "died")
    results = run_tasks(die_once, tasks, kind=RAY, workers=2, ray_address=cluster.address)
    assert collect(results) == expected(7)
    assert (tmp_path / "died").exists()


def test_failures_on_a_cluster_are_told_as_locally(cluster: Any, tmp_path: Path) -> None:
    tasks = tasks_of(4)
    tasks[0] = ShardTask(0, marker=tmp_path / "attempts")
    results: dict[int, bytes] = {}
    with pytest.raises(WorkerCrashError, match=r"task 0 .*3 times.*WorkerCrashedError"):
        collect(
            run_tasks(die_always, tasks, kind=RAY, workers=2, ray_address=cluster.address), results
        )
    assert sorted(results) == [1, 2, 3]
    with pytest.raises(TaskFailedError, match=r"task 3 .*KeyError.*no such unit"):
        collect(
            run_tasks(
                fail_on_three, tasks_of(100), kind=RAY, workers=1, ray_address=cluster.address
            )
        )


def test_a_node_lost_in_the_middle_changes_nothing(cluster: Any) -> None:
    lost = cluster.add_node(num_cpus=2)
    results: dict[int, bytes] = {}
    run = run_tasks(slow_shard, tasks_of(20), kind=RAY, workers=4, ray_address=cluster.address)
    for index, shard in run:
        results[index] = shard
        if len(results) == 6:
            cluster.remove_node(lost, allow_graceful=False)
    local = collect(run_tasks(make_shard, tasks_of(20), kind=ExecutorKind.LOCAL, workers=1))
    assert results == local


def test_a_cluster_of_its_own_is_started_and_taken_down() -> None:
    import ray

    results = dict(run_tasks(worker_pid_and_shard, tasks_of(4), kind=RAY, workers=2))
    assert {index: shard for index, (_, shard) in results.items()} == expected(4)
    assert not ray.is_initialized()
    assert not any(is_alive(pid) for pid, _ in results.values())


def test_workers_of_a_cluster_run_single_threaded(cluster: Any) -> None:
    results = run_tasks(
        thread_settings, tasks_of(1), kind=RAY, workers=1, ray_address=cluster.address
    )
    assert list(results) == [(0, "1 1")]


def test_an_address_without_a_cluster_is_refused() -> None:
    results = run_tasks(make_shard, tasks_of(1), kind=RAY, workers=1, ray_address="127.0.0.1:1")
    with pytest.raises(InputError, match=r"127\.0\.0\.1:1.*ray start --head"):
        list(results)
