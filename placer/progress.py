"""A line that says how a search gets on, in a terminal only."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn


class StatusLine:
    """A name, a note that changes, and the time that has passed; use as a context."""

    def __init__(self, name: str, note: str) -> None:
        console = Console(stderr=True, markup=False, emoji=False)
        text = TextColumn("{task.description}: {task.fields[note]}", markup=False)
        self._line = Progress(
            text, TimeElapsedColumn(), console=console, transient=True,
            disable=not console.is_terminal,
        )  # fmt: skip
        self._task = self._line.add_task(name, note=note)

    def __enter__(self) -> Self:
        self._line.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._line.stop()

    def note(self, text: str) -> None:
        """Show another note."""
        self._line.update(self._task, note=text)
