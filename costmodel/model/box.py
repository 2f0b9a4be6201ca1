"""The model in the box: trained weights that come with the package (docs/model_card.md).

`costmodel/model/shipped/` holds the model file and `shipped.json`, which names its SHA-256: a file that was
changed or cut is refused. A model is put there by `python -m costmodel.ship`.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from placer.base import InputError, make_folder, parse_object, read_text, require_kind, write_atomic

SHIPPED = "shipped"  # how settings call the model in the box
FOLDER = Path(__file__).with_name("shipped")
KIND = "dataflow-costmodel shipped model"
SCHEMA_VERSION = 1
_INDEX, _MODEL = "shipped.json", "flow.pt"
_AGAIN = "install the package again, or name a model file"


def shipped_file(folder: Path = FOLDER) -> Path:
    """Return the model file in the box. Raises InputError when it is not the one that was put there."""
    index = folder / _INDEX
    try:
        document = parse_object(read_text(index))
        require_kind(document, KIND, SCHEMA_VERSION)
        path = folder / _MODEL
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except (InputError, OSError) as error:
        raise InputError(f"the model in the box cannot be read: {error}; {_AGAIN}") from error
    if document.get("sha256") != found:
        raise InputError(f"the model in the box ({path.name}) was changed: its SHA-256 is {found[:16]}…; {_AGAIN}")
    return path


def put_into_box(content: bytes, folder: Path = FOLDER) -> None:
    """Write a model file and its hash into the box; the hash last, so that a cut is noticed."""
    make_folder(folder)
    write_atomic(folder / _MODEL, content)
    document = {"kind": KIND, "schema": SCHEMA_VERSION, "sha256": hashlib.sha256(content).hexdigest()}
    write_atomic(folder / _INDEX, json.dumps(document, indent=1) + "\n")
