"""Tasks in local processes: results, crashes, exceptions, interrupts."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from placer.base import DoesNotFitError, InputError
from placer.base.workers import ExecutorKind, WorkerCrashError, open_crew, run_tasks
from placer.base.workers.attempt import MAX_ATTEMPTS, TaskFailedError
from tests import ROOT

pytestmark = pytest.mark.slow

LOCAL = ExecutorKind.LOCAL
SHARD_BYTES = 200_000  # more than a pipe holds


@dataclass(frozen=True, slots=True)
class ShardTask:
    """A shard to make; `marker`, if any, is where attempts are counted."""

    seed: int
    marker: Path | None = None


def make_shard(task: ShardTask) -> bytes:
    return hashlib.shake_128(str(task.seed).encode()).digest(SHARD_BYTES)


def die_once(task: ShardTask) -> bytes:
    if task.marker is not None and not task.marker.exists():
        task.marker.touch()
        os._exit(7)
    return make_shard(task)


def die_always(task: ShardTask) -> bytes:
    if task.marker is not None:
        with task.marker.open("a") as attempts:
            attempts.write("x")
        os.kill(os.getpid(), signal.SIGKILL)
    return make_shard(task)


def die(task: ShardTask) -> bytes:
    os._exit(1)


def fail_on_three(task: ShardTask) -> bytes:
    if task.seed == 3:
        raise KeyError("no such unit")
    return make_shard(task)


def does_not_fit(task: ShardTask) -> bytes:
    raise DoesNotFitError("compute units", 70, 64, "use a larger fabric")


def unpicklable(task: ShardTask) -> object:
    return lambda: task


def thread_settings(task: ShardTask) -> str:
    import numba

    return f"{os.environ['OMP_NUM_THREADS']} {numba.config.NUMBA_NUM_THREADS}"


def worker_pid_and_shard(task: ShardTask) -> tuple[int, bytes]:
    return os.getpid(), make_shard(task)


def tasks_of(num: int) -> list[ShardTask]:
    return [ShardTask(seed) for seed in range(num)]


def expected(num: int) -> dict[int, bytes]:
    return {index: make_shard(ShardTask(index)) for index in range(num)}


def collect(results: Iterator[tuple[int, bytes]], into: dict[int, bytes] | None = None) -> dict[int, bytes]:
    into = {} if into is None else into
    for index, result in results:
        assert index not in into
        into[index] = result
    return into


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_are_those_of_the_function_for_any_number_of_workers(workers: int) -> None:
    assert collect(run_tasks(make_shard, tasks_of(7), kind=LOCAL, workers=workers)) == expected(7)


def test_no_tasks_no_results() -> None:
    assert collect(run_tasks(make_shard, [], kind=LOCAL, workers=2)) == {}


def test_bad_arguments_are_refused_before_anything_runs() -> None:
    with pytest.raises(InputError, match="workers: 0"):
        run_tasks(make_shard, tasks_of(1), kind=LOCAL, workers=0)
    with pytest.raises(InputError, match="ray_address"):
        run_tasks(make_shard, tasks_of(1), kind=LOCAL, workers=1, ray_address="10.0.0.1:6379")


def shard_unless_slow(task: ShardTask) -> bytes:
    if task.seed == SLOW:
        time.sleep(600)
    return worker_pid_and_shard(task)[1] + str(os.getpid()).encode()


SLOW = 99  # seed of a task that takes too long


def test_a_crew_stays_for_several_rounds_and_gives_up_what_is_late() -> None:
    with open_crew(shard_unless_slow, kind=LOCAL, workers=1) as crew:
        first, second = (dict(crew.run(tasks_of(2))) for _ in range(2))
        assert first == second  # also the process
        late = dict(crew.run([ShardTask(0), ShardTask(SLOW), ShardTask(1)], until=time.monotonic() + 5))
        assert late == {0: first[0]}
        again = dict(crew.run(tasks_of(1)))
    assert again[0][:SHARD_BYTES] == first[0][:SHARD_BYTES] and again != {0: first[0]}


def test_workers_run_single_threaded_and_the_parent_keeps_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    before = dict(os.environ)
    assert list(run_tasks(thread_settings, tasks_of(1), kind=LOCAL, workers=1)) == [(0, "1 1")]
    assert dict(os.environ) == before


@pytest.mark.parametrize("workers", [1, 2])
def test_a_worker_that_dies_once_costs_a_warning(
    tmp_path: Path, workers: int, caplog: pytest.LogCaptureFixture
) -> None:
    tasks = tasks_of(5)
    tasks[1] = ShardTask(1, marker=tmp_path / "died")
    assert collect(run_tasks(die_once, tasks, kind=LOCAL, workers=workers)) == expected(5)
    assert caplog.messages == [f"task 1 lost its worker: exit code 7 (attempt 1 of {MAX_ATTEMPTS})"]


def test_a_task_that_always_kills_its_worker_is_named_after_the_others_are_done(tmp_path: Path) -> None:
    tasks = tasks_of(5)
    tasks[0] = ShardTask(0, marker=tmp_path / "attempts")
    results: dict[int, bytes] = {}
    with pytest.raises(WorkerCrashError, match=r"task 0 .*3 times.*SIGKILL.*fewer workers"):
        collect(run_tasks(die_always, tasks, kind=LOCAL, workers=2), into=results)
    others = expected(5)
    del others[0]
    assert results == others
    assert len((tmp_path / "attempts").read_text()) == MAX_ATTEMPTS


def test_a_worker_killed_while_it_hands_over_its_result_is_replaced() -> None:
    seen: dict[int, bytes] = {}
    pids: set[int] = set()
    for index, (pid, shard) in run_tasks(worker_pid_and_shard, tasks_of(4), kind=LOCAL, workers=1):
        seen[index] = shard
        if not pids:
            wait_until_blocked_on_a_pipe(pid)
            os.kill(pid, signal.SIGKILL)
        pids.add(pid)
    assert seen == expected(4)
    assert len(pids) == 2


def test_a_worker_killed_while_it_has_no_task_is_not_missed() -> None:
    seen: dict[int, bytes] = {}
    for index, (pid, shard) in run_tasks(worker_pid_and_shard, tasks_of(2), kind=LOCAL, workers=2):
        seen[index] = shard
        if len(seen) == 1:
            os.kill(pid, signal.SIGKILL)
    assert seen == expected(2)


def wait_until_blocked_on_a_pipe(pid: int) -> None:
    """Its next shard is larger than the pipe, and nobody reads: it must come to sleep."""
    deadline = time.monotonic() + 30
    state = ""
    while state != "S" and time.monotonic() < deadline:
        time.sleep(0.05)
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    assert state == "S"


def test_a_run_in_which_every_task_kills_its_worker_ends_early(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(WorkerCrashError, match="without a result"):
        collect(run_tasks(die, tasks_of(1000), kind=LOCAL, workers=2))
    assert len(caplog.messages) < 30


def test_an_exception_stops_the_run_and_keeps_what_is_finished() -> None:
    results: dict[int, bytes] = {}
    with pytest.raises(TaskFailedError, match=r"task 3 .*KeyError.*no such unit") as caught:
        collect(run_tasks(fail_on_three, tasks_of(100), kind=LOCAL, workers=1), into=results)
    assert results == expected(3)
    assert "in fail_on_three" in str(caught.value)  # where it happened


def test_an_input_error_stays_one() -> None:
    with pytest.raises(InputError, match=r"task 0 .*needed 70.*use a larger fabric"):
        collect(run_tasks(does_not_fit, tasks_of(3), kind=LOCAL, workers=1))


def test_a_result_that_cannot_be_sent_is_an_error_of_the_task() -> None:
    with pytest.raises(TaskFailedError, match="task 0"):
        list(run_tasks(unpicklable, tasks_of(2), kind=LOCAL, workers=1))


def test_a_worker_that_cannot_start_says_so(tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(
        "from placer.base.workers import ExecutorKind, run_tasks\n"
        "list(run_tasks(len, ['a'], kind=ExecutorKind.LOCAL, workers=1))\n"
    )
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert run.returncode == 1
    assert "WorkerCrashError: a worker process could not start (exit code 1" in run.stderr


def test_closing_the_generator_ends_the_workers() -> None:
    results = run_tasks(worker_pid_and_shard, tasks_of(10), kind=LOCAL, workers=1)
    _, (pid, _) = next(results)
    assert is_alive(pid)
    results.close()  # type: ignore[attr-defined]
    assert not is_alive(pid)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


SLEEPY_SCRIPT = """
import sys
from placer.base.workers import ExecutorKind, run_tasks
from tests.placer.base.test_workers import sleepy

if __name__ == "__main__":
    try:
        tasks = [0.0, 0.0, 600.0, 600.0]
        for index, _ in run_tasks(sleepy, tasks, kind=ExecutorKind(sys.argv[1]), workers=2):
            print("result", index, flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


def sleepy(seconds: float) -> None:
    time.sleep(seconds)


def start_sleepy_run(folder: Path, kind: ExecutorKind) -> subprocess.Popen[str]:
    """Start the script in a session of its own, until only tasks that never end are left."""
    script = folder / "run.py"
    script.write_text(SLEEPY_SCRIPT)
    run = subprocess.Popen(
        [sys.executable, str(script), kind.value],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert run.stdout is not None
    assert sorted(run.stdout.readline() for _ in range(2)) == ["result 0\n", "result 1\n"]
    return run


def processes_of_session(session: int) -> list[int]:
    """Living processes of a session: the process that opened it and all that descend from it."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, its_session, *_ = stat.read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(its_session) == session and state != "Z":
            found.append(int(stat.parent.name))
    return found


def assert_session_ends(session: int) -> None:
    deadline = time.monotonic() + 120  # a slow machine; it takes a moment
    while processes_of_session(session) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes_of_session(session) == []


def interrupted(folder: Path, kind: ExecutorKind) -> tuple[str, str, int]:
    """Output, errors and exit code of a run after Ctrl-C; none of its processes is left."""
    run = start_sleepy_run(folder, kind)
    assert len(processes_of_session(run.pid)) >= 3
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does: to every process of the group
    out, err = run.communicate(timeout=60)
    assert_session_ends(run.pid)
    return out, err, run.returncode


def test_interrupt_ends_all_processes_quietly(tmp_path: Path) -> None:
    assert interrupted(tmp_path, LOCAL) == ("interrupted\n", "", 0)


def test_workers_of_a_killed_parent_end_in_the_midst_of_their_task(tmp_path: Path) -> None:
    run = start_sleepy_run(tmp_path, LOCAL)
    run.kill()
    run.communicate(timeout=60)
    assert_session_ends(run.pid)
