"""A compiled network: its plan, every distinct section placed and simulated, and its time; also as files."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from placer.base import (
    InputError,
    file_name,
    finite,
    make_folder,
    parse_object,
    plain,
    read_text,
    require_kind,
    write_atomic,
)
from placer.decision import check
from placer.decision.routing import load_decision, save_decision
from placer.fabric import Fabric, fabric_of
from placer.graph import DataflowGraph, load_graph, to_json
from placer.netlist.lowering import Plan, check_plan, load_plan, lower_plan
from placer.pipeline import NetworkTime, SectionResult, section_time_to_dict, time_of, time_to_dict, write_time
from placer.simulation import label_limits, simulate

KIND = "compiled network"
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Progress:
    """The best whole time that was known after some seconds, and some placements."""

    seconds: float
    cycles_per_input: float
    num_placed: int = 0  # in files that do not tell


@dataclass(frozen=True, slots=True)
class CompiledSection:
    """One distinct section of a compiled network."""

    result: SectionResult
    predicted_cycles: float  # per sample: what was expected before it was simulated; nan if nobody was asked


@dataclass(frozen=True, slots=True)
class CompiledNetwork:
    """A network that is ready to run, and how it was found."""

    fabric: Fabric
    graph: DataflowGraph
    plan: Plan
    sections: tuple[CompiledSection, ...]  # in the order of their first use
    time: NetworkTime
    cost: str  # name of the cost model that the search asked
    seed: int
    seconds: float  # of wall clock that the search took
    history: tuple[Progress, ...]  # whenever the best got better
    is_interrupted: bool = False  # by Ctrl-C: more time would have been left

    @property
    def cycles_per_input(self) -> float:
        return self.time.cycles_per_input

    @property
    def share_of_peak(self) -> float:
        return self.time.share_of_peak

    @property
    def throughput(self) -> float | None:
        """Return the inputs per second; None when the clock of the fabric is not known."""
        return self.time.inputs_per_second

    def require_legal(self) -> None:
        """Hold plan and placements against the independent checkers. Raises InputError."""
        check_plan(self.fabric, self.graph, self.plan)
        for section in self.sections:
            check(self.fabric, section.result.section.netlist, section.result.decision)

    def save(self, folder: str | Path) -> None:
        """Write everything into a folder, checked: `load_compiled` reads it again."""
        self.require_legal()
        folder = Path(folder)
        make_folder(folder)
        name = file_name(self.fabric.name)
        write_atomic(folder / "graph.json", to_json(self.graph) + "\n")
        write_atomic(folder / f"plan.{name}.json", self.plan.to_json())
        for section in self.sections:
            netlist, decision = section.result.section.netlist, section.result.decision
            save_decision(folder / _decision_file(netlist.name, name), self.fabric, netlist, decision)
        write_time(folder, name, self.time, self.graph.name)
        write_atomic(folder / "compiled.json", json.dumps(self.to_dict(), indent=1, default=plain) + "\n")

    def to_dict(self) -> dict[str, Any]:
        """Return what `compiled.json` holds."""
        return {
            "kind": KIND,
            "schema": SCHEMA_VERSION,
            "network": self.graph.name,
            "cost": self.cost,
            "seed": self.seed,
            "seconds": self.seconds,
            "is_interrupted": self.is_interrupted,
            **time_to_dict(self.time),
            "sections": [self._section_to_dict(number) for number in range(len(self.sections))],
            "history": [asdict(step) for step in self.history],
            "fabric": asdict(self.fabric),
        }

    def _section_to_dict(self, number: int) -> dict[str, Any]:
        section = self.sections[number]
        built, measured = section.result.section, section.result.measurement
        return {
            "netlist": built.netlist.name,
            "fingerprint": built.netlist.fingerprint,
            "repeats": built.repeats,
            "samples": built.samples,
            "bound_cycles": built.netlist.bound_cycles,
            "predicted_cycles": finite(section.predicted_cycles),
            "cycles_per_sample": finite(measured.cycles_per_sample),
            "first_sample_cycles": measured.first_sample_cycles,
            "critical": measured.critical,
            "time": section_time_to_dict(self.time.sections[number]),
        }


def _decision_file(netlist: str, fabric: str) -> str:
    return file_name(f"{netlist}.{fabric}.decision.json")


def load_compiled(folder: str | Path) -> CompiledNetwork:
    """Read what `save` wrote. Nothing is trusted: plan and decisions are checked, sections simulated again.

    Raises InputError when a file is missing or wrong, or the network takes another time than it says.
    """
    path = Path(folder) / "compiled.json"
    try:
        return _load(Path(folder), parse_object(read_text(path)))
    except InputError as error:
        raise InputError(f"compiled network {folder}: {error}") from error


def _load(folder: Path, document: dict[str, Any]) -> CompiledNetwork:
    require_kind(document, KIND, SCHEMA_VERSION)
    told = _Told.of(document)
    name = file_name(told.fabric.name)
    graph = load_graph(folder / "graph.json")
    plan = load_plan(folder / f"plan.{name}.json")
    built = lower_plan(told.fabric, graph, plan)
    if len(built) != len(told.predicted):
        raise InputError(f"compiled.json tells of {len(told.predicted)} sections, the plan of {len(built)}")
    sections = []
    for section, predicted in zip(built, told.predicted, strict=True):
        netlist = section.netlist
        decision = load_decision(folder / _decision_file(netlist.name, name), told.fabric, netlist)
        measured = simulate(told.fabric, netlist, decision, label_limits(netlist.bound_cycles))[0]
        sections.append(CompiledSection(SectionResult(section, decision, measured), predicted))
    time = time_of(told.fabric, [section.result for section in sections], told.batch)
    if not math.isclose(time.cycles_per_input, told.cycles_per_input, rel_tol=1e-9):
        raise InputError(
            f"cycles_per_input is {told.cycles_per_input}, but its sections take {time.cycles_per_input}; "
            "compile the network again"
        )
    return CompiledNetwork(
        told.fabric,
        graph,
        plan,
        tuple(sections),
        time,
        told.cost,
        told.seed,
        told.seconds,
        told.history,
        told.is_interrupted,
    )


@dataclass(frozen=True, slots=True)
class _Told:
    """What is taken from `compiled.json`; everything else is worked out again."""

    fabric: Fabric
    batch: int
    cycles_per_input: float
    predicted: tuple[float, ...]  # one per section
    cost: str
    seed: int
    seconds: float
    history: tuple[Progress, ...]
    is_interrupted: bool

    @staticmethod
    def of(document: dict[str, Any]) -> _Told:
        try:
            return _Told(
                fabric=fabric_of(document["fabric"]),
                batch=_whole(document["batch"], 1),
                cycles_per_input=_number(document["cycles_per_input"]),
                predicted=tuple(
                    math.nan if one["predicted_cycles"] is None else _number(one["predicted_cycles"])
                    for one in document["sections"]
                ),
                cost=str(document["cost"]),
                seed=_whole(document["seed"], 0),
                seconds=_number(document["seconds"]),
                history=tuple(
                    Progress(
                        _number(one["seconds"]),
                        _number(one["cycles_per_input"]),
                        int(_number(one.get("num_placed", 0))),
                    )
                    for one in document["history"]
                ),
                is_interrupted=document["is_interrupted"] is True,
            )
        except (KeyError, TypeError) as error:
            raise InputError(f"compiled.json is no compiled network: {error!r:.80} is missing or wrong") from error


def _number(value: object) -> float:
    if type(value) not in (int, float) or not math.isfinite(value) or value < 0:  # type: ignore[arg-type, operator]
        raise InputError(f"compiled.json holds {value!r:.40} where a number of 0 or more is needed")
    return float(value)  # type: ignore[arg-type]


def _whole(value: object, least: int) -> int:
    if type(value) is not int or value < least:
        raise InputError(f"compiled.json holds {value!r:.40} where a whole number from {least} is needed")
    return value
