"""Where compiled functions are cached: one folder per state of the source code.

numba looks only at the file of a function to see whether its cached machine code is stale, not at
the functions that it calls from other files. Keyed by a hash of all sources that hold such
functions, a stale cache is never used.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path


def use_source_keyed_cache() -> None:
    """Point numba's cache at the folder of this source state, unless the user chose another."""
    if "NUMBA_CACHE_DIR" in os.environ:
        return
    package = Path(__file__).parent
    digest = hashlib.sha256()
    for folder in (package, package.parent / "costmodel/inference"):
        for source in sorted(folder.rglob("*.py")):
            digest.update(str(source.relative_to(folder)).encode())
            digest.update(source.read_bytes())
    home = package / "__pycache__"
    if not os.access(package, os.W_OK):
        home = Path(tempfile.gettempdir()) / f"placer-{os.getuid()}"
    os.environ["NUMBA_CACHE_DIR"] = str(home / f"numba-{digest.hexdigest()[:16]}")
