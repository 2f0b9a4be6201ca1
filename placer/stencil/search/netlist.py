"""From the tree to what is placed: tiles and empty prisms, adapters, and the wires between them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placer.base import FloatArray, IntArray, LongArray, hot_loop
from placer.stencil.model import EMPTY_LEVEL, TILE_POINTS
from placer.stencil.search.pyramid import Pyramid
from placer.stencil.search.tree import LEAF, SPLIT, StatusArray, Tree, across, block_at, quarter

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
    """Return tiles, adapters and wires of a tree, with all fillers that a legal solution needs."""
    is_tile, num_adapters = find_tiles(tree)
    tile_id = np.full(len(tree.status), -1, np.int32)
    sampling, prisms = _lifted(pyramid, needed_scale(tree, is_tile), _prisms(pyramid, tree, is_tile, tile_id))
    num_tiles = int(is_tile.sum())
    num_nodes, dimension = num_tiles + num_adapters, tree.dimension
    position, level = np.zeros((num_nodes, 3)), np.zeros(num_nodes, np.int8)
    room = num_tiles * dimension + num_adapters * (1 + 2 ** (dimension - 1))
    wires = np.empty((room, 2), np.int32)
    num_wires = connect(tree, tile_id, num_tiles, position, level, wires)
    return Netlist(dimension, sampling, prisms, num_tiles, position, level, wires[:num_wires])


def find_tiles(tree: Tree) -> tuple[StatusArray, int]:
    """Return which blocks are tiles, and how many adapters they need.

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

    Return how many leaves became tiles, and the faces with smaller tiles behind them.
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
                        other, nx, ny, nz = across(tree, level, x, y, z, face)
                        if other < 0 or tree.status[other] != SPLIT:
                            continue
                        matched = 0
                        for q in range(fan):
                            matched += is_tile[quarter(tree, level, nx, ny, nz, face ^ 1, q)[0]]
                        adapters += matched > 0
                        if 0 < matched < fan:
                            added += fan - matched
                            for q in range(fan):
                                is_tile[quarter(tree, level, nx, ny, nz, face ^ 1, q)[0]] = 1
    return added, adapters


def needed_scale(tree: Tree, is_tile: StatusArray) -> float:
    """Return the scale of the score before lifting: largest heat / resolution over the tiles."""
    scale = 0.0
    for level in range(len(tree.dims)):
        begin, end = tree.base[level], tree.base[level + 1]
        high = tree.high[begin:end][is_tile[begin:end] > 0]
        scale = max(scale, float(high.max(initial=0.0)) * 2**level)
    return scale


def num_lifts(pyramid: Pyramid, scale: float) -> int:
    """Return how often sampling and levels are raised so that the scale is at least 1.

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
    """Return runs of equal leaves along x as prisms; give the tiles their ids."""
    rows = []
    first_id = 0
    solid = np.arange(3) < pyramid.dimension  # axes along which there is more than one layer
    for level in range(pyramid.num_levels):
        begin, end = tree.base[level], tree.base[level + 1]
        edges = np.where(solid, 1 << level, 1)
        for is_empty in (False, True):
            wanted = (tree.status[begin:end] == LEAF) & (is_tile[begin:end] != is_empty)
            found = np.flatnonzero(wanted)
            if not len(found):
                continue
            if not is_empty:
                tile_id[begin + found] = first_id + np.arange(len(found))
                first_id += len(found)
            breaks = (np.diff(found) != 1) | (found[1:] % tree.dims[level, 0] == 0)
            starts = np.flatnonzero(np.concatenate([[True], breaks]))
            place = np.stack(np.unravel_index(found[starts], tree.dims[level, ::-1])[::-1], axis=1)
            run = np.ones((len(starts), 7), np.int64)
            run[:, 0] = EMPTY_LEVEL if is_empty else level
            run[:, 1:4] = (place * edges - np.array(pyramid.offset)) * np.where(solid, TILE_POINTS, 1)
            run[:, 4] = np.diff(np.concatenate([starts, [len(found)]]))
            if is_empty:
                run[:, 4:7] *= edges
            rows.append(run)
    return np.concatenate(rows)


def _lifted(pyramid: Pyramid, scale: float, prisms: LongArray) -> tuple[int, LongArray]:
    """Return sampling and prisms, raised so that the scale counts."""
    lifts = num_lifts(pyramid, scale)
    is_empty = prisms[:, 0] == EMPTY_LEVEL
    prisms[:, 1 : 1 + pyramid.dimension] <<= lifts
    prisms[is_empty, 4 : 4 + pyramid.dimension] <<= lifts
    prisms[~is_empty, 0] += lifts
    return pyramid.sampling << lifts, prisms


@hot_loop
def connect(
    tree: Tree, tile_id: IntArray, num_tiles: int,
    position: FloatArray, node_level: NDArray[np.int8], wires: IntArray,
) -> int:  # fmt: skip
    """Write position and level of the nodes, and the wires; return the number of wires.

    A wire of an adapter has the adapter first, and that to its coarse tile precedes the others.
    Blocks come in the order of tile ids, so adapters come in the order of the solution file.
    """
    fan = 1 << (tree.dimension - 1)
    node, count = num_tiles, 0  # the next adapter, the next wire
    for level in range(tree.dims.shape[0]):
        half = 0.5 * (1 << level)
        for z in range(tree.dims[level, 2]):
            for y in range(tree.dims[level, 1]):
                for x in range(tree.dims[level, 0]):
                    tile = tile_id[block_at(tree, level, x, y, z)]
                    if tile < 0:
                        continue
                    position[tile, 0] = (2 * x + 1) * half
                    position[tile, 1] = (2 * y + 1) * half
                    position[tile, 2] = (2 * z + 1) * half
                    node_level[tile] = level
                    for face in range(2 * tree.dimension):
                        other, nx, ny, nz = across(tree, level, x, y, z, face)
                        if other < 0:
                            continue
                        if tile_id[other] >= 0 and face & 1:
                            wires[count, 0], wires[count, 1] = tile, tile_id[other]
                            count += 1
                        if tree.status[other] != SPLIT:
                            continue
                        if tile_id[quarter(tree, level, nx, ny, nz, face ^ 1, 0)[0]] < 0:
                            continue
                        for axis in range(3):
                            position[node, axis] = position[tile, axis]
                        position[node, face >> 1] += half * (2 * (face & 1) - 1)
                        node_level[node] = level
                        wires[count, 0], wires[count, 1] = node, tile
                        for q in range(fan):
                            part = quarter(tree, level, nx, ny, nz, face ^ 1, q)[0]
                            wires[count + 1 + q, 0], wires[count + 1 + q, 1] = node, tile_id[part]
                        node += 1
                        count += 1 + fan
    return count
