"""Placement and routing on dataflow hardware: fabric, workloads, simulator, placers.

    import placer

    result = placer.place(network, inputs=(1, 128, 768), fabric="large", seconds=10)

What this package offers at its front door is imported when it is first used (docs/python.md).
"""

import os
import sys
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from placer.base import InputError
    from placer.cost import CostModel
    from placer.door import Compilation, NetworkResult, Placement, Simulation, compile, place, simulate
    from placer.fabric import Fabric, load_fabric

    LearnedCost: Any

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
        from placer.base.errors import explain_missing

        explained = explain_missing(error)
        if explained is not None:
            sys.stderr.write(f"error: {explained}\n")
            sys.exit(2)
    sys.__excepthook__(kind, error, trace)


if sys.argv[:1] == ["-m"]:  # the imports of a command take seconds, and some need an extra
    sys.excepthook = _explain

from placer.base.moved import keep_old_names  # noqa: E402 - after the lines above, which it needs

keep_old_names()

# Where the names of the front door live. The learned model is of another package, which this one knows by
# name only, as conf/cost/learned.yaml does.
_OFFERED = {
    "Compilation": "placer.door",
    "CostModel": "placer.cost",
    "Fabric": "placer.fabric",
    "InputError": "placer.base",
    "LearnedCost": "costmodel.inference",
    "NetworkResult": "placer.door",
    "Placement": "placer.door",
    "Simulation": "placer.door",
    "load_fabric": "placer.fabric",
}
_COMMANDS = ("compile", "place", "simulate")  # modules that can be called


def __getattr__(name: str) -> Any:
    """Return what the front door offers; imported now, so that `import placer` takes no time."""
    if name in _COMMANDS:
        return import_module(f"placer.{name}")
    if name in _OFFERED:
        return getattr(import_module(_OFFERED[name]), name)
    raise AttributeError(f"module 'placer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_OFFERED, *_COMMANDS})
