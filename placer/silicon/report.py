"""What a replay of traces prints and writes: table, errors, busiest links, picture of links, page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from rich.console import Console

from placer.base import Cell, InputError, Settings, Table, allowed_text, make_folder, number, percent, png, write_atomic
from placer.fabric import Direction, Fabric
from placer.show import LINK_COLOURS
from placer.show.html import Chapter, Folded, Image, Page, PageTable, Text, picture_of
from placer.silicon.comparing import ENGINE, MODELS, Compared, kinds_of, score_of
from placer.simulation import Tile

NUM_BUSIEST = 5  # links of a trace that the page lists
IDLE_COLOUR = "#E4E4E4"
NUM_SHARERS = 4  # transfers of a link that are named
CSV_FILE, TABLE_FILE, PAGE_FILE = "replay.csv", "replay_models.csv", "replay.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayConfig(Settings):
    """What `conf/replay.yaml` holds."""

    fabric: Fabric
    traces: Path
    picture: str | None  # trace whose links are drawn
    output: Path


def show_replay(config: ReplayConfig, compared: Sequence[Compared], console: Console) -> None:
    """Print errors and ranks of all models, and the busiest links of the trace that is drawn."""
    console.print(_scores(compared).screen())
    drawn = _drawn(config, compared)
    console.print(_busiest_table(config.fabric, drawn).screen())
    error = percent(drawn.error(), 1)
    console.print(
        f"{drawn.name}: measured {drawn.trace.measured:,}, predicted {drawn.predicted[ENGINE]:,.0f} ({error})"
    )


def write_replay(config: ReplayConfig, compared: Sequence[Compared], command: str) -> list[str]:
    """Write replay.csv, the predictions of all models, the picture and the page; returns their names."""
    drawn = _drawn(config, compared)
    rows: list[list[Cell]] = [[one.name, one.trace.measured, round(one.predicted[ENGINE])] for one in compared]
    every: list[list[Cell]] = [
        [one.name, one.trace.measured, *(round(one.predicted[m]) for m in MODELS)] for one in compared
    ]
    figure = heat_figure(config.fabric, drawn)
    contents: dict[str, str | bytes] = {
        CSV_FILE: Table(["trace", "measured", "predicted"], rows).csv(),
        TABLE_FILE: Table(["trace", "measured", *MODELS], every).csv(),
        "replay_links.png": png(figure),
        PAGE_FILE: _page(config, compared, drawn, figure, command).to_html(),
    }
    make_folder(config.output)
    for name, content in contents.items():
        write_atomic(config.output / name, content)
    return list(contents)


def _drawn(config: ReplayConfig, compared: Sequence[Compared]) -> Compared:
    """Return the trace whose links are drawn: as asked for, else the one with the largest error."""
    if config.picture is None:
        return max(compared, key=lambda one: abs(one.error()))
    by_name = {one.name: one for one in compared}
    if config.picture not in by_name:
        raise InputError(f"picture={config.picture}: no such trace; {allowed_text(config.picture, by_name)}")
    return by_name[config.picture]


def _scores(compared: Sequence[Compared]) -> Table:
    rows: list[list[str | int]] = []
    for kind, group in kinds_of(compared).items():
        for model in MODELS:
            score = score_of(group, model)
            figures = [percent(v, 1) for v in (score.mean_error, score.bias, score.largest)]
            rows.append([kind, score.num, model, *figures, number(score.spearman, 4)])
    header = ["traces", "number", "model", "mean error", "bias", "largest error", "Spearman"]
    return Table(header, rows, title="Predicted against measured cycles")


def busiest_links(fabric: Fabric, compared: Compared, num: int = NUM_BUSIEST) -> list[tuple[int, float]]:
    """Return the links that carried most of what they can in the predicted time, and that share."""
    assert fabric.cores is not None
    per_cycle = compared.link_vectors * fabric.vector_bytes / max(1.0, compared.predicted[ENGINE])
    share = per_cycle / fabric.cores.link_bytes_per_cycle
    order = np.argsort(-share, kind="stable")[:num]
    return [(int(link), float(share[link])) for link in order if share[link] > 0]


def sharers(fabric: Fabric, compared: Compared, link: int) -> list[str]:
    """Name the transfers that use a link, those with most bytes first: from -> to."""
    traffic, counts = compared.traffic, Counter[str]()
    decision, tiles = traffic.decision, _Tiles(fabric)
    for flow in range(traffic.netlist.num_flows):
        links = decision.route(flow)[0]
        if link in links:
            ends = [tiles.of_link(int(links[k])) for k in (0, -1)]
            counts[f"{ends[0]} -> {ends[1]}"] += traffic.netlist.flows[flow].tokens * fabric.vector_bytes
    return [f"{ends} ({size:,} B)" for ends, size in counts.most_common()]


class _Tiles:
    """Where links begin, as (column, row) of a network."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric, self._topology = fabric, fabric.topology

    def of_link(self, link: int) -> Tile:
        source, target = self._topology.link_source[link], self._topology.link_target[link]
        return self.of_switch(int(source if source >= 0 else target))

    def of_switch(self, switch: int) -> Tile:
        row, column = divmod(switch % (self._fabric.columns * self._fabric.rows), self._fabric.columns)
        return column, row

    def network(self, link: int) -> int:
        source, target = self._topology.link_source[link], self._topology.link_target[link]
        return int(source if source >= 0 else target) // (self._fabric.columns * self._fabric.rows)

    def name(self, link: int) -> str:
        """Return what a reader calls a link: network, tile, direction."""
        assert self._fabric.cores is not None
        direction = Direction(int(self._topology.link_direction[link]))
        network = self._fabric.cores.networks[self.network(link)].name
        return f"{network} {self.of_link(link)} {direction.name.lower()}"


def _busiest_table(fabric: Fabric, compared: Compared) -> Table:
    rows: list[list[str]] = []
    for link, share in busiest_links(fabric, compared):
        users = sharers(fabric, compared, link)
        more = f" and {len(users) - NUM_SHARERS} more" if len(users) > NUM_SHARERS else ""
        rows.append([_Tiles(fabric).name(link), percent(share, 0), "; ".join(users[:NUM_SHARERS]) + more])
    return Table(["link", "busy", "shared by (from -> to)"], rows, title=f"Busiest links of {compared.name}")


def heat_figure(fabric: Fabric, compared: Compared) -> Figure:
    """Draw the share of its rate that every link has carried, one panel per network."""
    assert fabric.cores is not None
    networks, topology, tiles = fabric.cores.networks, fabric.topology, _Tiles(fabric)
    figure = Figure(figsize=(5.2 * len(networks), 6.2), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(networks)))
    per_cycle = compared.link_vectors * fabric.vector_bytes / max(1.0, compared.predicted[ENGINE])
    share = np.minimum(1.0, per_cycle / fabric.cores.link_bytes_per_cycle)
    steps = {Direction.EAST: (1, 0), Direction.WEST: (-1, 0), Direction.NORTH: (0, -1), Direction.SOUTH: (0, 1)}
    for axes, network in zip(panels, networks, strict=True):
        axes.set(title=network.name, xlim=(-1, fabric.columns), ylim=(fabric.rows, -1), aspect="equal")
        axes.set(xlabel="column", ylabel="row", xticks=range(fabric.columns), yticks=range(fabric.rows))
    for link in range(topology.num_mesh_links):
        column, row = tiles.of_link(link)
        right, down = steps[Direction(int(topology.link_direction[link]))]
        colour = LINK_COLOURS(share[link]) if share[link] else IDLE_COLOUR
        style = {"color": colour, "width": 0.04, "head_width": 0.24, "length_includes_head": True}
        panels[tiles.network(link)].arrow(column, row, 0.9 * right, 0.9 * down, zorder=1 + share[link], **style)
    for panel in panels:
        for row in range(fabric.rows):
            for column in range(fabric.columns):
                is_port = fabric.cores.controller_of((column, row)) >= 0
                panel.plot(
                    column, row, "s" if is_port else "o", color="#777777" if is_port else "#bbbbbb", ms=4, zorder=3
                )
    scale = ScalarMappable(Normalize(0, 1), LINK_COLOURS)
    figure.colorbar(scale, ax=panels.tolist(), label="share of the rate of a link", shrink=0.6)
    return figure


def _page(config: ReplayConfig, compared: Sequence[Compared], drawn: Compared, figure: Figure, command: str) -> Page:
    scores = _scores(compared)
    text = (
        "Traces keep the gaps between the events of a processor as measured; the models say when its reads have "
        "arrived. Error is predicted over measured cycles, less one."
    )
    rows = [
        [
            one.name,
            f"{one.trace.measured:,}",
            f"{one.predicted[ENGINE]:,.0f}",
            *(percent(one.error(m), 1) for m in MODELS),
        ]
        for one in compared
    ]
    header = ["trace", "measured", "predicted", *(f"error: {model}" for model in MODELS)]
    folded = Folded("Busiest links of every trace", [_busiest_block(config.fabric, one) for one in compared])
    words = f"Share of its rate that each link carried in {drawn.name}; busiest links below"
    return Page(
        f"Traces on {config.fabric.name}",
        f"{len(compared)} traces replayed",
        command,
        asdict(config),
        [
            Chapter("Errors and ranks", [Text(text), _table_block(scores)]),
            Chapter("Every trace", [_every_picture(compared), PageTable("Every trace", header, rows)]),
            Chapter(
                f"Links of {drawn.name}", [picture_of(figure, words), _busiest_block(config.fabric, drawn), folded]
            ),
        ],
    )


def _every_picture(compared: Sequence[Compared]) -> Image:
    return picture_of(_scatter(compared), "Predicted against measured cycles of every trace; table below")


def _busiest_block(fabric: Fabric, compared: Compared) -> PageTable:
    return _table_block(_busiest_table(fabric, compared))


def _table_block(table: Table) -> PageTable:
    return PageTable(table.title, table.header, [list(map(str, row)) for row in table.rows])


def _scatter(compared: Sequence[Compared]) -> Figure:
    figure = Figure(figsize=(5.2, 4.6), layout="constrained")
    axes = figure.subplots()
    axes.axline((1000, 1000), slope=1, color="#000000", linewidth=0.8, linestyle=":")
    for (kind, group), colour in zip(kinds_of(compared).items(), ("#2166AC", "#B03A1E"), strict=False):
        measured = [one.trace.measured for one in group]
        axes.scatter(measured, [one.predicted["fluid"] for one in group], s=14, facecolors="none", edgecolors=colour,
                     label=f"{kind}, fluid")  # fmt: skip
        axes.scatter(measured, [one.predicted[ENGINE] for one in group], s=16, color=colour, label=f"{kind}, engine")
    axes.set(xscale="log", yscale="log", xlabel="measured cycles", ylabel="predicted cycles")
    axes.grid(alpha=0.3)
    axes.legend()
    return figure
