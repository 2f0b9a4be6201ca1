"""What both ways of importing do: walk over the user's operators and list what cannot be had."""

from __future__ import annotations

from typing import Any

from placer.base import InputError
from placer.graph import Shape
from placer.graph.importing.assembler import Assembler
from placer.graph.importing.views import OrderError, UnsupportedError, Value

MAX_LISTED = 30


class Walk:
    """One pass over the operators of a network with one input.

    Collects all problems first, so that the user sees all of them at once.
    """

    def __init__(self, input_shape: Shape) -> None:
        self.assembler = Assembler()
        self.input = self.assembler.input(0, input_shape)
        self._input_shape = input_shape
        self._problems: list[str] = []
        self._is_order_problem = False

    def refuse(self, operator: str, place: str, reason: str | InputError = "no such operation here") -> None:
        """Note an operator, where the user calls it, and why it is not supported."""
        self._is_order_problem |= isinstance(reason, OrderError)
        self._problems.append(f"{operator}: {reason}; at {place}")

    def output(self, value: Any, number: int, place: str) -> None:
        """Store an output of the network; None depends on something that is not supported."""
        if value is None:
            return
        try:
            if not isinstance(value, Value):
                raise UnsupportedError("does not depend on the input")
            self.assembler.output(value, f"output{number}" if number else "output")
        except InputError as error:
            self.refuse("output", place, error)

    def require_no_problems(self, what: str) -> None:
        """Raise InputError with the list of problems, unless it is empty."""
        if not self._problems:
            return
        lines = self._problems[:MAX_LISTED]
        if len(self._problems) > MAX_LISTED:
            lines.append(f"... and {len(self._problems) - MAX_LISTED} more")
        hint, shape = "", self._input_shape
        if self._is_order_problem and len(shape) > 1 and shape[0] > 1:
            hint = (
                f"\nThe input has a batch of {shape[0]}; with attention, place one element: "
                f"input_shape={[1, *shape[1:]]}"
            )
        raise InputError(
            f"{what}: {len(self._problems)} operations are not supported (docs/import.md lists "
            "those that are):\n  " + "\n  ".join(lines) + hint
        )
