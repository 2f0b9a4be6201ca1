"""Ways to execute a kernel within a rectangle at a target time: what adapters tell apart.

A kernel takes part in adapters with (h, w, c) of its first convolution towards its sources, and of
its last one towards its targets. A block therefore has two ends, each with labels of its own; a
`core` (h, w, rotation, largest c, channels reserved for the first end) ties them together. All
convolutions between take the largest c; every k is as small as time and memory allow.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from placer.kernels.graph import Kernel
from placer.kernels.layout import Execution
from placer.kernels.shapes import LongArray, conv_array, fewest_channels, ticks_per_pass

# columns of a label; EXTENT is the share of the end in the extent along x
H, W, C, PARITY, CORE, EXTENT, ROTATED, C_MOST = range(8)
NUM_COLUMNS = 8


@njit(cache=True)
def least_channels(
    conv: LongArray, h: int, w: int, c: int, ticks: int, limit: int, scale: int
) -> int:
    """Smallest k for the time and the memory limit, 0 if there is none."""
    passes = ticks // ticks_per_pass(conv, h, w, c, scale)
    if passes < 1:
        return 0
    k = max(-(-conv[4] // passes), fewest_channels(conv, h, w, c, limit))
    return int(k) if k <= conv[4] else 0


@njit(cache=True)
def _append(
    labels: LongArray, num: int, h: int, w: int, c: int, parity: int, core: int, extent: int,
    is_rotated: int, most: int,
) -> LongArray:  # fmt: skip
    if num == len(labels):
        grown = np.empty((2 * num, NUM_COLUMNS), np.int64)
        grown[:num] = labels
        labels = grown
    row = labels[num]
    row[0], row[1], row[2], row[3], row[4] = h, w, c, parity, core
    row[5], row[6], row[7] = extent, is_rotated, most
    return labels


@njit(cache=True)
def conv_labels(
    convs: LongArray, ticks: int, limit: int, scale: int, most_x: int, most_y: int
) -> LongArray:
    """Labels of a single convolution within most_x x most_y tiles: [num, NUM_COLUMNS]."""
    conv = convs[0]
    labels = np.empty((1024, NUM_COLUMNS), np.int64)
    num = 0
    side = max(most_x, most_y)
    for h in range(1, min(conv[0], side // 2) + 1):
        for w in range(1, min(conv[1], side // (2 * h)) + 1):
            for c in range(1, min(conv[3], side // (h * w) - 1) + 1):
                k = least_channels(conv, h, w, c, ticks, limit, scale)
                height = h * w * (c + 1)
                if k == 0:
                    continue
                if 3 * k <= most_x and height <= most_y:
                    labels = _append(labels, num, h, w, c, height % 2, num, 3 * k, 0, c)
                    num += 1
                if height <= most_x and 3 * k <= most_y:
                    labels = _append(labels, num, h, w, c, k % 2, num, height, 1, c)
                    num += 1
                    if 3 * k + 3 <= most_y and k < conv[4]:  # one more, for the parity
                        labels = _append(labels, num, h, w, c, 1 - k % 2, num, height, 1, c)
                        num += 1
    return labels[:num].copy()


@njit(cache=True)
def _channels_between(
    convs: LongArray, h: int, w: int, c: int, ticks: int, limit: int, scale: int
) -> int:
    """Least k of the convolutions between first and last together, 0 if one cannot be."""
    total = 0
    for i in range(1, len(convs) - 1):
        k = least_channels(convs[i], h, w, min(c, convs[i, 3]), ticks, limit, scale)
        if k == 0:
            return 0
        total += k
    return total


@njit(cache=True)
def block_labels(
    convs: LongArray, ticks: int, limit: int, scale: int, most_x: int, most_y: int
) -> tuple[LongArray, LongArray]:
    """Labels of the first and of the last end of a block, tied by CORE."""
    first, last = convs[0], convs[-1]
    heads, tails = np.empty((1024, NUM_COLUMNS), np.int64), np.empty((1024, NUM_COLUMNS), np.int64)
    num_heads, num_tails, core = 0, 0, 0
    side = max(most_x, most_y)
    most_c = int(np.max(convs[:, 3]))
    k_in, k_out = np.zeros(side + 1, np.int64), np.zeros(side + 1, np.int64)
    for h in range(1, min(first[0], side // 2) + 1):
        for w in range(1, min(first[1], side // (2 * h)) + 1):
            area = h * w
            most = min(most_c, side // area - 1)
            for c in range(1, most + 1):
                k_in[c] = least_channels(first, h, w, min(c, first[3]), ticks, limit, scale)
                k_out[c] = least_channels(last, h, w, min(c, last[3]), ticks, limit, scale)
            for is_rotated in range(2):
                along = most_x if is_rotated == 1 else most_y
                room = (most_y if is_rotated == 1 else most_x) // 3
                highest = min(most_c, along // area - 1)
                lowest = 1 if is_rotated == 1 else max(1, highest - area % 2)
                for c in range(lowest, highest + 1):
                    between = _channels_between(convs, h, w, c, ticks, limit, scale)
                    if between == 0 or k_in[c] == 0 or k_out[c] == 0:
                        continue
                    spare = room - between - k_in[c] - k_out[c]
                    if spare < 0:
                        continue
                    # Rotated, the ends share the room: give the spare channels to either end.
                    for share in range(3 if is_rotated == 1 and spare > 0 else 1):
                        if is_rotated == 1:
                            room_in = k_in[c] + (0, spare, spare // 2)[share]
                            room_out = room - between - room_in
                        else:
                            room_in, room_out = room, room
                        both = 2 if is_rotated == 1 and spare > 0 else 1
                        for flip in range(both):
                            parity = area * (c + 1) % 2
                            if is_rotated == 1:
                                parity = (between + k_in[c] + k_out[c] + flip) % 2
                            for own in range(1, min(c, first[3]) + 1):
                                k = k_in[own]
                                if k == 0 or k > room_in:
                                    continue
                                extent = area * (c + 1) if is_rotated == 1 else 3 * (k + between)
                                if extent > most_x:
                                    continue
                                heads = _append(
                                    heads, num_heads, h, w, own, parity, core, extent,
                                    is_rotated, c,
                                )  # fmt: skip
                                num_heads += 1
                            for own in range(1, min(c, last[3]) + 1):
                                k = k_out[own]
                                if k == 0 or k > room_out:
                                    continue
                                extent = 0 if is_rotated == 1 else 3 * k
                                if extent > most_x:
                                    continue
                                tails = _append(
                                    tails, num_tails, h, w, own, parity, core, extent,
                                    is_rotated, c,
                                )  # fmt: skip
                                num_tails += 1
                            core += 1
    return heads[:num_heads].copy(), tails[:num_tails].copy()


def kernel_labels(
    kernel: Kernel, ticks: int, limit: int, scale: int, most_x: int, most_y: int
) -> tuple[LongArray, ...]:
    """Labels of the ends of a kernel within a rectangle: one end for a conv, two for a block."""
    convs = conv_array(kernel)
    if len(convs) == 1:
        return (conv_labels(convs, ticks, limit, scale, most_x, most_y),)
    return block_labels(convs, ticks, limit, scale, most_x, most_y)


def execution_of(
    kernel: Kernel, ends: tuple[LongArray, ...], ticks: int, limit: int, scale: int, most_y: int
) -> tuple[Execution, int, int]:
    """Execution arguments and extents along x and y of the chosen labels of a kernel's ends."""
    convs = conv_array(kernel)
    head = ends[0]
    h, w, most = int(head[H]), int(head[W]), int(head[C_MOST])
    channels = [min(most, conv.channels_in) for conv in kernel.convs]
    channels[0], channels[-1] = int(head[C]), int(ends[-1][C])
    outs = [least_channels(convs[i], h, w, c, ticks, limit, scale) for i, c in enumerate(channels)]
    height = h * w * (max(channels) + 1)
    if not head[ROTATED]:
        return Execution(h, w, tuple(channels), tuple(outs)), 3 * sum(outs), height
    if sum(outs) % 2 != head[PARITY] and 3 * sum(outs) + 3 <= most_y:
        for i, conv in enumerate(kernel.convs):
            if outs[i] < conv.channels_out:
                outs[i] += 1
                break
    return Execution(h, w, tuple(channels), tuple(outs)), height, 3 * sum(outs)
