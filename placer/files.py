"""Writing files so that a crash or a full disk never leaves half of one."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_atomic(path: str | Path, content: str | bytes) -> None:
    """Write a whole file or nothing: a temporary file in the same folder takes its place.

    Raises OSError that names the path when it cannot be written; an old file stays as it was.
    """
    path = Path(path)
    data = content.encode() if isinstance(content, str) else content
    temporary = path.parent / f".tmp-{secrets.token_hex(8)}"
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(
            error.errno,
            f"cannot write {path}: {error.strerror or error}; "
            "check that the folder exists, is writable and has room",
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
