"""How the parts of compiled inference are compiled that only compiled code calls.

They take tuples of many arrays. Most of the time to compile such a function goes into its entrance
for Python, so these have none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: dict[str, Any] = {  # numba's stubs do not know them all; _nrt: see placer.hot
    "cache": True, "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
}  # fmt: skip


def inlined(function: F) -> F:
    """Becomes a part of the function that calls it."""
    return cast(F, njit(forceinline=True, **_OPTIONS)(function))


def internal(function: F) -> F:
    """Stays a function."""
    return cast(F, njit(**_OPTIONS)(function))
