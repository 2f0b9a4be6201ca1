"""Work that survives a cut: finished jobs are files, looked up by what their results depend on.

    results = run_jobs(jobs, compute, folder, decode=lambda values: Result(**values))

A job tells by `origin()` everything that its result depends on, besides the machine, as JSON
values: the kind of job and its schema, settings, seeds, hashes of files and of code. The file of a
job is named after a hash of its origin and holds the origin, the result and a hash of the result.
A file of another origin, a damaged one and one that `decode` refuses count as absent: such a job
is computed again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from placer.base import Count, InputError, Settings, make_folder, plain, read_text, require_folder, write_atomic
from placer.base.workers.tasks import Crew, ExecutorKind, open_crew, run_tasks


class Job(Protocol):
    """Something to be computed, which workers can be sent."""

    def origin(self) -> dict[str, Any]: ...


J = TypeVar("J", bound=Job)
R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers(Settings):
    """Where work is done; the settings of a command that spreads it inherit these."""

    executor: ExecutorKind = ExecutorKind.LOCAL  # processes of this machine, or a Ray cluster
    workers: Count | None = 1  # tasks that run at once; None: one per core
    ray_address: str | None = None  # of a cluster; None starts one for the run

    def run(self, function: Callable[[T], R], tasks: Sequence[T]) -> Iterator[tuple[int, R]]:
        """Yield (task index, result) of every task, as they finish; see `run_tasks`."""
        return run_tasks(function, tasks, kind=self.executor, workers=self._at_once, ray_address=self.ray_address)

    def crew(self, function: Callable[[Any], Any]) -> Crew:
        """Return workers for several rounds of tasks."""
        return open_crew(function, kind=self.executor, workers=self._at_once, ray_address=self.ray_address)

    @property
    def _at_once(self) -> int:
        return len(os.sched_getaffinity(0)) if self.workers is None else self.workers


ONE_WORKER = Workers()


def run_jobs(
    jobs: Sequence[J],
    compute: Callable[[J], R],
    folder: Path,
    *,
    decode: Callable[[dict[str, Any]], R],
    workers: Workers = ONE_WORKER,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    on_result: Callable[[J, R], None] = lambda job, result: None,
) -> list[R]:
    """Return the results of all jobs in their order; only those without a file are computed.

    `compute` runs in a worker and returns a dataclass or a dictionary of JSON values; `decode`
    makes it from the dictionary in a file. `on_progress` is told of (finished jobs, all jobs),
    `on_result` of each result that was computed now.

    Raises InputError for wrong input, also when a job cannot be done; what was finished is kept.
    """
    require_folder(folder)
    make_folder(folder)
    origins = [job.origin() for job in jobs]
    paths = [folder / f"{digest_of(origin)[:20]}.json" for origin in origins]
    found = [_read(path, origin, decode) for path, origin in zip(paths, origins, strict=True)]
    missing = [k for k, result in enumerate(found) if result is None]
    on_progress(len(jobs) - len(missing), len(jobs))
    results = workers.run(compute, [jobs[k] for k in missing])
    for done, (index, result) in enumerate(results, len(jobs) - len(missing) + 1):
        k = missing[index]
        _write(paths[k], origins[k], result)
        found[k] = result
        on_result(jobs[k], result)
        on_progress(done, len(jobs))
    return [result for result in found if result is not None]


def digest_of(values: Any) -> str:
    """Return a hash of JSON values, enumerations and paths, whatever the order of their keys."""
    text = json.dumps(values, sort_keys=True, default=plain)
    return hashlib.sha256(text.encode()).hexdigest()


def file_digest(path: Path) -> str:
    """Return the hash of a file's content. Raises InputError when it cannot be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error


def _write(path: Path, origin: dict[str, Any], result: Any) -> None:
    values = asdict(result) if is_dataclass(result) else result  # type: ignore[arg-type]
    values = json.loads(json.dumps(values, default=plain))  # as it will be read
    document = {"origin": origin, "result": values, "sha256": digest_of(values)}
    write_atomic(path, json.dumps(document, indent=1, default=plain) + "\n")


def _read(path: Path, origin: dict[str, Any], decode: Callable[[dict[str, Any]], R]) -> R | None:
    """Return the result of this very job, None when there is no whole one."""
    try:
        document = json.loads(read_text(path))
        values = document["result"]
        is_whole = document["sha256"] == digest_of(values)
        same = document["origin"] == json.loads(json.dumps(origin, default=plain))
        return decode(values) if is_whole and same else None
    except (InputError, ValueError, TypeError, KeyError, AttributeError):
        return None
