"""The one place that imports DGL: `from costmodel.dgl_backend import dgl`.

DGL 1.1.3 is the release that works with the pinned torch. It needs `packaging` (a direct
dependency of this project): without it, DGL falls back to a module that setuptools has dropped.
"""

from __future__ import annotations

import os

# Unset, DGL prints a banner on stderr and writes its choice to a file in the home directory.
os.environ.setdefault("DGLBACKEND", "pytorch")

import dgl  # after the line above, which it reads

__all__ = ["dgl"]
