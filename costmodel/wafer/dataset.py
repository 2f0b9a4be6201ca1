"""Datasets of labelled mappings: read and checked, encoded, and made known to learners."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.dataset import Index, Tables
from costmodel.encoding import NO_HARDWARE, NUM_STALLS, GraphSet, stored_graph_set
from costmodel.model import DataKind, Labelled, register_kind
from costmodel.wafer.encode import Encoder, unit_ops, unit_stages
from costmodel.wafer.features import WAFER_FEATURES
from costmodel.wafer.schema import WAFER_TABLES
from placer.base import FloatArray, InputError, LongArray, source_key
from placer.kernels.model import NUM_COLUMNS, KernelGraph, find_faults, layout_of, parse_kgraph
from placer.kernels.sizing import Problem
from placer.kernels.truth import TRUTH_VERSION, Resolution

# Columns of numbers, each with a limit that it is above and one that it does not exceed.
_LARGEST = np.finfo(np.float64).max
NUMBERS = {
    "throughput": (0, 1),
    "heuristic": (0, _LARGEST),
    "wire_length": (-1, _LARGEST),
    "adapters": (-1, _LARGEST),
    "slowest_kernel": (0, _LARGEST),
}


@dataclass(frozen=True, slots=True)
class WaferHardware:
    """What the labels depend on beside the graph: the truth model."""

    name: str = "wafer"
    version: int = TRUTH_VERSION
    cells: int = Resolution().cells
    chunks: int = Resolution().chunks
    samples: int = Resolution().samples
    colours: int = Resolution().colours


@dataclass(frozen=True, slots=True)
class LabelledMappings:
    """All mappings of one graph."""

    graph: KernelGraph
    tables: LongArray  # [num_decisions, num_kernels, NUM_COLUMNS]
    throughput: FloatArray  # [num_decisions]
    busy: NDArray[np.float32]  # [num_decisions, num_kernels] share of the time


@dataclass(frozen=True, eq=False)
class WaferDataset(Tables):
    """Mappings of kernel graphs to wafers; the phases of its index are engines."""

    @staticmethod
    def open(folder: str | Path) -> WaferDataset:
        """Open a dataset. Raises InputError when the folder holds none of this version."""
        return WaferDataset.read(folder, WAFER_TABLES)

    @cached_property
    def numbers(self) -> dict[str, FloatArray]:
        """Return `NUMBERS` of all mappings, [num_decisions] each, all within their limits."""
        table = self.decisions_file.read_columns(list(NUMBERS))
        numbers = {name: np.array(table[name].to_numpy(), np.float64) for name in NUMBERS}
        for name, (low, high) in NUMBERS.items():
            column = numbers[name]
            if not ((column > low) & (column <= high)).all():
                raise InputError(f"{self.decisions_file.label}: {name} must lie in ({low}, {high}]")
        return numbers

    @cached_property
    def index(self) -> Index:
        """Return small columns of all mappings. Raises InputError for illegal `numbers` too."""
        _ = self.numbers
        return super().index

    def mappings(self, netlist_id: int) -> LabelledMappings:
        """Return the mappings of a graph. Raises InputError for illegal values in the files."""
        row = self.netlists_file.read_group(netlist_id).to_pylist()[0]
        table = self.decisions_file.read_group(netlist_id)
        try:
            graph = parse_kgraph(row["kgraph"], f"graph {netlist_id}")
            num = len(graph.kernels)
            shape = (table.num_rows, num)
            flat = np.array(table["mapping"].combine_chunks().values.to_numpy(), np.int64)
            busy = np.array(table["kernel_busy"].combine_chunks().values.to_numpy(), np.float32)
            tables, busy = flat.reshape(*shape, NUM_COLUMNS), busy.reshape(shape)
            if not ((busy >= 0) & np.isfinite(busy)).all():
                raise InputError("kernel_busy must be finite, 0 or more")
            for mapping in tables:
                if faults := find_faults(graph, layout_of(mapping)):
                    raise InputError(f"illegal mapping: {faults[0]}")
        except (InputError, ValueError) as error:
            raise InputError(f"dataset {self.folder}: graph {netlist_id}: {error}") from error
        return LabelledMappings(graph, tables, np.array(table["throughput"].to_numpy()), busy)


def encode_mappings(dataset: WaferDataset, folder: Path) -> GraphSet:
    """Encode all mappings with their labels into files in `folder`; files that are there are used again."""
    parts = (part_of(dataset.mappings(i)) for i in range(dataset.num_netlists))
    return stored_graph_set(parts, WAFER_FEATURES.version, dataset.content_hash, source_key(Path(__file__)), folder)


def part_of(mappings: LabelledMappings) -> dict[str, NDArray[Any]]:
    """Return the columns of a `GraphSet`: every mapping has facts of its own."""
    encoder, graph = Encoder.of(Problem(mappings.graph)), mappings.graph
    num, num_units, num_flows = len(mappings.tables), len(graph.kernels), len(graph.edges)
    parts: dict[str, list[NDArray[Any]]] = {}
    for table in mappings.tables:
        for name, column in encoded_columns(encoder, table).items():
            parts.setdefault(name, []).append(column)
    edges = np.array(graph.edges, np.int32).reshape(-1, 2)
    stalls = np.zeros((num, num_units, NUM_STALLS), np.float32)
    stalls[:, :, 0] = 1 - mappings.busy
    return {name: np.concatenate(columns) for name, columns in parts.items()} | {
        "netlist_of": np.zeros(num, np.int64),
        "facts_of": np.arange(num),
        "log_throughput": np.log(mappings.throughput).astype(np.float32),
        "log_rules": np.zeros(num, np.float32),  # there is no estimate that nothing can exceed
        "unit_op": np.tile(unit_ops(graph), num),
        "unit_stage": np.tile(unit_stages(encoder.graph), num),
        "flow_source": np.tile(edges[:, 0], num),
        "end_flow": np.tile(np.arange(num_flows, dtype=np.int32), num),
        "end_unit": np.tile(edges[:, 1], num),
        "hardware": np.repeat(NO_HARDWARE, num, axis=0),
        **{name: np.full(num, num_flows) for name in ("flow_start", "end_start", "hops_start")},
        **{name: np.full(num, num_units) for name in ("unit_start", "placed_start")},
        "unit_switch": np.zeros(num * num_units, np.int32),  # of `guha` networks only
        "unit_stalls": stalls.reshape(-1, NUM_STALLS),
        "num_switches": np.ones(num, np.int32),
    }


def encoded_columns(encoder: Encoder, table: LongArray) -> dict[str, NDArray[Any]]:
    """Return what changes from mapping to mapping."""
    room = encoder.encode(table)
    visits, lanes, counts = room.routes
    num_visits, num_lanes = counts.tolist()
    none = np.full(num_lanes, -1, np.int32)
    return {
        "unit": room.unit.copy(),
        "flow": room.flow.copy(),
        "end_hops": room.end_hops.copy(),
        "visit_start": np.array([num_visits]),
        "visit_flow": visits[0, :num_visits].copy(),
        "visit_lane": visits[1, :num_visits].copy(),
        "visit_before": visits[2, :num_visits].copy(),
        "lane_start": np.array([num_lanes]),
        "lane_kind": lanes[0, :num_lanes].copy(),
        "lane_link": lanes[1, :num_lanes].copy(),
        "link_start": np.array([num_lanes]),
        "link_from": none,
        "link_to": none,
        "link_flows": np.zeros(num_lanes, np.int32),
        "link_hops": np.zeros(num_lanes, np.int32),
    }


def open_mappings(folder: Path, cache: Path) -> Labelled:
    """Open a dataset of mappings; its heuristic is bound / deltaT."""
    dataset, hardware = WaferDataset.open(folder), WaferHardware()
    if dataset.metadata.config.get("hardware") != json.loads(json.dumps(asdict(hardware))):
        raise InputError(f"dataset {folder}: labelled by another truth model; make it again")
    return Labelled.of(dataset, hardware, WAFER_FEATURES, lambda: encode_mappings(dataset, cache))


register_kind(DataKind(WAFER_FEATURES, WAFER_TABLES.netlists.file, open_mappings))
