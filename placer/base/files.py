"""Reading and writing files: clear errors, and never half a file after a crash or a full disk."""

from __future__ import annotations

import io
import json
import os
import re
import secrets
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from placer.base.errors import InputError


def read_text(path: Path) -> str:
    """Return the text of a file. Raises InputError when it cannot be read or is no text."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"cannot read {path}: it is no UTF-8 text ({error.reason})") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these keys and values. Raises ValueError for a key that comes twice."""
    entries = dict(pairs)
    if len(entries) < len(pairs):
        twice = next(key for number, (key, _) in enumerate(pairs) if key in dict(pairs[:number]))
        raise ValueError(f"key {twice!r:.60} comes twice in one object")
    return entries


def parse_object(text: str) -> dict[str, Any]:
    """Return the object in a JSON text. Raises InputError when there is none."""
    try:
        document = json.loads(text, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise InputError(f"is no complete JSON ({error})") from error
    if not isinstance(document, dict):
        raise InputError("holds no object")
    return document


def require_kind(document: Mapping[str, Any], kind: str, schema: int) -> None:
    """Raise InputError when a document tells of another kind of file or another schema."""
    for name, wanted in (("kind", kind), ("schema", schema)):
        if document.get(name) != wanted:
            raise InputError(f"{name} is {document.get(name)!r:.60}, needed {wanted!r}")


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


def is_file_name(output: Path) -> bool:
    """Say whether an `output`, which is a folder, names a file, as some commands had it: `data/layout.txt`."""
    return bool(re.fullmatch(r"\.[A-Za-z]\w{0,5}", output.suffix)) and not output.is_dir()


def output_file(output: Path, name: str) -> Path:
    """Return the file `name` in the folder `output`; one that names a file itself is still taken for that file."""
    return output if is_file_name(output) else output / name


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
            f"cannot write {path}: {error.strerror or error}; check that the folder exists, is writable and has room",
        ) from error


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """Give a file to write that takes the place of `path` at the end, complete and on the disk.

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


def read_archive(path: Path, advice: str) -> object:
    """Return what `torch.save` wrote; torch itself does not look at checksums.

    Raises InputError that ends with `advice` when the file is damaged or something else.
    """
    import torch  # slow, and most of this package does without

    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        with warnings.catch_warnings(), zipfile.ZipFile(io.BytesIO(content)) as archive:
            warnings.simplefilter("ignore")
            if archive.testzip() is not None:
                raise ValueError("a checksum is wrong")
            return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # foreign bytes can end in any error
        raise InputError(f"{path} is no file of tensors, or damaged; {advice}") from error
