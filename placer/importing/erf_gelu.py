"""Gelu as older ONNX files write it: x / 2 (1 + erf(x / sqrt 2)), in any order of the factors."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from placer.importing import layers
from placer.importing.assembler import Assembler, Constant, Value
from placer.importing.views import UnsupportedError
from placer.ops import OpKind


@dataclass(frozen=True, slots=True)
class Gate:
    """factor * x^power * (1 + erf(x / sqrt 2)), on the way to gelu; before that erf alone."""

    x: Value
    factor: float = 1.0
    power: int = 0
    is_erf: bool = False  # the 1 is not added yet

    @classmethod
    def of_erf(cls, a: Assembler, argument: Value) -> Gate:
        """erf of a tensor, which must be another one times 1 / sqrt 2."""
        x, factor = _unscaled(a, argument)
        if not math.isclose(factor, 1 / math.sqrt(2), rel_tol=1e-5):
            raise UnsupportedError("erf outside of gelu")
        return cls(x, is_erf=True)


def begin(gate: Gate, one: Any) -> Gate:
    """Add the 1."""
    if not gate.is_erf or not isinstance(one, Constant) or not (one.array == 1).all():
        raise UnsupportedError("erf outside of gelu")
    return replace(gate, is_erf=False)


def times(a: Assembler, gate: Gate, other: Any) -> Gate | Value:
    """Multiply by a number or by x; gelu, once all factors are there."""
    if isinstance(other, Constant) and other.array.size == 1:
        gate = replace(gate, factor=gate.factor * float(other.array.reshape(())))
    elif isinstance(other, Value):
        x, factor = _unscaled(a, other) if other != gate.x else (other, 1.0)
        if x != gate.x:
            raise UnsupportedError("erf outside of gelu")
        gate = replace(gate, factor=gate.factor * factor, power=gate.power + 1)
    else:
        raise UnsupportedError("erf outside of gelu")
    if gate.is_erf or gate.power > 1:
        raise UnsupportedError("erf outside of gelu")
    if gate.power == 1 and math.isclose(gate.factor, 0.5, rel_tol=1e-5):
        return layers.elementwise(a, OpKind.GELU, gate.x)
    return gate


def _unscaled(a: Assembler, value: Value) -> tuple[Value, float]:
    """What was scaled, and by how much."""
    op = a.ops.get(value.tensor)
    if op is None or op.kind != OpKind.SCALE:
        return value, 1.0
    return Value(op.inputs[0], value.view), op.attributes.factor
