"""A line or a bar that says how a search gets on, in a terminal only."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn


class TerminalProgress:
    """Columns of rich and the time that has passed; use as a context."""

    def __init__(self, *columns: ProgressColumn) -> None:
        console = Console(stderr=True, markup=False, emoji=False)
        self._bar = Progress(
            *columns, TimeElapsedColumn(), console=console, transient=True,
            disable=not console.is_terminal,
        )  # fmt: skip

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()


class NotedBar(TerminalProgress):
    """A name, a bar, and a note that changes."""

    def __init__(self) -> None:
        name, note = "{task.description}", "{task.fields[note]}"
        super().__init__(
            TextColumn(name, markup=False), BarColumn(), TextColumn(note, markup=False)
        )


class StatusLine(TerminalProgress):
    """A name and a note that changes."""

    def __init__(self, name: str, note: str) -> None:
        super().__init__(TextColumn("{task.description}: {task.fields[note]}", markup=False))
        self._task = self._bar.add_task(name, note=note)

    def note(self, text: str) -> None:
        """Show another note."""
        self._bar.update(self._task, note=text)
