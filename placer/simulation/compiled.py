"""How the functions of the engine are compiled."""

from __future__ import annotations

from numba import njit

# The engine allocates nothing, so it needs no reference counts; with them, every call that is not
# inlined counts the array of cells up and down, a sixth of the time of a simulation.
engine_jit = njit(cache=True, _nrt=False)

# For the small functions on the path of every vector over a link: left to itself, the compiler
# calls them, and a call passes the seven fields of an array over the stack.
inline_jit = njit(cache=True, _nrt=False, forceinline=True)
