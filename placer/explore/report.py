"""What `python -m placer.explore` prints and writes: table, picture, page."""

from __future__ import annotations

from dataclasses import asdict

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from placer.base import Cell, Table, make_folder, write_atomic
from placer.explore.exploring import Exploration, ExploreConfig, Explored
from placer.pipeline import joules_text, network_joules
from placer.show import save_figure
from placer.show.html import Cell as PageCell
from placer.show.html import Chapter, Page, PageTable, Text, picture_of

_EXPECTED, _SIMULATED, _FRONT = "#9AA5B1", "#4393C3", "#B03A1E"
_TEXT = (
    "Each point is a fabric of the sweep with the same network on it, lowered anew. Expected: what the cost model says "
    "of its netlists before anything is placed, without the time that pipelines need to fill. Fabrics near the front "
    "of that were placed and simulated; the front is that of the simulated ones. Area and energy are by the fabric's "
    "tables, which are stated and not measured: they rank designs, they do not size chips."
)


def explored_table(found: Exploration) -> Table:
    """Return a row per fabric, for a CSV file."""
    front, names = found.front, list(found.fabrics[0].point.settings)
    header = [
        "number", *names, "area_mm2", "expected_inputs_per_second", "inputs_per_second", "cycles_per_input",
        "share_of_peak", "joules_per_input", "is_on_front", "reason",
    ]  # fmt: skip
    rows: list[list[Cell]] = []
    for one in found.fabrics:
        time = one.time
        joules = None if time is None else network_joules(time)
        measured: list[Cell] = ["", "", "", ""]
        if time is not None:
            measured = [one.simulated or "", time.cycles_per_input, time.share_of_peak, _total(joules)]
        settings = [one.point.settings[name] for name in names]
        rows.append([one.number, *settings, one.area, one.expected or "", *measured, one in front, one.reason])
    return Table(header, rows, name="explore")


def _total(joules: dict[str, float] | None) -> Cell:
    return "" if joules is None else sum(joules.values())


def front_table(found: Exploration) -> Table:
    """Return the front for people: the settings, area, throughput, error of the expectation, energy."""
    header = ["#", "fabric", "mm^2", "inputs/s", "expected", "share of peak", "energy per input", "inputs/s per mm^2"]
    return Table(header, [_row(one) for one in found.front], title="the front")


def _row(one: Explored) -> list[Cell]:
    head: list[Cell] = [one.number, one.point.name, f"{one.area:,.1f}"]
    if one.expected is None:
        return [*head, one.reason, "", "", "", ""]
    time, rate = one.time, one.simulated
    if time is None or rate is None:
        return [*head, "not simulated", f"{one.expected:,.1f}", "", "", ""]
    joules = network_joules(time)
    return [
        *head, f"{rate:,.1f}", f"{one.expected:,.1f} ({one.expected / rate - 1:+.0%})",
        f"{time.share_of_peak:.1%}", "" if joules is None else joules_text(sum(joules.values())),
        f"{rate / one.area:,.2f}",
    ]  # fmt: skip


def front_figure(found: Exploration) -> Figure:
    """Return throughput against area: expected rings, simulated dots, and the front through the best of them."""
    figure = Figure(figsize=(9.5, 5.6), layout="constrained")
    axes = figure.subplots()
    fit = [one for one in found.fabrics if one.expected is not None]
    known, front = [one for one in fit if one.time is not None], found.front
    axes.scatter(
        [one.area for one in fit], [one.expected or 0.0 for one in fit], s=26, facecolor="none", edgecolor=_EXPECTED,
        label="expected by the cost model",
    )  # fmt: skip
    for one in known:
        axes.plot([one.area] * 2, [one.expected or 0.0, one.simulated or 0.0], color=_EXPECTED, linewidth=0.7, zorder=1)
    axes.scatter([one.area for one in known], [one.simulated or 0.0 for one in known], s=30, color=_SIMULATED,
                 label="placed and simulated", zorder=3)  # fmt: skip
    axes.step(
        [one.area for one in front],
        [one.simulated or 0.0 for one in front],
        where="post",
        color=_FRONT,
        label="front, with the numbers of its fabrics",
    )
    _label(axes, found)
    axes.set(xlabel="area, mm^2", ylabel="inputs per second")
    axes.margins(x=0.08, y=0.1)
    axes.yaxis.set_major_formatter("{x:,.6g}")
    axes.set_title(_title(found), fontsize=11, parse_math=False)
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right", fontsize=8)
    return figure


def _title(found: Exploration) -> str:
    return f"{found.network}: throughput against area"


def _label(axes: Axes, found: Exploration) -> None:
    for one in found.front:
        place = (one.area, one.simulated or 0.0)
        axes.annotate(str(one.number), place, xytext=(-4, 5), textcoords="offset points", fontsize=8, ha="right")


def explored_page(config: ExploreConfig, found: Exploration, command: str) -> Page:
    """Return everything about a sweep."""
    explored = found.fabrics
    num = sum(one.time is not None for one in explored)
    subtitle = (
        f"{len(explored)} fabrics of a sweep, expected by the cost model {config.cost.name!r}; {num} placed and "
        f"simulated; batch of {config.batch}, seed {config.seed}"
    )
    front, rest = front_table(found), [_page_row(one) for one in explored]
    words = "Throughput against area of all fabrics of the sweep; the tables below tell the same"
    kinds = list(explored[0].areas)
    areas: list[list[PageCell]] = [
        [one.number, one.point.name, f"{one.area:,.1f}", *(f"{one.areas[kind]:,.1f}" for kind in kinds)]
        for one in found.front
    ]
    chapters = [
        Chapter(
            "Throughput against area",
            [
                Text(_TEXT),
                picture_of(front_figure(found), words),
                PageTable("The front", front.header, [list(map(str, row)) for row in front.rows]),
            ],
        ),
        Chapter("All fabrics", [PageTable("All fabrics of the sweep", front.header, rest)]),
        Chapter("Area", [PageTable("Area of the front by kind of part, mm^2", ["#", "fabric", "all", *kinds], areas)]),
    ]
    return Page(_title(found), subtitle, command, asdict(config), chapters)


def _page_row(one: Explored) -> list[PageCell]:
    return [str(cell) for cell in _row(one)]


def write_explored(config: ExploreConfig, found: Exploration, command: str) -> None:
    """Write table, picture and page into the folder `output`."""
    folder = config.output
    make_folder(folder)
    write_atomic(folder / "explore.csv", explored_table(found).csv())
    figure = front_figure(found)
    for suffix in ("png", "svg"):
        save_figure(figure, folder / f"explore.{suffix}", "explore")
    write_atomic(folder / "explore.html", explored_page(config, found, command).to_html())
