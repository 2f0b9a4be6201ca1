"""The two tables of a dataset of mappings of kernels to a wafer."""

from __future__ import annotations

import pyarrow as pa

from costmodel.dataset import TablePair, TableSchema, columns, list_of

KERNEL_GRAPHS = columns(
    netlist_id=pa.int32(),  # position in the dataset
    family=pa.string(),
    fingerprint=pa.string(),
    num_decisions=pa.int32(),
    seed=list_of(pa.int64()),  # of the random generator
    spec=pa.string(),  # JSON: how the graph was drawn
    kgraph=pa.string(),  # the graph in the contest's format
    failures=list_of(pa.string()),
)

MAPPINGS = columns(
    netlist_id=pa.int32(),
    decision=pa.int32(),
    phase=pa.string(),  # the engine
    search=pa.string(),  # JSON: its parameters
    mapping=list_of(pa.int32()),  # placer/kernels/model/layout.py, row by row
    cycles_per_sample=pa.float64(),
    throughput=pa.float64(),
    heuristic=pa.float64(),  # bound / deltaT of the contest
    wire_length=pa.float64(),  # tiles
    adapters=pa.int32(),
    slowest_kernel=pa.float64(),  # bound / cycles of the slowest kernel alone, by its formula
    kernel_busy=list_of(pa.float32()),  # share of the time, per kernel
)

WAFER_TABLES = TablePair(TableSchema("kernel_graphs.parquet", KERNEL_GRAPHS), TableSchema("mappings.parquet", MAPPINGS))
