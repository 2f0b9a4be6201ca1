"""What the functions of the front door return: figures, files, a page, and a picture for notebooks."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Generic, TypeVar

from placer.base import file_name, make_folder, write_atomic
from placer.compile import CompileConfig, CompiledNetwork, write_page
from placer.fabric import Fabric
from placer.pipeline import (
    INTERVAL,
    Lowered,
    NetworkTime,
    PlaceConfig,
    PlacedSection,
    SectionResult,
    SimulateConfig,
    SimulatedSection,
    Source,
    placing_page,
    simulated_page,
    time_chapters,
    time_facts,
    time_of,
    total_page,
    write_placed,
    write_plan,
    write_simulated,
)
from placer.show import picture_bytes, placement_figure
from placer.show.html import Chapter, Page

C = TypeVar("C", bound=Source)
R = TypeVar("R", bound=SectionResult)


@dataclass(frozen=True, eq=False, repr=False)
class NetworkResult(ABC, Generic[C, R]):
    """A network whose sections were simulated.

    print(result)             # its figures
    result.cycles             # per input, everything counted
    result.share_of_bound     # 1: nothing is lost to congestion
    result.save("data/mine")  # all files that the command would write
    result.page("net.html")   # to open in a browser
    """

    config: C
    lowered: Lowered
    sections: tuple[R, ...]  # the distinct ones, in the order in which they run

    @property
    def fabric(self) -> Fabric:
        """Return what it is placed on."""
        return self.config.fabric

    @cached_property
    def time(self) -> NetworkTime:
        """Return the time of the whole network."""
        return time_of(self.fabric, self.sections, self.config.batch)

    @abstractmethod
    def save(self, folder: str | Path) -> Path:
        """Write all files into a folder, and return it."""

    @property
    @abstractmethod
    def _command(self) -> str:
        """Return the call that made it, for its pages."""

    @abstractmethod
    def _write_page(self, path: Path) -> None:
        """Write the page, and those of several sections beside it."""

    @property
    def name(self) -> str:
        """Return the name of the network."""
        name = self.sections[0].section.netlist.name
        return name if len(self.sections) == 1 else name.rpartition(".")[0]

    @property
    def cycles(self) -> float:
        """Return the cycles per input, with filling, weights and switching."""
        return self.time.cycles_per_input

    @property
    def milliseconds(self) -> float | None:
        """Return the time per input; None when the fabric tells no clock."""
        return self.time.milliseconds_per_input

    @property
    def inputs_per_second(self) -> float | None:
        """Return how many inputs pass; None when the fabric tells no clock."""
        return self.time.inputs_per_second

    @property
    def share_of_bound(self) -> float:
        """Return the normalised throughput of all sections together: 1 is what the compute units allow."""
        return self._share([result.measurement.throughput for result in self.sections])

    @property
    def share_of_peak(self) -> float:
        """Return the share of all multiply-accumulators that is busy, over the whole time."""
        return self.time.share_of_peak

    @property
    def slowest(self) -> R:
        """Return the section that takes most of the time."""
        return max(zip(self.sections, self.time.sections, strict=True), key=lambda pair: pair[1].cycles_per_input)[0]

    @property
    def bottleneck(self) -> str:
        """Return what limits the slowest section."""
        return self.slowest.measurement.critical

    def facts(self) -> dict[str, str]:
        """Return what to say about it, by name, for a reader."""
        return {
            "share of the bound": f"{self.share_of_bound:.3f}",
            **time_facts(self.time),
            "bottleneck": self.bottleneck,
        }

    def page(self, path: str | Path) -> Path:
        """Write a page that opens in a browser, and return its path; pages of several sections go beside it."""
        path = Path(path)
        make_folder(path.parent)
        self._write_page(path)
        return path

    def _write_pages(self, path: Path, page_of: Callable[[R, Sequence[Chapter]], Page]) -> None:
        """Write the page of an only section, or one of all of them and one for each."""
        if len(self.sections) == 1:
            chapters = time_chapters(self.time, self.name)
            write_atomic(path, page_of(self.sections[0], chapters).to_html())
            return
        pages = {}
        for result in self.sections:
            name = result.section.netlist.name
            pages[name] = file_name(f"{path.stem}.{name}.html")
            write_atomic(path.with_name(pages[name]), page_of(result, ()).to_html())
        write_atomic(path, total_page(self.config, self.time, self.name, pages, self._command).to_html())

    def __str__(self) -> str:
        facts = self.facts()
        width = max(map(len, facts))
        lines = [f"{name:<{width}}  {fact}" for name, fact in facts.items()]
        return "\n".join([f"{self.name} on {self.fabric.name}", *lines])

    def _repr_html_(self) -> str:
        """Return a picture of the slowest section and a table, as notebooks show them."""
        slowest = self.slowest
        netlist = slowest.section.netlist
        figure = placement_figure(self.fabric, netlist, slowest.decision, slowest.measurement, netlist.name)
        picture = b64encode(picture_bytes(figure, "png", "placement")).decode()
        rows = "".join(f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in self.facts().items())
        title = f"{escape(self.name)} on {escape(self.fabric.name)}"
        return (
            f'<h4>{title}</h4><table>{rows}</table><img alt="placement of {escape(netlist.name)}" '
            f'src="data:image/png;base64,{picture}" style="max-width: 100%">'
        )

    def _share(self, throughputs: Sequence[float]) -> float:
        """Return the bound of all sections over the time that they take at some throughputs."""
        sections = [result.section for result in self.sections]
        bounds = [one.repeats * one.samples * one.netlist.bound_cycles for one in sections]
        times = [bound / throughput for bound, throughput in zip(bounds, throughputs, strict=True)]
        return sum(bounds) / sum(times)


@dataclass(frozen=True, eq=False, repr=False)
class Simulation(NetworkResult[SimulateConfig, SimulatedSection]):
    """A network that was placed at random or by a file, and simulated."""

    def save(self, folder: str | Path) -> Path:
        config = replace(self.config, output=Path(folder))
        write_plan(config, self.lowered)
        write_simulated(config, self.sections, self._command)
        return Path(folder)

    @property
    def _command(self) -> str:
        return f'placer.simulate(..., fabric="{self.fabric.name}", seed={self.config.seed})'

    def _write_page(self, path: Path) -> None:
        self._write_pages(path, lambda one, more: simulated_page(self.config, one, self._command, more))


@dataclass(frozen=True, eq=False, repr=False)
class Placement(NetworkResult[PlaceConfig, PlacedSection]):
    """A network that a search has placed, with what its cost model predicted; after Ctrl-C, a part of it."""

    @property
    def is_interrupted(self) -> bool:
        """Return whether Ctrl-C ended the search."""
        return self.sections[-1].is_interrupted

    @property
    def predicted(self) -> float:
        """Return the share of the bound that the cost model predicted for what was found."""
        return self._share([placed.result.predicted for placed in self.sections])

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return between which shares of the bound 80% of such predictions lie; None: the cost model cannot tell.

        Errors of sections are taken to go the same way, so it is rather too wide for several.
        """
        found = [placed.result.interval for placed in self.sections]
        told = [interval for interval in found if interval is not None]
        if len(told) < len(found):
            return None
        low, high = (self._share([interval[end] for interval in told]) for end in (0, 1))
        return low, high

    @property
    def remarks(self) -> list[str]:
        """Return what is far from all that the cost model has learned from: there, its prediction is a guess."""
        return list(dict.fromkeys(remark for placed in self.sections for remark in placed.remarks))

    def facts(self) -> dict[str, str]:
        interval = ""
        if self.interval is not None:
            interval = " ({:.3f} to {:.3f}, {:.0%} of the time)".format(*self.interval, INTERVAL)
        guess = f"; a guess, far from what was learned: {', '.join(self.remarks)}" if self.remarks else ""
        seconds = math.fsum(placed.seconds for placed in self.sections)
        facts = super().facts()
        return {
            "share of the bound": facts.pop("share of the bound"),
            f"predicted by {self.config.cost.name}": f"{self.predicted:.3f}{interval}{guess}",
            **facts,
            "search": f"{seconds:.1f} s{', interrupted' if self.is_interrupted else ''}",
        }

    def save(self, folder: str | Path) -> Path:
        config = replace(self.config, output=Path(folder))
        write_plan(config, self.lowered)
        write_placed(config, self.sections, self._command)
        return Path(folder)

    @property
    def _command(self) -> str:
        config = self.config
        return f'placer.place(..., fabric="{self.fabric.name}", cost="{config.cost.name}", seed={config.seed})'

    def _write_page(self, path: Path) -> None:
        self._write_pages(path, lambda one, more: placing_page(self.config, one, self._command, more))


@dataclass(frozen=True, eq=False, repr=False)
class Compilation(NetworkResult[CompileConfig, SectionResult]):
    """A network whose cuts, layouts and placements were searched together."""

    compiled: CompiledNetwork  # with the course of the search

    @property
    def is_interrupted(self) -> bool:
        """Return whether Ctrl-C ended the search."""
        return self.compiled.is_interrupted

    def facts(self) -> dict[str, str]:
        first = self.compiled.history[0].cycles_per_input if self.compiled.history else self.cycles
        return super().facts() | {
            "search": f"{self.compiled.seconds:.1f} s; {first / self.cycles:.2f} times as fast as the first result"
        }

    def save(self, folder: str | Path) -> Path:
        folder = Path(folder)
        self.compiled.save(folder)
        self.page(folder / "compiled.html")
        return folder

    @property
    def _command(self) -> str:
        config = self.config
        return f'placer.compile(..., fabric="{self.fabric.name}", cost="{config.cost.name}", seed={config.seed})'

    def _write_page(self, path: Path) -> None:
        write_page(self.compiled, path, self._command, asdict(self.config))
