"""The course of published figures: what stood in the history at each commit that changed it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from placer.base import Table, read_figures

MOST_COMMITS = 20  # the newest ones


def course_page(history: Path) -> str:
    """Return the figures of a history, and their values at earlier commits, as Markdown."""
    figures, commits = read_figures(history), _commits(history)
    past = [_values(history, commit) for commit in commits]
    names = [f"`{commit[:7]}`" for commit in commits]
    rows = [
        (
            figure.name, f"{figure.value:.4f}", f"{figure.tolerance:.2g}", figure.better,
            *(f"{values[figure.name]:.4f}" if figure.name in values else "" for values in past),
        )
        for figure in figures
    ]  # fmt: skip
    commands = "".join(f"- `{command}`\n" for command in sorted({figure.command for figure in figures}))
    table = Table(("figure", "now", "tolerance", "better", *names), rows)
    return (
        "# The course of quality\n\nFigures that `make quality` and others measure again, with what they were at "
        "earlier commits, newest first. A figure that is worse by more than its tolerance makes `make quality` fail; "
        '`make quality ARGS="update=true"` writes new ones on purpose. This page is made from `history.json` '
        "and its history in git.\n\n"
        f"Commands:\n\n{commands}\n{table.markdown()}"
    )


def _commits(history: Path) -> list[str]:
    """Return the commits that changed the history, newest first; none outside of a clone."""
    command = ["git", "log", f"-{MOST_COMMITS}", "--format=%H", "--", history.name]
    try:
        done = subprocess.run(command, cwd=history.parent, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return done.stdout.split()


def _values(history: Path, commit: str) -> dict[str, float]:
    command = ["git", "show", f"{commit}:./{history.name}"]
    done = subprocess.run(command, cwd=history.parent, capture_output=True, text=True, check=False)
    if done.returncode != 0:  # it was removed by this commit
        return {}
    return {figure["name"]: float(figure["value"]) for figure in json.loads(done.stdout)["figures"]}
