"""The list of what a network does that cannot be imported."""

from __future__ import annotations

from placer.errors import InputError
from placer.importing.views import OrderError
from placer.ops import Shape

MAX_LISTED = 30


class Problems:
    """Collects everything first, so that the user sees all of it at once."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._is_order_problem = False

    def add(
        self, operator: str, place: str, reason: str | InputError = "no such operation here"
    ) -> None:
        """An operator, where the user calls it, and why it is not supported."""
        self._is_order_problem |= isinstance(reason, OrderError)
        self._lines.append(f"{operator}: {reason}; at {place}")

    def require_none(self, what: str, input_shape: Shape) -> None:
        """Raise InputError with the list, unless it is empty."""
        if not self._lines:
            return
        lines = self._lines[:MAX_LISTED]
        if len(self._lines) > MAX_LISTED:
            lines.append(f"... and {len(self._lines) - MAX_LISTED} more")
        hint = ""
        if self._is_order_problem and len(input_shape) > 1 and input_shape[0] > 1:
            hint = (
                f"\nThe input has a batch of {input_shape[0]}; with attention, place one element: "
                f"input_shape={[1, *input_shape[1:]]}"
            )
        raise InputError(
            f"{what}: {len(self._lines)} operations are not supported (docs/import.md lists those "
            "that are):\n  " + "\n  ".join(lines) + hint
        )
