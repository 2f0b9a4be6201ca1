"""Tests of the project; the folders mirror its rooms."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
