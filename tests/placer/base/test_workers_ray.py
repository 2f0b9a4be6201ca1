"""Tasks on a real Ray cluster of two nodes on this machine, one of which is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from placer.base import InputError
from placer.base.workers import ExecutorKind, WorkerCrashError, open_crew, run_tasks
from placer.base.workers.attempt import TaskFailedError
from tests.placer.base.test_workers import (
    ShardTask,
    collect,
    die_always,
    die_once,
    expected,
    fail_on_three,
    interrupted,
    make_shard,
    tasks_of,
    thread_settings,
)
from tests.ray_cluster import ray_cluster

pytestmark = [pytest.mark.ray, pytest.mark.slow]
RAY = ExecutorKind.RAY


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """The tests connect by address."""
    with ray_cluster(2) as nodes:
        yield nodes


@dataclass(frozen=True, slots=True)
class DoomedTask:
    """A shard that no worker of the doomed node finishes, and none elsewhere before one tried."""

    seed: int
    doomed_node_id: str
    tried: Path


def shard_unless_doomed(task: DoomedTask) -> bytes:
    import ray

    if ray.get_runtime_context().get_node_id() == task.doomed_node_id:
        task.tried.touch()
        time.sleep(600)
    wait_for(task.tried)
    return make_shard(ShardTask(task.seed))


def wait_for(file: Path) -> None:
    deadline = time.monotonic() + 60
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.05)


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
        collect(run_tasks(die_always, tasks, kind=RAY, workers=2, ray_address=cluster.address), results)
    assert sorted(results) == [1, 2, 3]
    with pytest.raises(TaskFailedError, match=r"task 3 .*KeyError.*no such unit"):
        collect(run_tasks(fail_on_three, tasks_of(100), kind=RAY, workers=1, ray_address=cluster.address))


def test_a_node_lost_in_the_middle_changes_nothing(cluster: Any, tmp_path: Path) -> None:
    doomed = cluster.add_node(num_cpus=1)
    tried = tmp_path / "tried"

    def lose_node() -> None:
        wait_for(tried)
        cluster.remove_node(doomed, allow_graceful=False)

    losing = threading.Thread(target=lose_node)
    losing.start()
    tasks = [DoomedTask(seed, doomed.node_id, tried) for seed in range(20)]
    results = run_tasks(shard_unless_doomed, tasks, kind=RAY, workers=3, ray_address=cluster.address)
    found = collect(results)
    losing.join()
    assert tried.exists()
    local = run_tasks(make_shard, tasks_of(20), kind=ExecutorKind.LOCAL, workers=1)
    assert found == collect(local)


def test_a_cluster_started_for_the_run_goes_with_it_also_by_interrupt(tmp_path: Path) -> None:
    assert interrupted(tmp_path, RAY) == ("interrupted\n", "", 0)


def test_workers_of_a_cluster_run_single_threaded(cluster: Any) -> None:
    results = run_tasks(thread_settings, tasks_of(1), kind=RAY, workers=1, ray_address=cluster.address)
    assert list(results) == [(0, "1 1")]


def test_an_address_without_a_cluster_is_refused() -> None:
    results = run_tasks(make_shard, tasks_of(1), kind=RAY, workers=1, ray_address="127.0.0.1:1")
    with pytest.raises(InputError, match=r"127\.0\.0\.1:1.*ray start --head"):
        list(results)


def test_a_crew_on_a_cluster_stays_for_several_rounds(cluster: Any) -> None:
    with open_crew(make_shard, kind=ExecutorKind.RAY, workers=2) as crew:
        for _ in range(2):
            assert dict(crew.run(tasks_of(3))) == expected(3)
