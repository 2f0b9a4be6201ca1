"""Settings for all tests."""

from __future__ import annotations

import os
import signal

import matplotlib
from hypothesis import HealthCheck, settings

matplotlib.use("Agg")  # no display needed
os.environ["PLACER_PROGRESS_SECONDS"] = "inf"  # how slow a machine is must not change what is printed

# Ray's workers wait behind everything else on a busy machine unless they are told not to.
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (as Ray spells it)

# Threads of torch that share cores with other tests wait for each other, many times as long as they work.
for library in ("OMP", "OPENBLAS"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

# Shells start background jobs with Ctrl-C ignored; commands that tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Compilation and a busy machine make single examples slow: time is no ground to fail.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Continuous integration must not fail by chance; developers explore new examples.
settings.register_profile("ci", parent=settings.get_profile("default"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")
