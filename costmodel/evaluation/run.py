"""Run the jobs of a plan that are not finished yet, by local processes or a Ray cluster."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from costmodel.evaluation.jobs import Job, Plan, Sources, file_stem, origin, selections
from costmodel.evaluation.methods import checked_prediction, fit
from costmodel.evaluation.store import Outcome, read_outcome, write_outcome
from placer.executor import ExecutorKind, run_tasks
from placer.files import make_folder, require_folder

JOBS_FOLDER = "jobs"

OnProgress = Callable[[int, int], None]  # (finished jobs, all jobs)


@dataclass(frozen=True, slots=True)
class Task:
    """A job as a worker gets it."""

    sources: Sources
    job: Job
    checkpoints: Path
    num_threads: int

    def __str__(self) -> str:
        return str(self.job)


@dataclass(frozen=True, slots=True)
class Finished:
    """A job and what it found."""

    job: Job
    outcome: Outcome


def run_plan(
    plan: Plan,
    folder: Path,
    *,
    executor: ExecutorKind,
    workers: int,
    ray_address: str | None = None,
    on_progress: OnProgress | None = None,
) -> list[Finished]:
    """All jobs of the plan, in its order; only those without files in `folder` are computed.

    Raises InputError for wrong input, also when a job cannot be done; what was finished is kept.
    """
    folder = folder / JOBS_FOLDER
    require_folder(folder)
    plan.sources.require_transfers()
    jobs, sources = plan.jobs(), plan.sources
    made_by = {job: origin(sources, job) for job in jobs}
    stems = {job: file_stem(job, made_by[job]) for job in jobs}
    outcomes = {job: read_outcome(folder, stems[job], made_by[job]) for job in jobs}
    missing = [job for job in jobs if outcomes[job] is None]
    report = on_progress or (lambda done, total: None)
    report(len(jobs) - len(missing), len(jobs))
    make_folder(folder)
    threads = max(1, len(os.sched_getaffinity(0)) // workers) if workers > 0 else 1
    tasks = [Task(sources, job, folder / stems[job], threads) for job in missing]
    results = run_tasks(compute, tasks, kind=executor, workers=workers, ray_address=ray_address)
    for done, (index, outcome) in enumerate(results, len(jobs) - len(missing) + 1):
        job = missing[index]
        write_outcome(folder, stems[job], made_by[job], outcome)
        shutil.rmtree(folder / stems[job], ignore_errors=True)
        outcomes[job] = outcome
        report(done, len(jobs))
    return [Finished(job, found) for job in jobs if (found := outcomes[job]) is not None]


def compute(task: Task) -> Outcome:
    """Runs in a worker."""
    job = task.job
    train, test = selections(task.sources, job.split, job.fold)
    start = time.perf_counter()
    predictor = fit(
        job.method.config,
        train,
        job.seed,
        checkpoints=task.checkpoints,
        num_threads=task.num_threads,
    )
    fitted = time.perf_counter()
    prediction = checked_prediction(predictor, test)
    seconds = fitted - start, time.perf_counter() - fitted
    return Outcome(prediction, *(round(value, 3) for value in seconds))
