"""All engines behind one interface: a search goes in, its best mapping comes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from placer.errors import InputError
from placer.kernels.auto import run_auto, run_strips
from placer.kernels.mapping import Mapping
from placer.kernels.rows import run_rows
from placer.kernels.search import Search
from placer.kernels.slicing import run_slicing
from placer.kernels.tbs import run_tbs

EngineName = Literal["auto", "rows", "strips", "slicing", "tbs"]

ENGINES: dict[EngineName, Callable[[Search], None]] = {
    "auto": run_auto,
    "rows": run_rows,
    "strips": run_strips,
    "slicing": run_slicing,
    "tbs": run_tbs,
}


def map_kernels(search: Search, engine: EngineName) -> Mapping:
    """The best mapping that an engine finds. Raises InputError when it finds none."""
    ENGINES[engine](search)
    if search.best is None:
        wafer = search.problem.graph.wafer
        raise InputError(
            f"engine {engine} found no layout on {wafer.width} x {wafer.height} tiles; "
            "every kernel fits alone, but not all together: use a larger grid or more wafers"
        )
    return search.best
