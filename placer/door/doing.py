"""Place or simulate a network in one call: settings come from `conf`, everything else is handed over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from placer.base.config import compose_config, to_dataclass
from placer.compile import CompileConfig
from placer.cost import CostModel
from placer.door.given import GivenCost, fabric_of_user, graph_of, workload_of
from placer.door.result import Compilation, Placement, Simulation
from placer.fabric import Fabric
from placer.pipeline import (
    Lowered,
    PlaceConfig,
    SearchProgress,
    SimulateConfig,
    Source,
    place_sections,
    simulate_sections,
)

S = TypeVar("S", bound=Source)
C = TypeVar("C", PlaceConfig, CompileConfig)


def place(
    network: Any,
    inputs: Any = None,
    *,
    fabric: str | Path | Fabric = "large",
    cost: str | CostModel = "learned",
    seconds: float | None = 10.0,
    seed: int = 0,
    constraints: str | Path | None = None,
    warm_start: str | Path | None = None,
    settings: Sequence[str] = (),
) -> Placement:
    """Place a network on a fabric, simulate it, and return what was found.

    network      an `nn.Module`, a function of tensors, an ONNX file or its bytes, a `DataflowGraph` or its
                 JSON file, a spec, or the name of a built-in workload ("mha", "bert_large", ...)
    inputs       a shape such as (1, 128, 768), one for each input, or example tensors
    fabric       a name ("small", "large", ...), a YAML file, or a `Fabric`
    cost         a name ("learned", "rules", "simulator", ...) or any `CostModel`
    seconds      of search, for all sections together; simulating what was found comes on top
    constraints  a file of fixed units, forbidden sites and regions (docs/placer.md)
    warm_start   a decision file to begin with
    settings     anything else of conf/place.yaml, such as ("starts=4", "workload.layers=1")

    Raises InputError that says what is wrong, what was seen and what is allowed. Ctrl-C ends the search;
    the best that was found is returned.
    """
    config = _searching(PlaceConfig, "place", network, settings, fabric, cost)
    config = replace(
        config,
        time_limit=seconds,
        max_moves=config.max_moves if seconds is None else None,
        seed=seed,
        constraints=None if constraints is None else Path(constraints),
        warm_start=None if warm_start is None else Path(warm_start),
    )
    lowered = _lowered(config, network, inputs)
    progress = SearchProgress(config.to_options(len(lowered.sections)), config.starts, quiet=True)
    return Placement(config, lowered, tuple(place_sections(config, lowered.sections, progress)))


def compile(
    network: Any,
    inputs: Any = None,
    *,
    fabric: str | Path | Fabric = "large",
    cost: str | CostModel = "learned",
    seconds: float = 60.0,
    seed: int = 0,
    settings: Sequence[str] = (),
) -> Compilation:
    """Compile a whole network: search cuts, layouts and placements together, and return the fastest that was found.

    What the network, its inputs, the fabric and the cost model may be is told by `placer.place`, which takes the
    cuts and layouts of the rules and searches placements alone. `seconds` are those of the whole search, though the
    first result may take longer; `settings` are those of conf/compile.yaml, such as ("workers=1",). Raises
    InputError likewise.
    """
    config = _searching(CompileConfig, "compile", network, settings, fabric, cost)
    config = replace(config, time_limit=seconds, seed=seed)
    compiled = config.compiled(graph=None if workload_of(network) else graph_of(network, inputs))
    results = tuple(section.result for section in compiled.sections)
    lowered = Lowered(compiled.plan, tuple(result.section for result in results))
    return Compilation(config, lowered, results, compiled)


def simulate(
    network: Any,
    inputs: Any = None,
    *,
    fabric: str | Path | Fabric = "large",
    placement: str | Path = "random",
    seed: int = 0,
    settings: Sequence[str] = (),
) -> Simulation:
    """Simulate a network that is placed at random, or as a decision file says, and return what was measured.

    What the network, its inputs and the fabric may be is told by `placer.place`; `settings` are those of
    conf/simulate.yaml. Raises InputError likewise.
    """
    config = _settings(SimulateConfig, "simulate", network, settings, fabric)
    config = replace(config, placement=str(placement), seed=seed)
    lowered = _lowered(config, network, inputs)
    return Simulation(config, lowered, tuple(simulate_sections(config, lowered.sections)))


def _searching(
    schema: type[C], command: str, network: Any, overrides: Sequence[str], fabric: str | Path | Fabric,
    cost: str | CostModel,
) -> C:  # fmt: skip
    """Return the settings of a command that searches, with a cost model that was named or handed over."""
    given = None if isinstance(cost, str) else GivenCost(cost)
    chosen = f"cost={cost if given is None else given.settings}"
    config = _settings(schema, command, network, [chosen, *overrides], fabric)
    return config if given is None else replace(config, cost=given)


def _settings(schema: type[S], command: str, network: Any, overrides: Sequence[str], fabric: str | Path | Fabric) -> S:
    """Return the settings of a command, with a fabric that was handed over."""
    workload = workload_of(network)
    chosen = [] if workload is None else [f"workload={workload}"]
    config = to_dataclass(schema, compose_config(command, [*chosen, *overrides]))
    return replace(config, fabric=fabric_of_user(fabric))


def _lowered(config: Source, network: Any, inputs: Any) -> Lowered:
    return config.lowered(None if workload_of(network) else graph_of(network, inputs))
