"""Files that `torch.save` wrote, read without running code and only when they are whole."""

from __future__ import annotations

import io
import warnings
import zipfile
from pathlib import Path

from placer.errors import InputError


def read_archive(path: Path, advice: str) -> object:
    """What `torch.save` wrote; torch itself does not look at checksums.

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
