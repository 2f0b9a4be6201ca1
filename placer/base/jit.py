"""How inner loops are compiled: `@hot_loop` for the loop, `@hot` for the functions that it calls,
`@inlined` for small functions that loops under plain `njit` call all the time.

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

# numba's stubs do not know these.
_NO_RUNTIME: dict[str, Any] = {"_nrt": False}
# Most of the time to compile a function of tuples of many arrays goes into its entrance for Python.
_NO_ENTRANCE: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def hot(function: F) -> F:
    """Compile inlined: a call would pass the seven fields of each array over the stack."""
    return cast(F, njit(cache=True, forceinline=True, **_NO_RUNTIME)(function))


def hot_loop(function: F) -> F:
    """Compile a loop that is called from Python."""
    return cast(F, njit(cache=True, **_NO_RUNTIME)(function))


def inlined(function: F) -> F:
    """Compile inlined, for compiled callers only."""
    return cast(F, njit(cache=True, forceinline=True, **_NO_RUNTIME, **_NO_ENTRANCE)(function))


def vectorised(function: F) -> F:
    """Compile inlined; sums may be taken in another order, so that several terms are added at once."""
    return cast(F, njit(cache=True, forceinline=True, fastmath={"reassoc"}, **_NO_RUNTIME)(function))


def internal(function: F) -> F:
    """Compile as a function of its own, for compiled callers only."""
    return cast(F, njit(cache=True, **_NO_RUNTIME, **_NO_ENTRANCE)(function))


def generic(function: F) -> F:
    """Compile inlined, for compiled callers that hand functions over; cached with its callers."""
    return cast(F, njit(forceinline=True, **_NO_RUNTIME, **_NO_ENTRANCE)(function))
