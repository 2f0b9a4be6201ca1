"""Reading and writing files: clear errors, and never half a file after a crash or a full disk."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from placer.errors import InputError


def read_text(path: Path) -> str:
    """Text of a file. Raises InputError when it cannot be read or is no text."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"cannot read {path}: it is no UTF-8 text ({error.reason})") from error


def parse_object(text: str) -> dict[str, Any]:
    """The object in a JSON text. Raises InputError when there is none."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"is no complete JSON ({error})") from error
    if not isinstance(document, dict):
        raise InputError("holds no object")
    return document


def require_folder(folder: Path) -> None:
    """Raise InputError when results cannot go to `folder`; asked before work that takes long."""
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not nearest.is_dir():
        raise InputError(f"cannot make the folder {folder}: {nearest} is a file")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise InputError(f"cannot write to the folder {folder}: no permission for {nearest}")


def make_folder(folder: Path) -> None:
    """Create a folder for results. Raises InputError when that cannot be done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {folder}: {error.strerror or error}") from error


def write_atomic(path: str | Path, content: str | bytes) -> None:
    """Write a whole file or nothing; an old file stays as it was until then.

    Raises OSError that names the path when it cannot be written.
    """
    try:
        with new_file(Path(path)) as file:
            file.write(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise OSError(
            error.errno,
            f"cannot write {path}: {error.strerror or error}; "
            "check that the folder exists, is writable and has room",
        ) from error


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write that takes the place of `path` at the end, complete and on the disk.

    Until then it is a temporary file `.tmp-*` in the same folder.
    """
    temporary = path.parent / f".tmp-{secrets.token_hex(8)}"
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
