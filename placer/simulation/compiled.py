"""How the functions of the engine are compiled."""

from __future__ import annotations

from numba import njit

engine_jit = njit(cache=True)

# For the small functions on the path of every vector over a link: left to itself, the compiler
# calls them, and a call passes the seven fields of an array over the stack.
inline_jit = njit(cache=True, forceinline=True)
