"""A line or a bar that says how work gets on: alive in a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

# Seconds between two lines, where there is no terminal; inf: none.
PLAIN_SECONDS = float(os.environ.get("PLACER_PROGRESS_SECONDS", "10"))


class ShownProgress(Progress):
    """Columns of rich and the time that has passed; use as a context.

    Where stderr is no terminal, such as in a log file, every `PLAIN_SECONDS` a line says the same. Nothing
    is shown at all when it is `quiet`.
    """

    def __init__(self, *columns: ProgressColumn, quiet: bool = False) -> None:
        self._plain = Console(stderr=True, markup=False, emoji=False, soft_wrap=True)
        self._begin = self._told = time.monotonic()
        self._is_plain = not quiet and not self._plain.is_terminal
        super().__init__(
            *columns, TimeElapsedColumn(), console=self._plain, transient=True,
            disable=quiet or not self._plain.is_terminal,
        )  # fmt: skip

    def update(self, task_id: TaskID, **changes: Any) -> None:
        """Show what has changed; see rich."""
        super().update(task_id, **changes)
        now = time.monotonic()
        if self._is_plain and now - self._told >= PLAIN_SECONDS:
            self._told = now
            self._plain.print(f"{self.plain_text(self._tasks[task_id])} ({now - self._begin:.0f} s)")

    def plain_text(self, task: Task) -> str:
        """Return what a line says of a task."""
        share = "" if not task.total else f", {task.completed / task.total:.0%}"
        note = task.fields.get("note", "")
        return f"{task.description}{share}{': ' if note else ''}{note}"


class NotedBar(ShownProgress):
    """A name, a bar, and a note that changes."""

    def __init__(self, *, quiet: bool = False) -> None:
        name, note = "{task.description}", "{task.fields[note]}"
        super().__init__(TextColumn(name, markup=False), BarColumn(), TextColumn(note, markup=False), quiet=quiet)


class StatusLine(ShownProgress):
    """A name and a note that changes."""

    def __init__(self, name: str, note: str, *, quiet: bool = False) -> None:
        super().__init__(TextColumn("{task.description}: {task.fields[note]}", markup=False), quiet=quiet)
        self._task = self.add_task(name, total=None, note=note)

    def note(self, text: str) -> None:
        """Show another note."""
        self.update(self._task, note=text)


class _CountingBar(ShownProgress):
    """A name, a bar, and how many parts are done."""

    def __init__(self) -> None:
        super().__init__(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())

    def plain_text(self, task: Task) -> str:
        return f"{task.description}: {task.completed:.0f} of {task.total or 0:.0f}"


@contextmanager
def counting_bar(name: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar while work is done; what is given is told of (finished parts, all parts)."""
    with _CountingBar() as progress:
        bar = progress.add_task(name, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)
