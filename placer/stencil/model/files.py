"""Problem files (.in) and solution files (.out) of the contest, read and written in bulk.

Both are text; blank lines and lines that begin with `#` are skipped anywhere.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from placer.base import FloatArray, InputError, LongArray
from placer.stencil.model.problem import Problem, Solution, lattice_shape

T = TypeVar("T")

_COMMENT = re.compile(rb"^[ \t]*#[^\n]*$", re.MULTILINE)
_HEADER_LINES = ("dimension", "volume shape", "fabric shape", "two weights")
MAX_SIZE = 2**31 - 1


def read_problem(path: Path) -> Problem:
    """Read a problem. Raises InputError that names the file and what is wrong with it."""
    return _read(path, parse_problem)


def read_solution(path: Path, dimension: int) -> Solution:
    """Read a solution. Raises InputError that names the file and what is wrong with it."""
    return _read(path, lambda text: parse_solution(text, dimension))


def _read(path: Path, parse: Callable[[bytes], T]) -> T:
    try:
        return parse(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def parse_problem(text: bytes) -> Problem:
    """Return the problem in the text of a file. Raises InputError."""
    rest = _without_comments(text)
    header: list[FloatArray] = []
    for name in _HEADER_LINES:
        line, _, rest = rest.lstrip().partition(b"\n")
        if not line.strip():
            raise InputError(f"the file ends before the {name}")
        header.append(_numbers(line, name))
    dimension = _sizes(header[0], "dimension", 1)[0]
    if dimension not in (2, 3):
        raise InputError(f"dimension is {dimension}; allowed: 2 or 3")
    volume = _sizes(header[1], "volume shape", dimension)
    width, height = _sizes(header[2], "fabric shape", 2)
    if len(header[3]) != 2 or not np.isfinite(header[3]).all():
        raise InputError(f"line of weights holds {header[3].tolist()}; it must hold 2 finite numbers")
    heat = _numbers(rest, "heat map").astype(np.float32)
    shape = lattice_shape(volume)
    if heat.size == np.prod(shape, dtype=object):
        heat = heat.reshape(shape)
    weights = (float(header[3][0]), float(header[3][1]))
    return Problem(volume, (width, height), heat, weights)


def problem_text(problem: Problem) -> bytes:
    """Return the text of a problem file."""
    sizes = [" ".join(map(str, sizes)) for sizes in (problem.volume, problem.fabric)]
    alpha, beta = problem.weights
    head = f"{problem.dimension}\n{sizes[0]}\n{sizes[1]}\n{alpha:g} {beta:g}\n"
    # Many values repeat: every distinct one is printed once.
    values, index = np.unique(problem.heat, return_inverse=True)
    texts = np.array([f"{value:.9g}" for value in values], dtype=object)
    return (head + "\n".join(texts[index.ravel()]) + "\n").encode()


def parse_solution(text: bytes, dimension: int) -> Solution:
    """Return the solution in the text of a file. Raises InputError."""
    text = _without_comments(text)
    head, colon, rest = text.partition(b"compute_map:")
    compute, second_colon, adapter = rest.partition(b"adapter_map:")
    if not colon or not second_colon:
        missing = "adapter_map:" if colon else "compute_map:"
        raise InputError(f"there is no line '{missing}'")
    line, _, body = head.lstrip().partition(b"\n")
    sampling = _sizes(_numbers(line, "inverse sampling step"), "inverse sampling step", 1)[0]
    rows = _rows(body, "prisms", 1 + 2 * dimension)
    prisms = np.ones((len(rows), 7), np.int64)
    prisms[:, 0] = rows[:, 0]
    prisms[:, 3] = 0
    prisms[:, 1 : 1 + dimension] = rows[:, 1 : 1 + dimension]
    prisms[:, 4 : 4 + dimension] = rows[:, 1 + dimension :]
    maps = ((compute, "compute_map"), (adapter, "adapter_map"))
    return Solution(dimension, sampling, prisms, *(_rows(*m, 2).astype(np.int32) for m in maps))


def solution_text(solution: Solution) -> bytes:
    """Return the text of a solution file."""
    d = solution.dimension
    prisms = _lines(solution.prisms[:, [0, *range(1, 1 + d), *range(4, 4 + d)]])
    compute, adapter = _lines(solution.compute_map), _lines(solution.adapter_map)
    text = f"{solution.sampling}\n{prisms}compute_map:\n{compute}adapter_map:\n{adapter}"
    return text.encode()


def _without_comments(text: bytes) -> bytes:
    return _COMMENT.sub(b"", text) if b"#" in text else text


def _lines(rows: NDArray[np.signedinteger]) -> str:
    line = " ".join(["%d"] * rows.shape[1]) + "\n"
    return (line * len(rows)) % tuple(rows.ravel().tolist())


def _numbers(text: bytes, name: str) -> FloatArray:
    """Return all numbers of a text. Raises InputError with the first word that is none."""
    if not text.strip():
        return np.zeros(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        try:
            return np.fromstring(text, sep=" ")
        except (DeprecationWarning, ValueError) as error:
            raise InputError(f"{name}: {_first_bad_word(text)!r} is no number") from error


def _first_bad_word(text: bytes) -> str:
    for word in text.split():
        try:
            float(word)
        except ValueError:
            text = word
            break
    return text.decode(errors="replace")[:40]


def _sizes(numbers: FloatArray, name: str, count: int) -> tuple[int, ...]:
    """Return the numbers as positive integers, `count` of them. Raises InputError."""
    if len(numbers) != count:
        raise InputError(f"{name} holds {len(numbers)} numbers; it must hold {count}")
    for number in numbers:
        if not 1 <= number <= MAX_SIZE or number != int(number):
            raise InputError(f"{name}: {number:g} is no positive integer")
    return tuple(int(number) for number in numbers)


def _rows(text: bytes, name: str, width: int) -> LongArray:
    """Return integers in rows. Raises InputError for others and for a last row that is not full."""
    numbers = _numbers(text, name)
    if len(numbers) % width:
        raise InputError(f"{name}: {len(numbers)} numbers do not make rows of {width}")
    if not (np.abs(numbers) <= MAX_SIZE).all() or (numbers % 1 != 0).any():
        raise InputError(f"{name}: every number must be an integer of 32 bits")
    return numbers.astype(np.int64).reshape(-1, width)
