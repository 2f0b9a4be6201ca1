"""From the tree to what is placed: tiles and empty prisms, adapters, and the wires between them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placer.hot import hot_loop
from placer.stencil.problem import EMPTY_LEVEL, TILE_POINTS, IntArray, LongArray
from placer.stencil.pyramid import FloatArray, Pyramid
from placer.stencil.tree import LEAF, SPLIT, StatusArray, Tree, block_at, quarter, step

MAX_LENGTH, MAX_VOLUME = 2**30, 2**62  # in sampling units


@dataclass(frozen=True, slots=True, eq=False)
class Netlist:
    """Nodes to place (tiles in the order of their ids, then adapters) and their connections."""

    dimension: int
    sampling: int
    prisms: LongArray  # [prisms, 7], as in a solution
    num_tiles: int
    position: FloatArray  # [nodes, 3]: centre of the tile or of the adapter's face, in cells
    level: NDArray[np.int8]  # [nodes]; of an adapter: the level of its coarse tile
    wires: IntArray  # [wires, 2]: nodes

    @property
    def num_nodes(self) -> int:
        return len(self.position)


def netlist_of(pyramid: Pyramid, tree: Tree) -> Netlist:
    """Tiles, adapters and wires of a tree, with all fillers that a legal solution needs."""
    is_tile, _ = find_tiles(tree)
    tile_id = np.full(len(tree.status), -1, np.int32)
    prisms = _prisms(pyramid, tree, is_tile, tile_id)
    num_tiles = int(is_tile.sum())
    sizes = np.zeros(2, np.int64)
    nothing = np.zeros((0, 3)), np.zeros(0, np.int8), np.zeros((0, 2), np.int32)
    connect(tree, tile_id, num_tiles, *nothing, sizes)
    num_nodes, num_wires = num_tiles + int(sizes[0]), int(sizes[1])
    position, level = np.zeros((num_nodes, 3)), np.zeros(num_nodes, np.int8)
    wires = np.zeros((num_wires, 2), np.int32)
    connect(tree, tile_id, num_tiles, position, level, wires, sizes)
    sampling, prisms = _lifted(pyramid, needed_scale(tree, is_tile), prisms)
    return Netlist(tree.dimension, sampling, prisms, num_tiles, position, level, wires)


def find_tiles(tree: Tree) -> tuple[StatusArray, int]:
    """Which blocks are tiles, and how many adapters they need.

    Tiles are leaves with heat, and fillers until no face is matched in part.
    """
    is_tile: StatusArray = ((tree.status == LEAF) & (tree.high > 0)).astype(np.int8)
    while True:
        added, adapters = complete_faces(tree, is_tile)
        if not added:
            return is_tile, int(adapters)


@hot_loop
def complete_faces(tree: Tree, is_tile: StatusArray) -> tuple[int, int]:
    """Complete faces of tiles that are matched in part.

    Returns how many leaves became tiles, and the faces with smaller tiles behind them.
    """
    fan = 1 << (tree.dimension - 1)
    added, adapters = 0, 0
    for level in range(1, tree.dims.shape[0]):
        for z in range(tree.dims[level, 2]):
            for y in range(tree.dims[level, 1]):
                for x in range(tree.dims[level, 0]):
                    if not is_tile[block_at(tree, level, x, y, z)]:
                        continue
                    for face in range(2 * tree.dimension):
                        nx, ny, nz = step(x, y, z, face)
                        other = block_at(tree, level, nx, ny, nz)
                        if other < 0 or tree.status[other] != SPLIT:
                            continue
                        matched = 0
                        for q in range(fan):
                            qx, qy, qz = quarter(tree, nx, ny, nz, face ^ 1, q)
                            matched += is_tile[block_at(tree, level - 1, qx, qy, qz)]
                        adapters += matched > 0
                        if 0 < matched < fan:
                            added += fan - matched
                            for q in range(fan):
                                qx, qy, qz = quarter(tree, nx, ny, nz, face ^ 1, q)
                                is_tile[block_at(tree, level - 1, qx, qy, qz)] = 1
    return added, adapters


def needed_scale(tree: Tree, is_tile: StatusArray) -> float:
    """The scale of the score before lifting: largest heat / resolution over the tiles."""
    scale = 0.0
    for level in range(len(tree.dims)):
        begin, end = tree.base[level], tree.base[level + 1]
        high = tree.high[begin:end][is_tile[begin:end] > 0]
        scale = max(scale, float(high.max(initial=0.0)) * 2**level)
    return scale


def num_lifts(pyramid: Pyramid, scale: float) -> int:
    """How often sampling and levels are raised so that the scale is at least 1.

    The score divides by max(1, scale): where all heat is small, nothing would be gained by fewer
    tiles. Twice the sampling and one level more leave every tile where it is and double the scale.
    Lengths and volumes in sampling units stay within what checkers can hold.
    """
    lengths = [TILE_POINTS * cells for cells in pyramid.cells[: pyramid.dimension]]
    lifts = 0
    while 0 < scale < 1:
        lengths = [2 * length for length in lengths]
        if max(lengths) > MAX_LENGTH or math.prod(lengths) > MAX_VOLUME:
            break
        scale *= 2
        lifts += 1
    return lifts


def _prisms(pyramid: Pyramid, tree: Tree, is_tile: StatusArray, tile_id: IntArray) -> LongArray:
    """Runs of equal leaves along x as prisms; gives the tiles their ids."""
    rows = []
    first_id = 0
    for level in range(pyramid.num_levels):
        begin, end = tree.base[level], tree.base[level + 1]
        nx, ny = tree.dims[level, 0], tree.dims[level, 1]
        for is_empty in (False, True):
            wanted = (tree.status[begin:end] == LEAF) & (is_tile[begin:end] != is_empty)
            found = np.flatnonzero(wanted)
            if not len(found):
                continue
            if not is_empty:
                tile_id[begin + found] = first_id + np.arange(len(found))
                first_id += len(found)
            breaks = (np.diff(found) != 1) | (found[1:] % nx == 0)
            starts = np.flatnonzero(np.concatenate([[True], breaks]))
            lengths = np.diff(np.concatenate([starts, [len(found)]]))
            heads = found[starts]
            place = np.stack([heads % nx, heads // nx % ny, heads // (nx * ny)], axis=1)
            rows.append(_prism_rows(pyramid, level, place, lengths, is_empty=is_empty))
    return np.concatenate(rows)


def _prism_rows(
    pyramid: Pyramid, level: int, place: LongArray, lengths: LongArray, *, is_empty: bool
) -> LongArray:
    edges = np.array([1 << level, 1 << level, 1 << level if pyramid.dimension == 3 else 1])
    rows = np.ones((len(place), 7), np.int64)
    rows[:, 0] = EMPTY_LEVEL if is_empty else level
    rows[:, 1:4] = place * edges - np.array(pyramid.offset)
    rows[:, 4] = lengths
    if is_empty:
        rows[:, 4:7] *= edges
    units = np.array([TILE_POINTS, TILE_POINTS, TILE_POINTS if pyramid.dimension == 3 else 1])
    rows[:, 1:4] *= units
    return rows


def _lifted(pyramid: Pyramid, scale: float, prisms: LongArray) -> tuple[int, LongArray]:
    """Sampling and prisms, raised so that the scale counts."""
    lifts = num_lifts(pyramid, scale)
    prisms = prisms.copy()
    axes = slice(1, 1 + pyramid.dimension), slice(4, 4 + pyramid.dimension)
    is_empty = prisms[:, 0] == EMPTY_LEVEL
    prisms[:, axes[0]] <<= lifts
    prisms[is_empty, axes[1]] <<= lifts
    prisms[~is_empty, 0] += lifts
    return pyramid.sampling << lifts, prisms


@hot_loop
def connect(
    tree: Tree,
    tile_id: IntArray,
    num_tiles: int,
    position: FloatArray,
    node_level: NDArray[np.int8],
    wires: IntArray,
    sizes: LongArray,
) -> None:
    """Count adapters and wires into `sizes`; when there is room, also write the nodes and wires.

    A wire of an adapter has the adapter first, and that to its coarse tile precedes the others.
    Blocks come in the order of tile ids, so adapters come in the order of the solution file.
    """
    fan = 1 << (tree.dimension - 1)
    does_write = wires.shape[0] > 0 or position.shape[0] > 0
    adapters, count = 0, 0
    for level in range(tree.dims.shape[0]):
        half = 0.5 * (1 << level)
        for z in range(tree.dims[level, 2]):
            for y in range(tree.dims[level, 1]):
                for x in range(tree.dims[level, 0]):
                    tile = tile_id[block_at(tree, level, x, y, z)]
                    if tile < 0:
                        continue
                    cx, cy, cz = (2 * x + 1) * half, (2 * y + 1) * half, (2 * z + 1) * half
                    if does_write:
                        position[tile, 0], position[tile, 1], position[tile, 2] = cx, cy, cz
                        node_level[tile] = level
                    for face in range(2 * tree.dimension):
                        nx, ny, nz = step(x, y, z, face)
                        other = block_at(tree, level, nx, ny, nz)
                        if other < 0:
                            continue
                        if tile_id[other] >= 0 and face & 1:
                            if does_write:
                                wires[count, 0], wires[count, 1] = tile, tile_id[other]
                            count += 1
                        if tree.status[other] != SPLIT:
                            continue
                        qx, qy, qz = quarter(tree, nx, ny, nz, face ^ 1, 0)
                        if tile_id[block_at(tree, level - 1, qx, qy, qz)] < 0:
                            continue
                        if does_write:
                            node = num_tiles + adapters
                            fx, fy, fz = step(0, 0, 0, face)
                            position[node, 0] = cx + half * fx
                            position[node, 1] = cy + half * fy
                            position[node, 2] = cz + half * fz
                            node_level[node] = level
                            wires[count, 0], wires[count, 1] = node, tile
                            for q in range(fan):
                                qx, qy, qz = quarter(tree, nx, ny, nz, face ^ 1, q)
                                at = block_at(tree, level - 1, qx, qy, qz)
                                wires[count + 1 + q, 0] = node
                                wires[count + 1 + q, 1] = tile_id[at]
                        adapters += 1
                        count += 1 + fan
    sizes[0], sizes[1] = adapters, count
