"""The judge: hand-checked performance and scores, and faults that it must see."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from placer.base import InputError
from placer.kernels.model import (
    Conv,
    Execution,
    Kernel,
    KernelLayout,
    Placed,
    Wafer,
    adapter_cost,
    find_faults,
    fully_connected,
    judge,
    kernel_performance,
)
from placer.kernels.model.check import conv_performance
from placer.kernels.model.graph import block_convs


def test_performance_of_a_convolution_by_hand() -> None:
    # ceil(14/3) ceil(14/4) ceil(8/3) ceil(10/4) 9/4 = 5 4 3 3 9/4 = 405
    # memory (8/3)(10/4) 9 + (16/4)(16/3)(10/4) = 60 + 160/3
    performance = conv_performance(Conv(14, 14, 3, 3, 8, 10, 2), 3, 4, 3, 4)
    assert (performance.height, performance.width) == (3 * 4 * 4, 12)
    assert performance.time == 405
    assert performance.memory == 60 + Fraction(160, 3)


def test_a_block_is_as_high_and_slow_as_its_worst_convolution() -> None:
    kernel = Kernel(1, "k1", "cblock", block_convs("cblock", 8, 8, 16), 16)
    execution = Execution(2, 2, (1, 2, 3, 4), (1, 1, 2, 3))
    performance = kernel_performance(kernel, execution)
    assert performance.height == 4 * 5
    assert performance.width == 3 * 7
    # third: 4 x 4 image: 2 2 ceil(4/3) ceil(16/2) = 64; first: 4 4 8 4 = 512
    assert performance.time == 512


def two_kernels() -> tuple[KernelLayout, Execution]:
    execution = Execution(1, 1, (2,), (4,))  # 3 high, 12 wide
    return (Placed(execution, 0, 0, False), Placed(execution, 12, 0, True)), execution


def test_score_by_hand() -> None:
    graph = fully_connected((8, 8, 8), Wafer(40, 40, 10**6, 2.0, 3.0, 5.0))
    layout, execution = two_kernels()
    other = replace(execution, channels_in=(4,))  # 5 high: rotated, 5 x 12 at (12, 0)
    layout = (layout[0], Placed(other, 12, 0, True))
    score = judge(graph, layout)
    # centres (6, 1.5) and (14.5, 6); time ceil(8/2) ceil(8/4) = 8
    assert score.slowest == 8
    assert score.wire_length == Fraction(17, 2) + Fraction(9, 2)
    assert score.adapters == 1
    assert score.total == 2 * 8 + 3 * 13 + 5
    assert score.total_without_adapters == 55
    assert score.utilisation == (36 + 60) / 1600


def test_channels_handed_over_by_either_rule() -> None:
    graph = fully_connected((8, 8, 8))
    first, second = Execution(1, 1, (4,), (2,)), Execution(1, 1, (4,), (4,))
    layout = (Placed(first, 0, 0, False), Placed(second, 0, 9, False))
    assert adapter_cost(graph, layout) == 0
    rules = {"conv": "min(c,k)", "dblock": "c_n", "cblock": "c_n"}
    assert adapter_cost(graph, layout, rules) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("x", "y", "is_rotated", "fault"),
    [
        (11, 0, False, "overlap"),
        (0, 2, True, "overlap"),
        (29, 0, False, "columns 29..41"),
        (0, 30, True, "rows 30..42"),
        (-1, 20, False, "columns"),
    ],
)
def test_places_that_are_illegal(x: int, y: int, is_rotated: bool, fault: str) -> None:
    graph = fully_connected((8, 8, 8), Wafer(40, 40, 10**6))
    layout, execution = two_kernels()
    assert find_faults(graph, layout) == []
    moved = (layout[0], Placed(execution, x, y, is_rotated))
    faults = find_faults(graph, moved)
    assert len(faults) == 1
    assert fault in faults[0]
    with pytest.raises(InputError, match="illegal layout"):
        judge(graph, moved)


def test_arguments_out_of_range_and_memory() -> None:
    graph = fully_connected((8, 8), Wafer(90, 90, 1))
    layout = (Placed(Execution(1, 2, (9,), (1,)), 0, 0, False),)
    text = "; ".join(find_faults(graph, layout))
    assert "w=2 is outside 1..1" in text
    assert "c1=9 is outside 1..8" in text
    assert find_faults(graph, ())
    small = (Placed(Execution(1, 1, (1,), (1,)), 0, 0, False),)
    assert "memory" in find_faults(graph, small)[0]


@pytest.mark.parametrize(
    ("execution", "x", "fault"),
    [
        (Execution(0, 1, (1,), (1,)), 0, "h=0 is outside"),
        (Execution(1, 0, (1,), (1,)), 0, "w=0 is outside"),
        (Execution(1, 1, (0,), (1,)), 0, "c1=0 is outside"),
        (Execution(1, 1, (1,), (0,)), 0, "k1=0 is outside"),
        (Execution(1, 1, (1.0,), (1,)), 0, "c1=1.0 is no whole number"),  # type: ignore[arg-type]
        (Execution(1, 1, (1,), (1,)), 0.5, "x=0.5 is no whole number"),
        (Execution(1, 1, (1,), (1,)), True, "x=True is no whole number"),
        (Execution(1, 1, (1, 1), (1,)), 0, "not given for each of 1 convolutions"),
    ],
)
def test_numbers_that_are_none_are_faults(execution: Execution, x: int, fault: str) -> None:
    graph = fully_connected((8, 8), Wafer(90, 90))
    faults = find_faults(graph, (Placed(execution, x, 0, False),))
    assert len(faults) == 1
    assert fault in faults[0]
