"""What both ways of importing do: walk over the user's operators and list what cannot be had.

An operator that the graph has no op for is not refused at once: it may be a part of an idiom, such as
the root in a norm, that becomes one op as a whole (`idioms`). What is left at the end is listed. To see
what is wrong behind such an operator too, the network is walked again with a tensor of the same shape in
its place, until nothing new comes up (`complete`).
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from placer.base import InputError
from placer.graph import Shape
from placer.graph.importing.assembler import Assembler
from placer.graph.importing.idioms import Function, recognise, recognise_gelu, recognise_rotary
from placer.graph.importing.views import OrderError, UnsupportedError, Value

log = logging.getLogger(__name__)

Problem = str | InputError
W = TypeVar("W", bound="Walk")
Find = Callable[[Assembler, Value, Function], Value | None]

MAX_LISTED = 200  # different lines about what is not supported
MAX_COMPUTED = 2**25  # numbers of a result that is computed to recognise an idiom
MAX_INSIDE = 40  # operators of one idiom
MAX_WALKS = 20  # to find operators behind others that are not supported
MAX_CUTS = 6  # tensors of which an idiom may be a function, tried from the nearest on

# Idioms of known operators only: what they end with, and what comes a few operators before.
_ENDS: list[tuple[tuple[str, ...], tuple[str, ...], Find]] = [
    (("aten.add", "Add", "aten.sub", "Sub"), ("aten.cat", "Concat"), recognise_rotary),
    (("aten.mul", "Mul", "aten.div", "Div"), ("aten.tanh", "Tanh"), recognise_gelu),
]
_HEAVY = ("linear", "matmul", "mm", "conv", "attention", "embedding", "gemm", "einsum")  # in no idiom


@dataclass(eq=False, slots=True)
class Node:
    """One operator of the user's network whose result depends on the input."""

    number: int  # in the order of the program
    kind: str
    place: Callable[[], str]  # in the user's code
    inputs: tuple[Node, ...]  # those that depend on the input
    compute: Callable[[Mapping[Node, Any]], Any]  # the result, from the results of the inputs
    numbers: tuple[float, ...] = ()  # constants that it takes
    value: Any = None  # Value, or a tuple of them; None if there is none in the graph
    problem: Problem | None = field(default=None)  # why there is none

    @property
    def is_heavy(self) -> bool:
        return any(word in self.kind.lower() for word in _HEAVY)


class Walk(ABC):
    """One pass over the operators of a network.

    Collects all problems first, so that the user sees all of them at once.
    """

    malformed: tuple[type[Exception], ...] = (AttributeError, TypeError, ValueError)

    def __init__(self, input_shapes: Sequence[Shape], known: Mapping[int, Problem]) -> None:
        """Take the shapes of all inputs, and what is wrong with some nodes, by number: others stand in for them."""
        self.assembler = Assembler()
        self._known = known
        self._replaced: list[Node] = []
        self.inputs = [
            self._input(number, self.assembler.input(number, shape)) for number, shape in enumerate(input_shapes)
        ]
        self._input_shapes = input_shapes
        self.repeated = 0  # numbers in tensors that the network repeats, and the graph does not make
        self._lost: list[Node] = []  # outputs that are not supported
        self._problems: list[str] = []

    def _input(self, number: int, value: Value) -> Node:
        return Node(number - 2**31, "input", lambda: f"input {number}", (), lambda _: None, value=value)

    @abstractmethod
    def native(self, array: NDArray[Any]) -> Any:
        """Return an array as the operators of the network take it."""

    @abstractmethod
    def array(self, native: Any) -> NDArray[Any] | None:
        """Return what an operator made as an array; None if it is none of numbers."""

    @abstractmethod
    def visit_all(self) -> None:
        """Go over all operators in the order of the program, and store the outputs."""

    @abstractmethod
    def shapes_of(self, node: Node) -> list[Shape | None]:
        """Return the shape of each tensor that an operator makes; None if it is not known, or of no real numbers."""

    def settle(self, node: Node, handle: Callable[[], Any] | None) -> Node:
        """Give a node its value: what its handler makes, or the op of the idiom that ends with it."""
        if node.number in self._known:
            return self._replace(node)
        if handle is None:
            node.problem = "no such operation here"
        elif all(entry.value is not None for entry in node.inputs):
            try:
                node.value = handle()
            except InputError as error:
                node.problem = error
            except self.malformed as error:
                node.problem = f"in a form that is not known here ({type(error).__name__}: {error})"
        if node.value is None:
            node.value = self._first(node, recognise)
        for ends, parts, find in _ENDS:
            if node.kind in ends and isinstance(node.value, Value) and _follows(node, parts):
                node.value = self._first(node, find) or node.value
        if isinstance(node.value, Value) and node.value.is_repeated:
            self.repeated += math.prod(node.value.shape)
        return node

    def _replace(self, node: Node) -> Node:
        """Give a node that is not supported a tensor of its own as value, to see what comes behind it."""
        shapes = self.shapes_of(node)
        values = [None if shape is None else self.assembler.input(node.number, shape) for shape in shapes]
        node.value = values[0] if len(values) == 1 else tuple(values)
        node.problem = self._known[node.number]
        self._replaced.append(node)
        return node

    def _first(self, node: Node, find: Find) -> Value | None:
        """Return what an idiom makes of the nearest tensor of which it is a function."""
        tried = 0
        for leaf, inside in _cuts(node):
            if not isinstance(leaf.value, Value):
                continue
            numbers = tuple(number for entry in inside for number in entry.numbers)
            try:
                found = find(self.assembler, leaf.value, Function(self._function(inside, leaf), numbers))
            except UnsupportedError as error:
                log.debug("%s: %s", node.kind, error)
                found = None
            tried += 1
            if found is not None or tried == MAX_CUTS:
                return found
        return None

    def _function(self, inside: Sequence[Node], leaf: Node) -> Callable[[NDArray[Any]], NDArray[Any] | None]:
        """Return the last of some nodes as a function of a tensor that all of them depend on."""
        nodes = sorted(inside, key=lambda node: node.number)

        def function(x: NDArray[Any]) -> NDArray[Any] | None:
            results: dict[Node, Any] = {leaf: self.native(x)}
            try:
                numbers = 0
                with np.errstate(all="ignore"):
                    for node in nodes:
                        results[node] = node.compute(results)
                        numbers += math.prod(getattr(results[node], "shape", ()))
                        if numbers > 2 * MAX_COMPUTED:
                            return None
                return self.array(results[nodes[-1]])
            except Exception as error:  # whatever an operator raises that gets other numbers than usual
                log.debug("%s: %s", nodes[-1].kind, error)
                return None

        return function

    def output(self, result: Any, number: int, place: str) -> None:
        """Store an output of the network."""
        try:
            if not isinstance(result, Node):
                raise UnsupportedError("does not depend on the input")
            if not isinstance(result.value, Value):
                self._lost.append(result)
                return
            self.assembler.output(result.value, f"output{number}" if number else "output")
        except InputError as error:
            self._problems.append(f"output: {error}; at {place}")

    def failed(self) -> list[Node]:
        """Return all nodes that are not supported and that outputs need, in the order of the program."""
        found = [node for node in _unsupported(self._lost) if node.problem is not None]
        return sorted({*found, *self._replaced}, key=lambda node: node.number)

    def require_no_problems(self, what: str) -> None:
        """Raise InputError with the list of problems, unless it is empty."""
        nodes = self.failed()
        problems = [f"{node.kind}: {node.problem}; at {node.place()}" for node in nodes] + self._problems
        if not problems:
            return
        counts = Counter(problems)
        lines = [line if n == 1 else f"{line} ({n} times)" for line, n in list(counts.items())[:MAX_LISTED]]
        if len(counts) > MAX_LISTED:
            lines.append(f"... and {len(counts) - MAX_LISTED} more")
        hint, shape = "", self._input_shapes[0]
        if any(isinstance(node.problem, OrderError) for node in nodes) and len(shape) > 1 and shape[0] > 1:
            hint = (
                f"\nThe input has a batch of {shape[0]}; with attention or images, place one element: "
                f"input_shape={[1, *shape[1:]]}"
            )
        raise InputError(
            f"{what}: {len(problems)} operations are not supported (docs/import.md lists "
            "those that are):\n  " + "\n  ".join(lines) + hint
        )


def complete(walk_with: Callable[[Mapping[int, Problem]], W], what: str) -> W:
    """Return a walk over all of a network. Raises InputError with all problems, also those behind others."""
    known: dict[int, Problem] = {}
    for _ in range(MAX_WALKS):
        walk = walk_with(known)
        walk.visit_all()
        found = {node.number: node.problem for node in walk.failed() if node.problem is not None}
        if found.keys() <= known.keys():
            break
        known |= found
    walk.require_no_problems(what)
    return walk


def _unsupported(outputs: Iterable[Node]) -> list[Node]:
    """Return all nodes without a value that outputs need, in the order of the program."""
    found: set[Node] = set()
    waiting = list(outputs)
    while waiting:
        node = waiting.pop()
        if node.value is None and node not in found:
            found.add(node)
            waiting.extend(node.inputs)
    return sorted(found, key=lambda node: node.number)


def _cuts(root: Node) -> Iterable[tuple[Node, list[Node]]]:
    """Go back from a node; give each node on which all depends, and the nodes from it to the root."""
    inside, border = [root], set(root.inputs)
    while border and len(inside) < MAX_INSIDE and not inside[-1].is_heavy:
        if len(border) == 1:
            yield next(iter(border)), inside
        node = max(border, key=lambda entry: entry.number)
        border.remove(node)
        inside.append(node)
        border.update(node.inputs)


def _follows(node: Node, kinds: Sequence[str], depth: int = 4) -> bool:
    """Say whether an operator of some kinds is a few operators before."""
    return depth > 0 and any(entry.kind in kinds or _follows(entry, kinds, depth - 1) for entry in node.inputs)
