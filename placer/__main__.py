"""What `python -m placer` prints: its commands."""

from __future__ import annotations

import sys

from placer.base import overview

if __name__ == "__main__":
    sys.stdout.write(overview("placer") + "\n")
