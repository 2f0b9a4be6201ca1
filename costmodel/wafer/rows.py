"""Samples as rows of the two tables of a dataset.

All that rows depend on is what this module imports, directly or not: its sources are hashed into
datasets (build.py).
"""

from __future__ import annotations

import pyarrow as pa

from costmodel.dataset import to_json
from costmodel.wafer.samples import GraphSamples
from costmodel.wafer.schema import KERNEL_GRAPHS, MAPPINGS
from placer.kernels.model import format_kgraph, judge, table_of


def rows_of(samples: GraphSamples) -> tuple[pa.Table, pa.Table]:
    """Return the row of the table of graphs, and the rows of the table of mappings."""
    graph = {
        "netlist_id": samples.netlist_id,
        "family": samples.spec["family"],
        "fingerprint": samples.fingerprint,
        "num_decisions": len(samples.found),
        "seed": list(samples.seed),
        "spec": to_json(samples.spec),
        "kgraph": format_kgraph(samples.graph),
        "failures": list(samples.failures),
    }
    mappings = []
    for number, (found, measured) in enumerate(zip(samples.found, samples.measured, strict=True)):
        score, bound = judge(samples.graph, found.layout), measured.bound_cycles
        mappings.append(
            {
                "netlist_id": samples.netlist_id,
                "decision": number,
                "phase": found.engine,
                "search": to_json(found.search),
                "mapping": table_of(found.layout).ravel().tolist(),
                "cycles_per_sample": measured.cycles_per_sample,
                "throughput": measured.throughput,
                "heuristic": bound / float(score.slowest),
                "wire_length": float(score.wire_length),
                "adapters": score.adapters,
                "slowest_kernel": bound / measured.kernel_cycles.max(),
                "kernel_busy": (measured.kernel_cycles / measured.cycles_per_sample).tolist(),
            }
        )
    return (pa.Table.from_pylist([graph], schema=KERNEL_GRAPHS), pa.Table.from_pylist(mappings, schema=MAPPINGS))
