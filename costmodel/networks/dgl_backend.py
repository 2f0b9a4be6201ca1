"""The one place that imports DGL: `from costmodel.networks import dgl`, then `dgl().ops...`.

It is imported when a network is trained or asked batch by batch; a model in a search runs as compiled
code and does without, so that it starts in a second less.

DGL 1.1.3 is the release that works with the pinned torch. It needs `packaging` (a direct
dependency of this project): without it, DGL falls back to a module that setuptools has dropped.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import torch


@cache
def dgl() -> Any:
    """Return the module DGL."""
    # Unset, DGL prints a banner on stderr and writes its choice to a file in the home directory.
    os.environ.setdefault("DGLBACKEND", "pytorch")
    import dgl as module

    return module


def has_gpu() -> bool:
    """Tell whether both torch and DGL can use one; the pinned DGL is built for CPUs."""
    if not torch.cuda.is_available():
        return False
    try:
        dgl().graph(([0], [0])).to("cuda")
    except dgl().DGLError:
        return False
    return True
