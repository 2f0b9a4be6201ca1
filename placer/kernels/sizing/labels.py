"""Ways to execute a kernel within a rectangle at a target time: what adapters tell apart.

A kernel takes part in adapters with (h, w, c) of its first convolution towards its sources, and of
its last one towards its targets, where c may stand for min(c, k): that is OUT. A block therefore
has two ends, each with labels of its own; a `core` (h, w, rotation, largest c, channels reserved
for the first end) ties them together. All convolutions between take the largest c; every k is as
small as time and memory allow.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from placer.base import LongArray
from placer.kernels.model import Execution, Kernel, OutRule
from placer.kernels.sizing.problem import Target, conv_array, least_channels

# columns of a label; EXTENT is the share of the end in the extent along x
LABEL_H, LABEL_W, LABEL_C, LABEL_OUT, PARITY, CORE, EXTENT, LABEL_ROTATED, C_MOST = range(9)
NUM_LABEL_COLUMNS = 9
# columns of a core: h, w, rotation, largest c, k between the ends, k for each end, parity, extent
CORE_C, CORE_EXTENT, NUM_CORE_COLUMNS = 3, 8, 9
MAX_SPLITS = 6  # cores with the same h, w, c and rotation
MAX_LABELS = 30_000  # per end of a kernel, about; the widest are dropped


@njit(cache=True)
def _with(labels: LongArray, num: int, label: tuple[int, ...]) -> LongArray:
    """Return the labels with one more, in a larger array if they fill theirs."""
    if num == len(labels):
        labels = np.concatenate((labels, np.empty_like(labels)))
    labels[num] = label
    return labels


@njit(cache=True)
def _conv_labels(convs: LongArray, target: Target, most_x: int, most_y: int, hands_least: bool) -> LongArray:
    """Return the labels of a single convolution within most_x x most_y tiles."""
    conv = convs[0]
    labels, num = np.empty((1024, NUM_LABEL_COLUMNS), np.int64), 0
    side = max(most_x, most_y)
    for h in range(1, min(conv[0], side // 2) + 1):
        for w in range(1, min(conv[1], side // (2 * h)) + 1):
            for c in range(1, min(conv[3], side // (h * w) - 1) + 1):
                k = least_channels(conv, h, w, c, target)
                height = h * w * (c + 1)
                if k == 0:
                    continue
                out = min(c, k) if hands_least else c
                if 3 * k <= most_x and height <= most_y:
                    labels = _with(labels, num, (h, w, c, out, height % 2, num, 3 * k, 0, c))
                    num += 1
                if height <= most_x and 3 * k <= most_y:
                    labels = _with(labels, num, (h, w, c, out, k % 2, num, height, 1, c))
                    num += 1
                    if 3 * k + 3 <= most_y and k < conv[4]:  # one more, for the parity
                        out = min(c, k + 1) if hands_least else c
                        labels = _with(labels, num, (h, w, c, out, 1 - k % 2, num, height, 1, c))
                        num += 1
    return labels[:num].copy()


@njit(cache=True)
def _channels_between(convs: LongArray, h: int, w: int, c: int, target: Target) -> int:
    """Return the least k of the convolutions between first and last, 0 if one cannot be."""
    total = 0
    for i in range(1, len(convs) - 1):
        k = least_channels(convs[i], h, w, min(c, convs[i, 3]), target)
        if k == 0:
            return 0
        total += k
    return total


@njit(cache=True)
def _block_cores(convs: LongArray, target: Target, most_x: int, most_y: int) -> LongArray:
    """Return all cores of a block within most_x x most_y tiles: [num, NUM_CORE_COLUMNS]."""
    first, last = convs[0], convs[-1]
    cores, num = np.empty((1024, NUM_CORE_COLUMNS), np.int64), 0
    side, most_c = max(most_x, most_y), int(np.max(convs[:, 3]))
    for h in range(1, min(first[0], side // 2) + 1):
        for w in range(1, min(first[1], side // (2 * h)) + 1):
            area = h * w
            for is_rotated in range(2):
                along, across = (most_x, most_y) if is_rotated == 1 else (most_y, most_x)
                highest = min(most_c, along // area - 1)
                lowest = 1 if is_rotated == 1 else max(1, highest - area % 2)  # either parity
                for c in range(lowest, highest + 1):
                    k_in = least_channels(first, h, w, min(c, first[3]), target)
                    k_out = least_channels(last, h, w, min(c, last[3]), target)
                    between = _channels_between(convs, h, w, c, target)
                    least, room = k_in + between + k_out, across // 3
                    if min(k_in, k_out, between) == 0 or least > room:
                        continue
                    while num + MAX_SPLITS > len(cores):
                        cores = np.concatenate((cores, np.empty_like(cores)))
                    if is_rotated == 0:
                        row = (h, w, 0, c, between, room, room, area * (c + 1) % 2, 3 * least)
                        cores[num] = row
                        num += 1
                    else:
                        num = _split_room(cores, num, h, w, c, between, k_in, least, room)
    return cores[:num].copy()


@njit(cache=True)
def _split_room(
    cores: LongArray, num: int, h: int, w: int, c: int, between: int, k_in: int, least: int,
    room: int,
) -> int:  # fmt: skip
    """Share the room of a rotated block: spare channels go to either end, to both, to parity."""
    spare, extent = room - least, h * w * (c + 1)
    for share in range(3 if spare > 0 else 1):
        room_in = k_in + (0, spare, spare // 2)[share]
        for flip in range(2 if spare > 0 else 1):
            parity = (least + flip) % 2
            cores[num] = (h, w, 1, c, between, room_in, room - between - room_in, parity, extent)
            num += 1
    return num


@njit(cache=True)
def _end_labels(
    cores: LongArray, conv: LongArray, is_first: bool, target: Target, most_x: int, hands_least: bool
) -> LongArray:
    """Return labels of one end of a block; the extent between counts at the first end."""
    labels, num = np.empty((1024, NUM_LABEL_COLUMNS), np.int64), 0
    k_of = np.zeros(1, np.int64)
    last_h, last_w, known = 0, 0, 0
    for core in range(len(cores)):
        h, w, is_rotated, c, between, room_in, room_out, parity, extent = cores[core]
        most = min(c, conv[3])
        if h != last_h or w != last_w or most > known:
            k_of = np.zeros(most + 1, np.int64)
            for own in range(1, most + 1):
                k_of[own] = least_channels(conv, h, w, own, target)
            last_h, last_w, known = h, w, most
        for own in range(1, most + 1):
            k = k_of[own]
            if k == 0 or k > (room_in if is_first else room_out):
                continue
            if is_rotated == 1:
                wide = extent if is_first else 0
            else:
                wide = 3 * (k + between) if is_first else 3 * k
            if wide <= most_x:
                out = min(own, k) if hands_least else own
                labels = _with(labels, num, (h, w, own, out, parity, core, wide, is_rotated, c))
                num += 1
    return labels[:num].copy()


def kernel_labels(
    kernel: Kernel, target: Target, most_x: int, most_y: int, rule: OutRule = "c_n"
) -> tuple[LongArray, ...]:
    """Return the labels of the ends of a kernel within a rectangle.

    A convolution has one end; a block has a first and a last one, tied by CORE. `rule` says which
    channels are handed over.
    """
    hands_least = rule == "min(c,k)"
    convs = conv_array(kernel.convs)
    if len(convs) == 1:
        return (_distinct(_conv_labels(convs, target, most_x, most_y, hands_least)),)
    cores = _block_cores(convs, target, most_x, most_y)
    sizes = np.minimum(cores[:, CORE_C], max(convs[0, 3], convs[-1, 3]))
    if sizes.sum() > MAX_LABELS:  # the widest go
        narrow = np.argsort(cores[:, CORE_EXTENT], kind="stable")
        num = int(np.searchsorted(np.cumsum(sizes[narrow]), MAX_LABELS))
        cores = np.ascontiguousarray(cores[np.sort(narrow[: max(num, 1)])])
    heads = _end_labels(cores, convs[0], True, target, most_x, hands_least)
    return heads, _end_labels(cores, convs[-1], False, target, most_x, hands_least)


def _distinct(labels: LongArray) -> LongArray:
    """Return the narrowest of labels that adapters cannot tell apart."""
    if len(labels) == 0:
        return labels
    labels = labels[np.argsort(labels[:, EXTENT], kind="stable")]
    keys = labels[:, : PARITY + 1].T  # h, w, c, what is handed over, parity
    _, first = np.unique(np.ravel_multi_index(keys, keys.max(axis=1) + 1), return_index=True)
    return np.ascontiguousarray(labels[np.sort(first)][:MAX_LABELS])


def execution_of(
    kernel: Kernel, ends: tuple[LongArray, ...], target: Target, most_y: int
) -> tuple[Execution, int, int]:
    """Return arguments and extents along x and y of the chosen labels of a kernel's ends."""
    convs, head = conv_array(kernel.convs), ends[0]
    h, w, most = int(head[LABEL_H]), int(head[LABEL_W]), int(head[C_MOST])
    channels = [min(most, conv.channels_in) for conv in kernel.convs]
    channels[0], channels[-1] = int(head[LABEL_C]), int(ends[-1][LABEL_C])
    outs = [least_channels(convs[i], h, w, c, target) for i, c in enumerate(channels)]
    height = h * w * (max(channels) + 1)
    if not head[LABEL_ROTATED]:
        return Execution(h, w, tuple(channels), tuple(outs)), 3 * sum(outs), height
    if sum(outs) % 2 != head[PARITY] and 3 * sum(outs) + 3 <= most_y:
        for i, conv in enumerate(kernel.convs):
            if outs[i] < conv.channels_out:
                outs[i] += 1
                break
    return Execution(h, w, tuple(channels), tuple(outs)), height, 3 * sum(outs)
