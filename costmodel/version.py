"""Which code made a result."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

_ROOT = Path(__file__).parent.parent
PACKAGES = (_ROOT / "costmodel", _ROOT / "placer")


def source_hash(*folders: Path) -> str:
    """Hash of all Python sources in `folders`."""
    digest = hashlib.sha256()
    for source in sorted(path for folder in folders for path in folder.rglob("*.py")):
        digest.update(source.name.encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def git_revision() -> str:
    """The commit that is checked out, with "-dirty" after it when files were changed since.

    "unknown" when this is no clone, or there is no git.
    """
    command = ["git", "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    try:
        done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()
