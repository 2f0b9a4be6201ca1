"""Convolutions and pools compute what torch computes, and windows that make no sense are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.nn import functional as F  # noqa: N812

from placer.base import InputError
from placer.graph import Array, DataflowGraph, Op, OpAttributes, OpKind, Window, compute_values, window_of
from placer.graph.graph_file import from_json, to_json
from placer.graph.workloads import GraphBuilder
from tests.placer.graph.random_values import random_inputs, random_weights


def pairs(least: int, most: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(least, most), st.integers(least, most))


WINDOWS = st.builds(
    Window,
    image=pairs(1, 9),
    kernel=pairs(1, 4),
    stride=pairs(1, 3),
    padding=st.tuples(*[st.integers(0, 3)] * 4),
    dilation=pairs(1, 3),
).filter(lambda window: min(window.output) >= 1)


def as_image(x: Array, size: tuple[int, int]) -> torch.Tensor:
    """Channels first, as torch has them."""
    return torch.tensor(x.T.reshape(1, x.shape[1], *size).copy())


def as_matrix(image: torch.Tensor) -> Array:
    return np.asarray(image[0].flatten(1).T.numpy())


def padded(x: Array, window: Window, fill: float = 0.0) -> torch.Tensor:
    top, left, bottom, right = window.padding
    return F.pad(as_image(x, window.image), (left, right, top, bottom), value=fill)


def one_op(channels: int, window: Window, add: Callable[[GraphBuilder, str], str]) -> DataflowGraph:
    b = GraphBuilder()
    image = b.load((window.image[0] * window.image[1], channels), name="x")
    b.store(add(b, image), name="y")
    graph = b.build("image", "test")
    assert from_json(to_json(graph)) == graph
    return graph


@given(WINDOWS, st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=80, deadline=None)
def test_convolutions_agree_with_torch(window: Window, groups: int, inside: int, outside: int) -> None:
    graph = one_op(groups * inside, window, lambda b, x: b.convolution(x, groups * outside, window, groups, "c"))
    rng = np.random.default_rng(3)
    inputs, weights = random_inputs(graph, rng), random_weights(graph, rng)
    # [groups, kernel rows, kernel columns, channels in, channels out] -> channels out, in, rows, columns
    weight = torch.tensor(weights["c.weight"]).reshape(groups, *window.kernel, inside, outside)
    weight = weight.permute(0, 4, 3, 1, 2).reshape(groups * outside, inside, *window.kernel)
    image = padded(inputs["x"], window)
    expected = F.conv2d(image, weight, stride=window.stride, dilation=window.dilation, groups=groups)
    assert tuple(expected.shape[2:]) == window.output
    np.testing.assert_allclose(compute_values(graph, inputs, weights)["y"], as_matrix(expected), atol=1e-12)
    assert graph.total_macs == expected.numel() * inside * window.taps


@given(WINDOWS, st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_depthwise_convolutions_agree_with_torch(window: Window, channels: int) -> None:
    graph = one_op(channels, window, lambda b, x: b.depthwise(x, window, "d"))
    rng = np.random.default_rng(4)
    inputs, weights = random_inputs(graph, rng), random_weights(graph, rng)
    weight = torch.tensor(weights["d.weight"].T.reshape(channels, 1, *window.kernel).copy())
    image = padded(inputs["x"], window)
    expected = F.conv2d(image, weight, stride=window.stride, dilation=window.dilation, groups=channels)
    np.testing.assert_allclose(compute_values(graph, inputs, weights)["y"], as_matrix(expected), atol=1e-12)


@given(WINDOWS)
@settings(max_examples=60, deadline=None)
def test_max_pools_agree_with_torch(window: Window) -> None:
    assume(window.is_inside)
    graph = one_op(2, window, lambda b, x: b.max_pool(x, window))
    inputs = random_inputs(graph, np.random.default_rng(5))
    image = padded(inputs["x"], window, -np.inf)
    expected = F.max_pool2d(image, window.kernel, window.stride, dilation=window.dilation)
    values = compute_values(graph, inputs, {})["y"]
    assert np.isfinite(values).all()
    np.testing.assert_array_equal(values, as_matrix(expected))


@given(WINDOWS, st.booleans())
@settings(max_examples=60, deadline=None)
def test_average_pools_agree_with_torch(window: Window, count_padding: bool) -> None:
    window = window._replace(dilation=(1, 1), padding=(window.padding[:2] * 2))  # what torch can do
    assume(min(window.output) >= 1 and window.is_inside)
    assume(all(2 * edge <= kernel for edge, kernel in zip(window.padding, window.kernel, strict=False)))
    graph = one_op(2, window, lambda b, x: b.average_pool(x, window, count_padding))
    inputs = random_inputs(graph, np.random.default_rng(6))
    expected = F.avg_pool2d(
        as_image(inputs["x"], window.image), window.kernel, window.stride, window.padding[:2],
        count_include_pad=count_padding,
    )  # fmt: skip
    np.testing.assert_allclose(compute_values(graph, inputs, {})["y"], as_matrix(expected), atol=1e-12)


@given(WINDOWS)
@settings(max_examples=100, deadline=None)
def test_windows_inside_touch_the_image(window: Window) -> None:
    """The short rule says yes only where every window has a tap in the image."""
    for axis in (0, 1):
        starts = [number * window.stride[axis] - window.padding[axis] for number in range(window.output[axis])]
        taps = [[start + tap * window.dilation[axis] for tap in range(window.kernel[axis])] for start in starts]
        is_inside = all(any(0 <= tap < window.image[axis] for tap in window_taps) for window_taps in taps)
        assert is_inside or not window.is_inside


def test_a_pointwise_convolution_is_a_product_alone() -> None:
    graph = one_op(4, Window((3, 5), (1, 1)), lambda b, x: b.convolution(x, 6, Window((3, 5), (1, 1))))
    assert [op.kind for op in graph.ops] == ["load", "linear", "store"]


@pytest.mark.parametrize(
    ("window", "message"),
    [
        ({"image": (3,)}, r"image=\[3\]; needed are 2 numbers from 1"),
        ({"kernel": (0, 2)}, r"kernel=\[0, 2\]; needed are 2 numbers from 1"),
        ({"padding": (0, 0, -1, 0)}, r"padding=\[0, 0, -1, 0\]; needed are 4 numbers from 0"),
        ({"kernel": (5, 1)}, "does not fit into an image"),
        ({"image": (4, 4)}, r"\[4, 4\] pixels"),
        ({"groups": 3}, "multiple of groups=3"),
        ({"padding": (2, 0, 0, 0)}, "every window of a pool touches the image"),
    ],
)
def test_windows_that_do_not_fit_are_refused(window: dict[str, Any], message: str) -> None:
    b = GraphBuilder()
    kind = OpKind.PATCHES if "groups" in window else OpKind.MAX_POOL
    given_window = {"image": (3, 4), "kernel": (2, 2)} | window
    b.store(b.add_op(kind, b.load((12, 4)), name="bad", **given_window))
    with pytest.raises(InputError, match=message) as refused:
        b.build("bad", "test")
    assert "'bad'" in str(refused.value)


def test_other_ops_have_no_windows() -> None:
    with pytest.raises(InputError, match="relu has no windows; these have: average_pool"):
        window_of(Op("a", OpKind.RELU, ("x",)))
    with pytest.raises(InputError, match="needs the attribute 'kernel'"):
        Op("a", OpKind.PATCHES, ("x",), OpAttributes(image=(2, 2)))
    with pytest.raises(InputError, match="9 columns are no multiple of groups=2"):
        GraphBuilder().convolution("x", 9, Window((2, 2), (1, 1)), groups=2)
