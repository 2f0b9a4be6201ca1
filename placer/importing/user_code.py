"""Where in the user's code something happened."""

from __future__ import annotations

import traceback
from pathlib import Path

OWN_FOLDER = Path(__file__).parent


def is_of_user(file: str) -> bool:
    """Neither PyTorch nor this package."""
    import torch

    libraries = (str(Path(torch.__file__).parent), str(OWN_FOLDER), "<frozen importlib")
    return not file.startswith(libraries)


def place_of_error(error: BaseException) -> str:
    """The last line of the user's code that the error came through, or nothing."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if is_of_user(f.filename)]
    if not frames:
        return ""
    last = frames[-1]
    return f"; at {Path(last.filename).name}:{last.lineno}, {last.name}: {last.line}"
