"""Where in the user's code something happened."""

from __future__ import annotations

import importlib
import traceback
from pathlib import Path


def is_of_user(file: str) -> bool:
    """Neither PyTorch, nor this package, nor what imports modules."""
    import torch

    files = (torch.__file__, importlib.__file__, __file__)
    folders = [str(Path(str(name)).parent) for name in files]
    return not file.startswith((*folders, "<frozen importlib"))


def place_of_error(error: BaseException) -> str:
    """The last line of the user's code that the error came through, or nothing."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if is_of_user(f.filename)]
    if not frames:
        return ""
    last = frames[-1]
    return f"; at {Path(last.filename).name}:{last.lineno}, {last.name}: {last.line}"
