"""What programs compute, and where their operands come from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from placer.streaming.mappers import map_program
from placer.streaming.model import (
    PROGRAMS,
    Device,
    Instruction,
    MapOptions,
    Program,
    check,
    evaluate,
    meaning_of,
    require_same_values,
    softmax_row,
)
from placer.streaming.model.programs import (
    distance,
    fft,
    fft4,
    fir,
    inverse_fft,
    matrix_vector,
    multiply_add,
    sorting_network,
    vector_add,
)


def results(program: Program, **inputs: float) -> dict[str, float]:
    """By the first name that an instruction defines."""
    given = {name: np.asarray(value) for name, value in inputs.items()}
    found = evaluate(meaning_of(program), given)
    return {item.defines[0]: found[n].item() for n, item in enumerate(program.instructions)}


def chosen(program: Program, seed: int = 0) -> dict[str, float]:
    drawn = meaning_of(program).draw_inputs(np.random.default_rng(seed))
    return {name: float(value) for name, value in drawn.items()}


def in_order(inputs: dict[str, float], stem: str) -> list[float]:
    return [inputs[f"{stem}{k}"] for k in range(len(inputs))]


def test_values_of_small_programs() -> None:
    assert results(distance(), x=1, x0=0, y=3, y0=2, z=5, z0=4)["xyz"] == 3.0
    assert results(multiply_add(), x=2.0)["y"] == 1.5 * 2.0 - 0.25
    added = results(vector_add(), base_a=1, base_b=2, base_c=3, index=10)
    assert added["c"] == (1 + 10) + (2 + 10)


def test_filter_is_a_convolution() -> None:
    inputs = chosen(fir())
    newest_first = in_order(inputs, "x")
    coefficients = [1.0 / (1 + k) for k in range(6)]
    expected = np.convolve(newest_first[::-1], coefficients, mode="valid").item()
    assert results(fir(), **inputs)["y5"] == pytest.approx(expected)


def test_products_softmax_and_sorting() -> None:
    inputs = chosen(matrix_vector())
    matrix = [[1.0 + row - 0.5 * column for column in range(3)] for row in range(3)]
    found = results(matrix_vector(), **inputs)
    expected = np.array(matrix) @ in_order(inputs, "in")
    assert [found[f"y{row}2"] for row in range(3)] == pytest.approx(expected.tolist())
    inputs = chosen(softmax_row())
    powers = np.exp(in_order(inputs, "in"))
    found = results(softmax_row(), **inputs)
    assert [found[f"y{k}"] for k in range(4)] == pytest.approx((powers / powers.sum()).tolist())
    inputs = chosen(sorting_network())
    found = results(sorting_network(), **inputs)
    ranked = [found[name] for name in ("low2", "low4", "high4", "high3")]
    assert ranked == sorted(inputs.values())


def test_fourier_transforms() -> None:
    inputs = chosen(fft())
    u, v = (complex(inputs[f"in_{n}r"], inputs[f"in_{n}i"]) for n in "uv")
    shift = (1 + 1j) * (inputs["base"] + inputs["index"])
    for program, twiddle, scale in ((fft(), 0.8 - 0.6j, 1.0), (inverse_fft(), 0.8 + 0.6j, 0.5)):
        found = results(program, **inputs)
        for sign, name in ((1, "p"), (-1, "m")):
            expected = scale * (u + shift + sign * twiddle * (v + shift))
            got = complex(found[f"out_{name}r"], found[f"out_{name}i"])
            assert got == pytest.approx(expected)
    inputs = chosen(fft4())
    points = [complex(inputs[f"in_{p}r"], inputs[f"in_{p}i"]) for p in "abcd"]
    found = results(fft4(), **inputs)
    got = [complex(found[f"y{k}r"], found[f"y{k}i"]) for k in range(4)]
    assert got == pytest.approx(np.fft.fft(points).tolist())


@pytest.mark.parametrize("build", PROGRAMS, ids=lambda build: build.__name__)
def test_own_programs_can_be_computed(build: Any) -> None:
    program = build()
    assert len(meaning_of(program).operands) == len(program.instructions)


def _step(ops: str, *uses: str, defines: str = "", flow: int = 0) -> Instruction:
    return Instruction(tuple(ops.split()), uses, (defines,) if defines else (), flow)


def test_an_accumulator_has_the_value_of_the_thread_before() -> None:
    """total = total + x: 5, then 5 + 2, then 7 + 3."""
    program = Program("sum", (_step("add", "total", "x", defines="total"),), ())
    meaning = meaning_of(program)
    assert meaning.made_up == ["total", "x"]
    results = None
    totals = []
    for x in (1.0, 2.0, 3.0):
        results = evaluate(meaning, {"total": np.asarray(4.0), "x": np.asarray(x)}, results)
        totals.append(results[0].item())
    assert totals == [5.0, 7.0, 10.0]
    assert map_program(program, Device(), MapOptions("list", time_limit=0.1)).cycles == 3


def test_names_of_grandparents_and_of_other_flows() -> None:
    """d = c - a, where a is from two steps back; the second flow reads d and its own later e."""
    program = Program(
        "far",
        (
            _step("mov", "x", defines="a"),
            _step("mul", "a", "a", defines="b"),
            _step("sub", "b", "a", defines="d"),
            _step("add", "d", "e", defines="f", flow=1),
            _step("neg", "f", defines="e", flow=1),
        ),
        ((0, 1), (1, 2), (3, 4)),
    )
    assert results(program, x=3.0, e=1.0) == {"a": 3.0, "b": 9.0, "d": 6.0, "f": 7.0, "e": -7.0}
    verdict = check(program, Device(), [0, 1, 3, 2, 2], [0, 0, 0, 1, 0])
    assert verdict.is_legal
    meaning = meaning_of(program)
    require_same_values(meaning, Device(), [0, 1, 3, 2, 2], [0, 0, 0, 1, 0], verdict.start)
    assert meaning.made_up == ["e", "x"]


def test_of_several_writers_the_latest_one_before_counts() -> None:
    chain = tuple(_step(ops, "a", defines="a") for ops in ("mov", "neg", "abs"))
    program = Program("again", (*chain, _step("mov", "a", defines="b")), ((0, 1), (1, 2), (2, 3)))
    assert results(program, a=2.0) == {"a": 2.0, "b": 2.0}
    passing = Program("pass", (chain[0], chain[1], _step("mov", "z"), _step("mov", "a")),
                      ((0, 1), (1, 2), (2, 3)))  # fmt: skip
    assert evaluate(meaning_of(passing), {"a": np.asarray(2.0), "z": np.asarray(0.0)})[3] == -2.0


def test_memories_without_data_are_made_up() -> None:
    program = Program("m", (_step("add", "x", "t", defines="y"),), (), {"t": (0,)}, {"t": ()})
    meaning = meaning_of(program)
    assert meaning.made_up == ["t", "x"]
    drawn = meaning.draw_inputs(np.random.default_rng(0))
    assert evaluate(meaning, drawn)[0].shape == ()


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ((Instruction(("fork",), ("a",)),), "unknown op 'fork'"),
        ((Instruction(("add",), ("a",)),), "needs more operands"),
        ((Instruction(("mov",)),), "needs more operands"),
        ((Instruction(("mov", 2), ("a",)),), "no op takes the constant 2"),
        ((Instruction((2, "add"), ("a", "b")),), "no op takes the constant 2"),
        ((Instruction(("add", 2, 3), ("a",)),), "no op takes the constant 3"),
        ((_step("mov", "a", defines="b"), _step("mov", "b")), "no edges lead from 0 to 1"),
    ],
)
def test_meaningless_instructions_are_told_and_not_computed(items: tuple[Instruction, ...], message: str) -> None:
    meaning = meaning_of(Program("wrong", items, ()))
    (line,) = meaning.not_executed
    assert message in line
    node, drawn = len(items) - 1, meaning.draw_inputs(np.random.default_rng(0))
    read = [float(drawn[operand.name]) for operand in meaning.operands[node]]
    assert evaluate(meaning, drawn)[node] == pytest.approx(node + sum(read))


def test_messages_change_no_number() -> None:
    items = (
        Instruction(("mul", 2, "afMsgDest: loop_head"), ("a",), ("b",)),
        Instruction(("afLoopCtrl", "neg"), ("b",), ("c",)),
        Instruction(("afMsgDest: loop_exit",)),
        Instruction(("afMsgDest: loop_exit", "fork"), ("c",)),
    )
    meaning = meaning_of(Program("messages", items, ((0, 1), (1, 3))))
    assert meaning.not_executed == [
        "instruction 0: message 'afMsgDest: loop_head'",
        "instruction 1: message 'afLoopCtrl'",
        "instruction 2: message 'afMsgDest: loop_exit'",
        meaning.not_executed[3],
    ]
    assert meaning.not_executed[3].startswith("instruction 3: message 'afMsgDest: loop_exit'; unknown op 'fork'")
    assert evaluate(meaning, {"a": np.asarray(3.0)})[1] == -6.0


def test_vectors_of_different_lengths_are_told() -> None:
    program = Program(
        "lengths", (_step("mul", "s", "t"),), (), {"s": (0,), "t": (0,)}, {"s": (1.0, 2.0), "t": (1.0, 2.0, 3.0)}
    )
    assert "'mul' of 2 and of 3 numbers" in meaning_of(program).not_executed[0]
