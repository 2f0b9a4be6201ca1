"""Where compiled functions are cached: one folder per module and state of what it is made from.

numba looks only at the file of a function to see whether its cached machine code is stale, not at
the functions that it calls from other files. Here the folder of a module is named after a hash of
its source and of all sources of this project that it imports, directly or not: stale code is
never used, and a change compiles only what depends on it again.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Self

from placer.base.sources import PACKAGES, ROOT, source_key


class SourceKeyedLocator:
    """Names of files and folders, as numba's caching wants to know them."""

    def __init__(self, function: Callable[..., Any], source: Path) -> None:
        module = ".".join(source.relative_to(ROOT).with_suffix("").parts)
        self._folder = _home() / f"{module}-{source_key(source)}"
        self._line = function.__code__.co_firstlineno
        self._py_file = str(source)  # numba names it in warnings

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> Self | None:
        """Return None for a function of others, which somebody else may cache."""
        source = Path(file)
        is_ours = any(source.is_relative_to(ROOT / package) for package in PACKAGES)
        return cls(function, source) if is_ours else None

    def ensure_cache_path(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return self._folder.name

    def get_disambiguator(self) -> str:
        """Return what tells functions of one name apart."""
        return str(self._line)


@cache
def _home() -> Path:
    """Return the parent of all folders."""
    package = ROOT / "placer"
    if os.access(package, os.W_OK):
        return package / "__pycache__/numba"
    return Path(tempfile.gettempdir()) / f"placer-{os.getuid()}"
