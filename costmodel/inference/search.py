"""The learned model as a pricer of the annealer; `placer.annealing.loop` explains the protocol."""

from __future__ import annotations

import math
from collections.abc import Sequence

from costmodel.inference.forward import turn_back
from costmodel.inference.session import Engine, open_engine, price_state, require_finite
from costmodel.networks import FlowNetwork
from placer.annealing import Board, Change, CompiledSearch, Counts, Start, State, Walk, anneal_moves
from placer.base import FloatArray, LongArray, hot_loop, inlined
from placer.decision.routing import copy_entries
from placer.fabric import Fabric
from placer.netlist import Netlist

MAX_DRIFT = 1e-4  # relative, of a running prediction against a fresh one


@inlined
def _price(engine: Engine, board: Board, state: State, change: Change, rise: float) -> bool:
    """Predict the state of an applied change; say whether the energy rises by `rise` at most."""
    allowed, scratch = engine.level[0] + rise, engine.net.scratch
    copy_entries(change.flows, 0, scratch.changed, 0, change.num_flows[0])
    scratch.num_changed[0] = change.num_flows[0]
    energy = -price_state(engine, state.sites, state.flow_class, engine.tolerance)
    if energy <= allowed and engine.tolerance > 0:  # where a walk stands is always exact
        turn_back(engine.net)
        energy = -price_state(engine, state.sites, state.flow_class, 0.0)
    engine.level[1] = energy
    return energy <= allowed and math.isfinite(energy)


@inlined
def _commit(engine: Engine, change: Change) -> float:
    """Keep a priced change: it stands already; return the energy."""
    engine.level[0] = engine.level[1]
    return float(engine.level[0])


@inlined
def _revert(engine: Engine, board: Board, change: Change) -> None:
    """Take a priced change back."""
    turn_back(engine.net)


@hot_loop
def _anneal_learned(
    engine: Engine,
    walk: Walk,
    num_moves: int,
    temperature: float,
    reach: int,
    accepted: LongArray,
    refused: LongArray,
    spread: FloatArray,
) -> None:
    """Try moves at one temperature, see `anneal_moves`."""
    anneal_moves(
        _price, _commit, _revert, engine, walk, num_moves, temperature, reach, accepted, refused,
        spread,
    )  # fmt: skip


class LearnedSearch(CompiledSearch):
    """A walk through placements by the predictions of one network or several."""

    def __init__(
        self,
        networks: Sequence[FlowNetwork],
        fabric: Fabric,
        netlist: Netlist,
        start: Start,
        mix: FloatArray,
        seed: int,
        pessimism: float = 0.0,
        tolerance: float = 0.0,
    ) -> None:
        super().__init__(fabric, netlist, start, mix, seed)
        self._networks, self._pessimism = networks, pessimism
        self._open(self._engine(tolerance), _anneal_learned)

    def _engine(self, tolerance: float = 0.0) -> Engine:
        """Return an engine where the walk is."""
        state = self._walk.state
        return open_engine(
            self._networks, self._fabric, self._netlist, state.sites, state.flow_class,
            self._pessimism, tolerance,
        )  # fmt: skip

    def run(self, num_moves: int, temperature: float, reach: int, counts: Counts) -> None:
        super().run(num_moves, temperature, reach, counts)
        require_finite(self._pricer)

    def verify(self) -> None:
        exact = float(self._engine().level[0])
        if abs(self.energy - exact) > MAX_DRIFT * max(1.0, abs(exact)):
            raise RuntimeError(f"the running energy {self.energy} differs from the full {exact}")
