"""The score of a solution on the screen, and its page: score, volume, the fabric part by part."""

from __future__ import annotations

import math
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib.colors import to_rgba_array
from matplotlib.image import imsave
from rich.table import Table as ScreenTable

from placer.base import LongArray
from placer.show.html import Box, BoxView, Cell, Chapter, Image, Page, PageTable, Text
from placer.stencil.judge import Score
from placer.stencil.model import Objective, Problem, WeightedSum
from placer.stencil.search import Mapping, Netlist
from placer.stencil.show.draw import AXES, FabricPicture, fabric_picture, tile_boxes

MAX_PARTS = 32  # of the fabric along its longer side


def score_table(score: Score, sampling: int) -> ScreenTable:
    """Return a score and what it is made of, row by row, for a console."""
    facts = ScreenTable.grid(padding=(0, 2))
    facts.add_row("score", f"{score.total:.6f} ({score.binding} binds)")
    facts.add_row("accuracy", f"{score.accuracy_norm:.6f}")
    facts.add_row("wires", f"{score.wires_norm:.6f}")
    facts.add_row("PEs used", f"{score.used_pes:,} of {score.num_pes:,}")
    facts.add_row("tiles, adapters", f"{score.num_tiles:,}, {score.num_adapters:,}")
    facts.add_row("sampling, scale", f"{sampling}, {score.scale:.6g}")
    return facts


def solution_page(
    name: str,
    problem: Problem,
    mapping: Mapping,
    objective: Objective,
    volume_png: bytes,
    command: str,
    config: dict[str, Any],
) -> Page:
    """Return everything about one solution; `volume_png` shows slices through the volume."""
    words = (
        "Slices through the middle of the volume: heat as colour, outlines of the tiles that the "
        "slices cut; tiles are small where it is hot. The table below counts them by level"
    )
    picture = Image(volume_png, "image/png", words)
    sections = [
        Chapter("Score", [Text(_summary(mapping, objective)), _score(mapping)]),
        Chapter("Volume", [picture, _levels(mapping.netlist)]),
        Chapter("Fabric", [_fabric(problem, mapping)]),
    ]
    fabric = " x ".join(map(str, problem.fabric))
    return Page(name, f"A volume mapped to {fabric} processing elements", command, config, sections)


def _summary(mapping: Mapping, objective: Objective) -> str:
    score = mapping.score
    words = (
        f"The score is the smaller of accuracy and wires: {score.total:.6f}; "
        f"{score.binding} binds. The independent checker has confirmed it."
    )
    if isinstance(objective, WeightedSum):
        value = objective(score.accuracy_norm, score.wires_norm)
        words += (
            f" But the mapper was asked for the largest weighted sum, {objective.alpha:g} x "
            f"accuracy + {objective.beta:g} x wires (1 at most): {value:.6f}."
        )
    return words


def _score(mapping: Mapping) -> PageTable:
    score = mapping.score
    rows: list[list[Cell]] = [
        ["score", f"{score.total:.6f}"],
        ["accuracy", f"{score.accuracy_norm:.6f}"],
        ["wires", f"{score.wires_norm:.6f}"],
        ["processing elements used", f"{score.used_pes:,} of {score.num_pes:,}"],
        ["tiles", f"{score.num_tiles:,}"],
        ["adapters", f"{score.num_adapters:,}"],
        ["connections", f"{len(mapping.netlist.wires):,}"],
        ["seconds", f"{mapping.seconds:.1f}"],
    ]
    return PageTable("Score", ["", "value"], rows)


def _levels(netlist: Netlist) -> PageTable:
    level = netlist.level[: netlist.num_tiles]
    boxes = tile_boxes(netlist)
    rows: list[list[Cell]] = []
    for number in np.unique(level):
        edges = boxes[level == number, 3]
        filled = edges**netlist.dimension
        rows.append([f"{number}", f"{len(edges):,}", f"{edges[0]:g}", f"{filled.sum():,.6g}"])
    header = ["level", "tiles", "edge of a tile", "volume in them"]
    return PageTable("Tiles by level; a level halves the resolution", header, rows)


def _fabric(problem: Problem, mapping: Mapping) -> BoxView:
    picture = fabric_picture(problem, mapping)
    width, height = problem.fabric
    return BoxView(
        f"Fabric of {width} x {height} processing elements",
        "Every processing element has the colour of the level of its tile: dark is fine, light is "
        "coarse. A box is a part of the fabric; beside the picture stands what is in it.",
        width,
        height,
        _parts(problem, mapping, picture),
        legend=dict(zip(picture.labels(), picture.colours, strict=True)),
        background=_background(picture),
    )


def _background(picture: FabricPicture) -> Image:
    content = BytesIO()
    imsave(content, to_rgba_array(picture.colours)[picture.kinds], format="png", origin="lower")
    return Image(content.getvalue(), "image/png", "")


def _parts(problem: Problem, mapping: Mapping, picture: FabricPicture) -> list[Box]:
    """Return the fabric in squares, row by row."""
    netlist, places = mapping.netlist, mapping.placed.places.astype(np.int64)
    width, height = problem.fabric
    edge = math.ceil(max(width, height) / MAX_PARTS)
    columns, rows = math.ceil(width / edge), math.ceil(height / edge)
    part = places[:, 1] // edge * columns + places[:, 0] // edge  # of every node
    num_parts = columns * rows
    lengths = np.abs(places[netlist.wires[:, 0]] - places[netlist.wires[:, 1]]).sum(axis=1)
    ends = part[netlist.wires].T.ravel()
    num_ends = np.bincount(ends, minlength=num_parts)
    sums = np.bincount(ends, np.tile(lengths, 2), num_parts)
    ranges = _ranges(netlist, part[: netlist.num_tiles], num_parts)
    boxes = []
    for number in range(num_parts):
        x, y = number % columns * edge, number // columns * edge
        right, top = min(x + edge, width), min(y + edge, height)
        counts = np.bincount(picture.kinds[y:top, x:right].ravel(), minlength=len(picture.names))
        facts = {n: f"{c:,}" for n, c in zip(picture.names, counts.tolist(), strict=True) if c}
        if ranges[number]:
            facts["part of the volume"] = ranges[number]
        if num_ends[number]:
            facts["mean length of wires"] = f"{sums[number] / num_ends[number]:.2f}"
        name = f"processing elements ({x}, {y}) to ({right - 1}, {top - 1})"
        boxes.append(Box(x, y, right - x, top - y, "", name, None, facts))
    return boxes


def _ranges(netlist: Netlist, part: LongArray, num_parts: int) -> list[str]:
    """Say which part of the volume the tiles in each part of the fabric stand for."""
    boxes = tile_boxes(netlist)
    low = np.full((num_parts, 3), np.inf)
    high = np.full((num_parts, 3), -np.inf)
    np.minimum.at(low, part, boxes[:, :3])
    np.maximum.at(high, part, boxes[:, :3] + boxes[:, 3:])
    return [
        ", ".join(f"{AXES[a]} {low[n, a]:g} to {high[n, a]:g}" for a in range(netlist.dimension))
        if np.isfinite(low[n, 0])
        else ""
        for n in range(num_parts)
    ]
