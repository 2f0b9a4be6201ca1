"""Names of modules that README and docs told of before there were rooms; they still work.

An old name gives what the rooms in its place offer, with a DeprecationWarning that says which room
that is. Files of settings that name a class by its old module can be read for the same reason.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED = {
    "costmodel.calibration": ("costmodel.base",),
    "costmodel.learned": ("costmodel.inference",),
    "placer.annealing.constraints": ("placer.decision",),
    "placer.annealing.problem": ("placer.annealing",),
    "placer.config": ("placer.fabric", "placer.base.config"),
    "placer.cost_choice": ("placer.cost",),
    "placer.graph_file": ("placer.graph",),
    "placer.html": ("placer.show.html",),
    "placer.html.page": ("placer.show.html",),
    "placer.importing": ("placer.graph.importing",),
    "placer.lowering": ("placer.netlist.lowering",),
    "placer.placement": ("placer.decision",),
    "placer.routing": ("placer.decision.routing",),
    "placer.workloads": ("placer.graph.workloads",),
}
RENAMED = {"Section": "Chapter", "Table": "PageTable", "Picture": "Image"}  # parts of pages


class _Finder(MetaPathFinder, Loader):
    """Finds a module by its old name, after everybody else has failed to."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        rooms = MOVED[module.__name__]

        def look_up(name: str) -> Any:
            new = RENAMED.get(name, name) if module.__name__.startswith("placer.html") else name
            for room in rooms:
                if not name.startswith("__") and hasattr(import_module(room), new):
                    message = f"{module.__name__}.{name} is now {new} of {room}"
                    warnings.warn(message, DeprecationWarning, stacklevel=2)
                    return getattr(import_module(room), new)
            hint = "; it is now Task and Strategy of placer.annealing" if name == "Problem" else ""
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}{hint}")

        vars(module)["__getattr__"] = look_up


def keep_old_names() -> None:
    """Have Python ask for old names when it finds no module."""
    sys.meta_path.append(_Finder())
