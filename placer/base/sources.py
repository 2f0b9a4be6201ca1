"""Which code made a result: the one way to tell whether what is stored is stale.

The key of a module is a hash of its code and of all code of this project that it imports, directly
or not. A name that a room offers leads to the module that defines it, not to the whole room.
Comments and docstrings do not count: who mends a sentence makes nothing again.
"""

from __future__ import annotations

import ast
import hashlib
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("placer", "costmodel")


@cache
def source_key(*sources: Path) -> str:
    """Return the hash of the code of all `sources_of` these sources."""
    digest = hashlib.sha256()
    for path in sorted(set[Path]().union(*map(sources_of, sources))):
        digest.update(path.relative_to(ROOT).as_posix().encode())
        digest.update(_meaning(path))
    return digest.hexdigest()[:16]


def sources_of(source: Path) -> set[Path]:
    """Return a source and all sources of this project that it imports, directly or not."""
    found, new = {source}, [source]
    while new:
        imported = _imports(new.pop()) - found
        found |= imported
        new += imported
    return found


def git_revision() -> str:
    """Return the commit that is checked out, with "-dirty" after it when files were changed since.

    It is "unknown" when this is no clone, or there is no git.
    """
    command = ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


@cache
def _meaning(source: Path) -> bytes:
    """Return the code of a source as its syntax tree, without docstrings and places."""
    tree = ast.parse(source.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                del node.body[0]
    return ast.dump(tree).encode()


@cache
def _imports(source: Path) -> frozenset[Path]:
    """Return the sources of this project that one imports, anywhere in its text."""
    found = set[Path]()
    for node in ast.walk(_tree(source)):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                found |= _defining(node.module, alias.name)
        elif isinstance(node, ast.Import):
            found.update(path for alias in node.names if (path := _file(alias.name)) is not None)
    return frozenset(found)


def _defining(module: str, name: str) -> set[Path]:
    """Return the source that gives `module` the name: not the whole room that offers it."""
    source = _file(f"{module}.{name}") or _file(module)
    if source is None:
        return set()
    if source.name == "__init__.py" and source == _file(module):
        for node in _tree(source).body:
            if isinstance(node, ast.ImportFrom) and node.module and name in _names(node):
                return _defining(node.module, name)
    return {source}


def _names(node: ast.ImportFrom) -> list[str]:
    return [alias.asname or alias.name for alias in node.names]


def _file(name: str) -> Path | None:
    """Return the file of a module of this project, or of the __init__ of a package."""
    parts = name.split(".")
    if parts[0] not in PACKAGES or len(parts) < 2:
        return None
    stem = ROOT.joinpath(*parts)
    files = (stem.with_suffix(".py"), stem / "__init__.py")
    return next((path for path in files if path.is_file()), None)


@cache
def _tree(source: Path) -> ast.Module:
    return ast.parse(source.read_bytes())
