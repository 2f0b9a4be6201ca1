"""Where compiled functions are cached: one folder per module and state of what it is made from.

numba looks only at the file of a function to see whether its cached machine code is stale, not at
the functions that it calls from other files. Here the folder of a module is named after a hash of
its source and of all sources of this project that it imports, directly or not: stale code is
never used, and a change compiles only what depends on it again.
"""

from __future__ import annotations

import ast
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parent.parent
PACKAGES = ("placer", "costmodel")


def use_source_keyed_cache() -> None:
    """Make numba ask `SourceKeyedLocator`, unless the user names a folder (NUMBA_CACHE_DIR)."""
    ours = f"{__name__}.{SourceKeyedLocator.__name__}"
    order = f"UserProvidedCacheLocator,{ours},InTreeCacheLocator,UserWideCacheLocator"
    os.environ.setdefault("NUMBA_CACHE_LOCATOR_CLASSES", order)


class SourceKeyedLocator:
    """Names of files and folders, as numba's caching wants to know them."""

    def __init__(self, function: Callable[..., Any], source: Path) -> None:
        module = ".".join(source.relative_to(ROOT).with_suffix("").parts)
        self._folder = _home() / f"{module}-{source_key(source)}"
        self._line = function.__code__.co_firstlineno
        self._py_file = str(source)  # numba names it in warnings

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> Self | None:
        """None: not of this project, somebody else may cache it."""
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
        """Tells functions of one name apart."""
        return str(self._line)


def sources_of(source: Path) -> set[Path]:
    """A source and all sources of this project that it imports, directly or not."""
    found, new = {source}, [source]
    while new:
        imported = _imports(new.pop()) - found
        found |= imported
        new += imported
    return found


def source_key(source: Path) -> str:
    """Hash of all `sources_of` a source."""
    digest = hashlib.sha256()
    for path in sorted(sources_of(source)):
        digest.update(str(path.relative_to(ROOT)).encode())
        digest.update(_content(path))
    return digest.hexdigest()[:16]


@cache
def _content(source: Path) -> bytes:
    return source.read_bytes()


@cache
def _imports(source: Path) -> frozenset[Path]:
    """Sources of this project that one imports, anywhere in its text."""
    names = set[str]()
    for node in ast.walk(ast.parse(_content(source))):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
    return frozenset(path for name in names for path in _files(name))


def _files(name: str) -> Iterator[Path]:
    """The file of a module, none if it is not of this project."""
    parts = name.split(".")
    if parts[0] in PACKAGES and len(parts) > 1:
        stem = ROOT.joinpath(*parts)
        yield from (p for p in (stem.with_suffix(".py"), stem / "__init__.py") if p.is_file())


@cache
def _home() -> Path:
    """The parent of all folders."""
    package = ROOT / "placer"
    if os.access(package, os.W_OK):
        return package / "__pycache__/numba"
    return Path(tempfile.gettempdir()) / f"placer-{os.getuid()}"
