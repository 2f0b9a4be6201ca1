"""Independent work on local processes or a Ray cluster, and finished jobs kept as files."""

from placer.base.workers.attempt import TaskFailedError, WorkerCrashError
from placer.base.workers.jobs import Workers, digest_of, file_digest, run_jobs
from placer.base.workers.local import run_local
from placer.base.workers.tasks import Crew, ExecutorKind, open_crew, run_tasks
