"""Measurements that survive a cut: one file each, looked up by what it depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from placer.errors import InputError
from placer.files import make_folder, read_text, write_atomic

SCHEMA_VERSION = 1


def stored(
    folder: Path, origin: dict[str, Any], measure: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """What `measure` returned for `origin` in this run or an earlier one; JSON values only."""
    origin = {"schema": SCHEMA_VERSION, **origin}
    digest = hashlib.sha256(json.dumps(origin, sort_keys=True).encode()).hexdigest()[:20]
    path = folder / f"{digest}.json"
    try:
        document = json.loads(read_text(path))
        if document["origin"] == origin:
            result: dict[str, Any] = document["result"]
            return result
    except (InputError, ValueError, KeyError, TypeError):
        pass  # no whole result of this very measurement
    make_folder(folder)
    result = measure()
    write_atomic(path, json.dumps({"origin": origin, "result": result}, indent=1) + "\n")
    return result
