"""A line or a bar that says how a search gets on, in a terminal only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class TerminalProgress(Progress):
    """Columns of rich and the time that has passed; use as a context."""

    def __init__(self, *columns: ProgressColumn) -> None:
        console = Console(stderr=True, markup=False, emoji=False)
        super().__init__(
            *columns, TimeElapsedColumn(), console=console, transient=True,
            disable=not console.is_terminal,
        )  # fmt: skip


class NotedBar(TerminalProgress):
    """A name, a bar, and a note that changes."""

    def __init__(self) -> None:
        name, note = "{task.description}", "{task.fields[note]}"
        super().__init__(TextColumn(name, markup=False), BarColumn(), TextColumn(note, markup=False))


class StatusLine(TerminalProgress):
    """A name and a note that changes."""

    def __init__(self, name: str, note: str) -> None:
        super().__init__(TextColumn("{task.description}: {task.fields[note]}", markup=False))
        self._task = self.add_task(name, note=note)

    def note(self, text: str) -> None:
        """Show another note."""
        self.update(self._task, note=text)


@contextmanager
def counting_bar(console: Console, name: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar while work is done; what is given is told of (finished parts, all parts)."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        bar = progress.add_task(name, total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)
