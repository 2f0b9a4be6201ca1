"""Pictures of a solution: heat with the tiles cut by a slice, and the fabric by level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Patch

from placer.base import FloatArray, LongArray, png
from placer.stencil.model import TILE_POINTS, Problem
from placer.stencil.search import Mapping, Netlist

# Light to dark from coarse to fine, readable without colours; adapters stand out.
_LEVEL_COLOURS = ("#08306B", "#2171B5", "#6BAED6", "#BDD7E7", "#DEEBF7", "#F0F4F8")
_ADAPTER_COLOUR = "#D95F02"
_FREE_COLOUR = "#FFFFFF"
AXES = "xyz"
_MAX_LINES = 60_000  # outlines beyond this would paint the slice over
_DOTS_PER_INCH = 150


def draw_volume(problem: Problem, netlist: Netlist, title: str) -> bytes:
    """Draw slices through the middle of the heat, with the outlines of the tiles that they cut."""
    normals = (2,) if problem.dimension == 2 else (2, 1, 0)
    figure = Figure(figsize=(4.8 * len(normals) + 0.8, 5.0), layout="constrained")
    axes = figure.subplots(1, len(normals), squeeze=False)[0]
    for panel, normal in zip(axes, normals, strict=True):
        image = _draw_slice(problem, netlist, panel, normal)
    figure.colorbar(image, ax=axes.tolist(), label="heat (desired resolution)", shrink=0.8)
    figure.suptitle(title)
    return png(figure, _DOTS_PER_INCH)


def _draw_slice(problem: Problem, netlist: Netlist, panel: Axes, normal: int) -> AxesImage:
    across, along = [axis for axis in range(3) if axis != normal]
    right, top = problem.volume[across], problem.volume[along]
    height = problem.volume[normal] / 2 if problem.dimension == 3 else 0.0
    image = panel.imshow(
        np.take(problem.heat, int(height), axis=2 - normal), origin="lower", cmap="inferno",
        vmin=0, vmax=1, interpolation="bilinear", extent=(-0.5, right + 0.5, -0.5, top + 0.5),
    )  # fmt: skip
    boxes = tile_boxes(netlist)
    if problem.dimension == 3:
        low = boxes[:, normal]
        boxes = boxes[(low <= height) & (height < low + boxes[:, 3])]
        panel.set_title(f"{AXES[normal]} = {height:g}", fontsize=9)
    if 0 < len(boxes) <= _MAX_LINES:
        x0, y0, edge = boxes[:, [across, along, 3]].T
        corners = [(x0, y0), (x0 + edge, y0), (x0 + edge, y0 + edge), (x0, y0 + edge), (x0, y0)]
        lines = np.stack([np.stack(corner, axis=1) for corner in corners], axis=1)
        width = float(np.clip(40 / np.sqrt(len(boxes)), 0.08, 0.8))
        panel.add_collection(LineCollection(list(lines), colors="#FFFFFFB0", linewidths=width))
    panel.set(xlim=(0, right), ylim=(0, top), xlabel=AXES[across], ylabel=AXES[along])
    return image


def tile_boxes(netlist: Netlist) -> FloatArray:
    """Return origin and edge [tiles, 4] of every tile in volume units; prisms are runs along x."""
    tiles = netlist.prisms[netlist.prisms[:, 0] >= 0]
    edge = TILE_POINTS << tiles[:, 0]
    owner = np.repeat(np.arange(len(tiles)), tiles[:, 4])
    first = np.cumsum(tiles[:, 4]) - tiles[:, 4]
    boxes = np.column_stack([tiles[owner, 1:4], edge[owner]])
    boxes[:, 0] += (np.arange(len(owner)) - first[owner]) * edge[owner]
    return boxes / netlist.sampling


@dataclass(frozen=True, slots=True, eq=False)
class FabricPicture:
    """What is on every PE: the level of its tile, an adapter, or nothing."""

    kinds: LongArray  # [height, width]: index of a name
    names: tuple[str, ...]
    colours: tuple[str, ...]

    def labels(self) -> list[str]:
        """Return the names with the number of PEs."""
        counts = np.bincount(self.kinds.ravel(), minlength=len(self.names))
        return [f"{name} ({n:,})" for name, n in zip(self.names, counts, strict=True)]


def fabric_picture(problem: Problem, mapping: Mapping) -> FabricPicture:
    """Return the fabric by level."""
    netlist, places = mapping.netlist, mapping.placed.places
    levels, kinds = np.unique(netlist.level[: netlist.num_tiles], return_inverse=True)
    picture = np.full(problem.fabric[::-1], len(levels) + 1, np.int64)
    picture[places[:, 1], places[:, 0]] = len(levels)
    picture[places[: len(kinds), 1], places[: len(kinds), 0]] = kinds
    shades = [_LEVEL_COLOURS[min(k, len(_LEVEL_COLOURS) - 1)] for k in range(len(levels))]
    names = (*(f"level {level}" for level in levels), "adapter", "unused")
    return FabricPicture(picture, names, (*shades, _ADAPTER_COLOUR, _FREE_COLOUR))


def draw_fabric(problem: Problem, mapping: Mapping, title: str) -> bytes:
    """Draw the fabric, every PE coloured by the level of its tile, adapters marked."""
    picture = fabric_picture(problem, mapping)
    width, height = problem.fabric
    figure = Figure(figsize=(7.2, 1.2 + 6.0 * height / max(width, height)), layout="constrained")
    panel = figure.subplots()
    norm = BoundaryNorm(np.arange(len(picture.colours) + 1) - 0.5, len(picture.colours))
    panel.imshow(picture.kinds, origin="lower", cmap=ListedColormap(picture.colours), norm=norm,
                 interpolation="nearest")  # fmt: skip
    handles = [
        Patch(facecolor=colour, edgecolor="#666666", label=label)
        for colour, label in zip(picture.colours, picture.labels(), strict=True)
    ]
    figure.legend(handles=handles, loc="outside right upper", fontsize=8, frameon=False)
    panel.set(xlabel="PE x", ylabel="PE y", title=title)
    return png(figure, _DOTS_PER_INCH)
