"""Pictures of a solution: heat with the prisms cut by it, and the fabric by level."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from placer.files import write_atomic
from placer.stencil.leaves import Netlist
from placer.stencil.place import Placed
from placer.stencil.problem import TILE_POINTS, LongArray, Problem

# Light to dark from coarse to fine, readable without colours; adapters stand out.
_LEVEL_COLOURS = ("#08306B", "#2171B5", "#6BAED6", "#BDD7E7", "#DEEBF7", "#F0F4F8")
_ADAPTER_COLOUR = "#D95F02"
_FREE_COLOUR = "#FFFFFF"
_AXES = "xyz"
_MAX_LINES = 60_000  # outlines beyond this would paint the slice over


def draw_volume(problem: Problem, netlist: Netlist, path: Path, title: str) -> None:
    """Slices through the middle of the heat, with the outlines of the tiles that they cut."""
    normals = (2,) if problem.dimension == 2 else (2, 1, 0)
    figure = Figure(figsize=(4.8 * len(normals) + 0.8, 5.0), layout="constrained")
    axes = figure.subplots(1, len(normals), squeeze=False)[0]
    for panel, normal in zip(axes, normals, strict=True):
        image = _draw_slice(problem, netlist, panel, normal)
    figure.colorbar(image, ax=axes.tolist(), label="heat (desired resolution)", shrink=0.8)
    figure.suptitle(title)
    _save(figure, path)


def _draw_slice(problem: Problem, netlist: Netlist, panel: Axes, normal: int):  # type: ignore[no-untyped-def]
    across, along = [axis for axis in range(3) if axis != normal]
    extent = (0, problem.volume[across], 0, problem.volume[along])
    height = problem.volume[normal] / 2 if problem.dimension == 3 else 0.0
    layer = np.take(problem.heat, int(height), axis=2 - normal)
    image = panel.imshow(
        layer, origin="lower", cmap="inferno", vmin=0, vmax=1, interpolation="bilinear",
        extent=(extent[0] - 0.5, extent[1] + 0.5, extent[2] - 0.5, extent[3] + 0.5),
    )  # fmt: skip
    boxes = _cut_tiles(netlist, normal, height)
    if 0 < len(boxes) <= _MAX_LINES:
        x0, y0, edge = boxes.T
        corners = [(x0, y0), (x0 + edge, y0), (x0 + edge, y0 + edge), (x0, y0 + edge), (x0, y0)]
        lines = np.stack([np.stack(corner, axis=1) for corner in corners], axis=1)
        width = float(np.clip(40 / np.sqrt(len(boxes)), 0.08, 0.8))
        panel.add_collection(LineCollection(list(lines), colors="#FFFFFFB0", linewidths=width))
    panel.set(xlim=extent[:2], ylim=extent[2:], xlabel=_AXES[across], ylabel=_AXES[along])
    if problem.dimension == 3:
        panel.set_title(f"{_AXES[normal]} = {height:g}", fontsize=9)
    return image


def _cut_tiles(
    netlist: Netlist, normal: int, height: float
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Low corner and edge, in volume units, of the tiles that a slice cuts."""
    boxes = tile_boxes(netlist.prisms) / netlist.sampling
    low, edge = boxes[:, :3], boxes[:, 3]
    across, along = [axis for axis in range(3) if axis != normal]
    is_cut = np.ones(len(boxes), bool)
    if netlist.dimension == 3:
        is_cut = (low[:, normal] <= height) & (height < low[:, normal] + edge)
    return np.stack([low[:, across], low[:, along], edge], axis=1)[is_cut]


def tile_boxes(prisms: LongArray) -> LongArray:
    """Origin and edge, in sampling units, of every tile; prisms are runs along x."""
    tiles = prisms[prisms[:, 0] >= 0]
    edge = TILE_POINTS << tiles[:, 0]
    owner = np.repeat(np.arange(len(tiles)), tiles[:, 4])
    first = np.cumsum(tiles[:, 4]) - tiles[:, 4]
    number = np.arange(len(owner)) - first[owner]
    boxes = np.column_stack([tiles[owner, 1:4], edge[owner]])
    boxes[:, 0] += number * edge[owner]
    return boxes


@dataclass(frozen=True, slots=True, eq=False)
class FabricPicture:
    """What is on every PE: the level of its tile, an adapter, or nothing."""

    kinds: LongArray  # [height, width]: index of a name
    names: tuple[str, ...]
    colours: tuple[str, ...]

    def labels(self) -> list[str]:
        """Names with the number of PEs."""
        counts = np.bincount(self.kinds.ravel(), minlength=len(self.names))
        return [f"{name} ({n:,})" for name, n in zip(self.names, counts, strict=True)]


def fabric_picture(problem: Problem, netlist: Netlist, placed: Placed) -> FabricPicture:
    """The fabric by level."""
    levels = sorted({int(level) for level in np.unique(netlist.level[: netlist.num_tiles])})
    rank = {level: number for number, level in enumerate(levels)}
    width, height = problem.fabric
    picture = np.full((height, width), len(levels) + 1, np.int64)
    kinds = np.array([rank.get(int(level), 0) for level in netlist.level], np.int64)
    kinds[netlist.num_tiles :] = len(levels)
    picture[placed.places[:, 1], placed.places[:, 0]] = kinds
    shades = [_LEVEL_COLOURS[min(k, len(_LEVEL_COLOURS) - 1)] for k in range(len(levels))]
    names = (*(f"level {level}" for level in levels), "adapter", "unused")
    return FabricPicture(picture, names, (*shades, _ADAPTER_COLOUR, _FREE_COLOUR))


def draw_fabric(problem: Problem, netlist: Netlist, placed: Placed, path: Path, title: str) -> None:
    """The fabric, every PE coloured by the level of its tile, adapters marked."""
    picture = fabric_picture(problem, netlist, placed)
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
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    content = BytesIO()
    figure.savefig(content, format="png", dpi=150)
    write_atomic(path, content.getvalue())
