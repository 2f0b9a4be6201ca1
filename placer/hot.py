"""How inner loops are compiled: `@hot_loop` for the loop, `@hot` for the functions that it calls.

numba counts references to every array of a named tuple that a function takes or takes apart, with
an atomic instruction each; in a loop of small functions that is most of the time. Without its
runtime (`_nrt`) nothing is counted: such a function must not make arrays, and its caller must
hold those that it works on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])

_NO_RUNTIME: dict[str, Any] = {"_nrt": False}  # numba's stubs do not know it


def hot(function: F) -> F:
    """Inlined: a call would pass the seven fields of each array over the stack."""
    return cast(F, njit(cache=True, forceinline=True, **_NO_RUNTIME)(function))


def hot_loop(function: F) -> F:
    """Called from Python."""
    return cast(F, njit(cache=True, **_NO_RUNTIME)(function))
