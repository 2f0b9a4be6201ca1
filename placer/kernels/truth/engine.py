"""The queue model of a mapped graph: kernels take and give samples in parts, over shared links.

docs/wafer_truth.md, "Simulation", says what is simulated and why the fabric's engine is not used.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from placer.base import FloatArray, LongArray
from placer.kernels.truth.grid import Routes


class Pipeline(NamedTuple):
    """Kernels and streams with their rates."""

    edges: LongArray  # [num_streams, 2] source, target
    incident_start: LongArray  # [num_kernels + 1] into `incident`
    incident: LongArray  # streams that begin or end at each kernel
    kernel_cycles: FloatArray  # [num_kernels] per sample
    kernel_latency: FloatArray  # [num_kernels] first input to first output
    stream_cycles: FloatArray  # [num_streams] per sample, over its own lanes
    stream_latency: FloatArray  # [num_streams]
    stream_samples: FloatArray  # [num_streams] held on the way and by the target, 1 or more
    part_wavelets: FloatArray  # [num_streams] of each part, per sample
    capacity: FloatArray  # [num_links] wavelets per cycle


@njit(cache=True)
def run_pipeline(pipeline: Pipeline, routes: Routes, chunks: int, samples: int) -> FloatArray:
    """Return [num_kernels, samples * chunks] when each kernel has finished each chunk.

    Events in the order of time: of all kernels that can start a chunk, the one that can first.
    """
    num_kernels, num_streams = len(pipeline.kernel_cycles), len(pipeline.edges)
    total = samples * chunks
    finish = np.full((num_kernels, total), np.inf)
    head = np.full((num_streams, total), np.inf)  # when a chunk begins to arrive, and ends to
    tail = np.full((num_streams, total), np.inf)
    count = np.zeros(num_kernels, np.int64)
    link_free, stream_free = np.zeros(len(pipeline.capacity)), np.zeros(num_streams)
    start = np.zeros(num_kernels)
    for first in range(num_kernels):
        start[first] = _earliest(pipeline, first, 0, chunks, finish, head)
    for _ in range(num_kernels * total):
        kernel = int(np.argmin(start))
        chunk, begin = count[kernel], start[kernel]
        end = begin + pipeline.kernel_cycles[kernel] / chunks
        streams = _streams_of(pipeline, kernel)
        for stream in streams:
            if pipeline.edges[stream, 1] == kernel:
                end = max(end, tail[stream, chunk])
        finish[kernel, chunk] = end
        for stream in streams:
            if pipeline.edges[stream, 0] == kernel:
                _send(
                    pipeline, routes, stream, chunks, begin, end, link_free, stream_free,
                    head[stream, chunk:], tail[stream, chunk:],
                )  # fmt: skip
        count[kernel] += 1
        start[kernel] = _earliest(pipeline, kernel, count[kernel], chunks, finish, head)
        for stream in streams:
            for other in pipeline.edges[stream]:
                if other != kernel:
                    start[other] = _earliest(pipeline, other, count[other], chunks, finish, head)
    return finish


@njit(cache=True)
def _streams_of(pipeline: Pipeline, kernel: int) -> LongArray:
    first, last = pipeline.incident_start[kernel], pipeline.incident_start[kernel + 1]
    return pipeline.incident[first:last]


@njit(cache=True)
def _earliest(pipeline: Pipeline, kernel: int, chunk: int, chunks: int, finish: FloatArray, head: FloatArray) -> float:
    """Return when a kernel can start its next chunk; inf: not before another kernel has gone on.

    The chunk before is finished, its inputs begin to arrive, and all streams have room.
    """
    if chunk == finish.shape[1]:
        return np.inf
    earliest = finish[kernel, chunk - 1] if chunk > 0 else 0.0
    for stream in _streams_of(pipeline, kernel):
        target = pipeline.edges[stream, 1]
        if target == kernel:
            earliest = max(earliest, head[stream, chunk])
        else:
            room = int(chunks * pipeline.stream_samples[stream])
            if chunk >= room:
                earliest = max(earliest, finish[target, chunk - room])
    return earliest


@njit(cache=True)
def _send(
    pipeline: Pipeline, routes: Routes, stream: int, chunks: int, begin: float, end: float,
    link_free: FloatArray, stream_free: FloatArray, head: FloatArray, tail: FloatArray,
) -> None:  # fmt: skip
    """Move a chunk that is made from `begin` to `end`; every link serves one chunk at a time."""
    ready = max(begin, stream_free[stream])
    stream_free[stream] = ready + pipeline.stream_cycles[stream] / chunks
    last_head, last_tail = ready, max(end, stream_free[stream])
    wavelets = pipeline.part_wavelets[stream] / chunks
    for part in range(routes.part_start[stream], routes.part_start[stream + 1]):
        here = ready
        for at in range(routes.link_start[part], routes.link_start[part + 1]):
            link = routes.links[at]
            here = max(here, link_free[link])
            link_free[link] = here + wavelets / pipeline.capacity[link]
            last_tail = max(last_tail, link_free[link])
        last_head = max(last_head, here)
    latency = pipeline.kernel_latency[pipeline.edges[stream, 0]] + pipeline.stream_latency[stream]
    head[0] = last_head + latency
    tail[0] = last_tail + latency
