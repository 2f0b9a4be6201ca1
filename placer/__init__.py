"""Placement and routing on dataflow hardware: fabric, workloads, simulator, placers."""

import os
import sys
from types import TracebackType

# Where numba caches compiled code; it reads this when it is imported (base/compile_cache.py).
os.environ.setdefault(
    "NUMBA_CACHE_LOCATOR_CLASSES",
    "UserProvidedCacheLocator,placer.base.compile_cache.SourceKeyedLocator,InTreeCacheLocator,UserWideCacheLocator",
)


def _explain(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Say in one line why a command ended while it was imported, where a user can act on it."""
    if isinstance(error, KeyboardInterrupt):
        sys.stderr.write("interrupted\n")
        return
    if isinstance(error, ModuleNotFoundError):
        from placer.base.extras import explain_missing

        explained = explain_missing(error)
        if explained is not None:
            sys.stderr.write(f"error: {explained}\n")
            sys.exit(2)
    sys.__excepthook__(kind, error, trace)


if sys.argv[:1] == ["-m"]:  # the imports of a command take seconds, and some need an extra
    sys.excepthook = _explain

from placer.base.moved import keep_old_names  # noqa: E402 - after the lines above, which it needs

keep_old_names()
