"""The learned model as a pricer of the annealer; `placer.annealing.loop` explains the protocol."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from costmodel.inference.session import Engine, open_engine, price_state, require_finite, revert_state
from costmodel.networks import FlowNetwork
from placer.annealing import Board, Change, CompiledSearch, Counts, Start, State, Walk, anneal_moves, propose_candidates
from placer.base import FloatArray, LongArray, hot_loop, inlined
from placer.decision import Decisions
from placer.decision.routing import copy_entries, route_turns
from placer.fabric import Fabric
from placer.netlist import Netlist

MAX_DRIFT = 1e-4  # relative, of a running prediction against a fresh one


@inlined
def _price(engine: Engine, board: Board, state: State, change: Change, rise: float) -> bool:
    """Predict the state of an applied change; say whether the energy rises by `rise` at most."""
    routes = engine.net.routes
    copy_entries(change.flows, 0, routes.changed, 0, change.num_flows[0])
    routes.num_changed[0] = change.num_flows[0]
    return price_state(engine, state.sites, state.flow_class, rise)


@inlined
def _commit(engine: Engine, change: Change) -> float:
    """Keep a priced change: it stands already; return the energy."""
    engine.level[0], engine.student_level[0] = engine.level[1], engine.student_level[1]
    return float(engine.level[0])


@inlined
def _revert(engine: Engine, board: Board, change: Change) -> None:
    """Take a priced change back."""
    revert_state(engine)


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
    """A walk through placements by the predictions of one network or several.

    With `students`, a move must please them first; only then the networks are asked. So where a walk
    stands is what the networks predict, and moves that are refused, the most, are cheap.
    """

    def __init__(
        self,
        networks: Sequence[FlowNetwork],
        fabric: Fabric,
        netlist: Netlist,
        start: Start,
        mix: FloatArray,
        seed: int,
        pessimism: float = 0.0,
        students: Sequence[FlowNetwork] = (),
    ) -> None:
        super().__init__(fabric, netlist, start, mix, seed)
        self._networks, self._pessimism = networks, pessimism
        self._open(self._engine(students), _anneal_learned)

    def _engine(self, students: Sequence[FlowNetwork] = ()) -> Engine:
        """Return an engine where the walk is."""
        state = self._walk.state
        return open_engine(
            self._networks, self._fabric, self._netlist, state.sites, state.flow_class,
            self._pessimism, students,
        )  # fmt: skip

    def run(self, num_moves: int, temperature: float, reach: int, counts: Counts) -> None:
        super().run(num_moves, temperature, reach, counts)
        require_finite(self._pricer)

    def verify(self) -> None:
        exact = float(self._engine().level[0])
        if abs(self.energy - exact) > MAX_DRIFT * max(1.0, abs(exact)):
            raise RuntimeError(f"the running energy {self.energy} differs from the full {exact}")

    def neighbours(self, number: int, reach: int) -> Decisions:
        """Return where the walk is and moves from it, `number` at most, as a stack; the walk stays."""
        state, refused = self._walk.state, Counts().refused
        _, sites, flow_class = propose_candidates(self._walk, 3 * number, reach, refused)
        sites = np.concatenate((state.sites[None], sites))[:number]
        flow_class = np.concatenate((state.flow_class[None], flow_class))[:number]
        return route_turns(self._fabric, self._netlist, sites, flow_class)
