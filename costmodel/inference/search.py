"""The learned model as a pricer of the annealer; `placer.annealing.loop` explains the protocol.

A model with a *student* is asked less often. The student alone decides moves, as a pricer does. When
it has accepted `block` of them, the model prices them together as one move, from the placement that
it kept last: either it keeps where the walk is now, or the walk goes back. The block grows by GROWTH
when it is kept and halves when it is not, so about a fifth of the blocks are lost; where the student
errs often, a block is a single move. At the end of each `run` the walk stands where the model agrees.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from costmodel.inference.session import Engine, open_engine, price_state, require_finite, revert_state
from costmodel.networks import FlowNetwork
from placer.annealing import (
    Board,
    Change,
    CompiledSearch,
    Counts,
    Refusal,
    Start,
    State,
    Walk,
    anneal_moves,
    note_best,
    propose_candidates,
    take_candidate,
)
from placer.base import FloatArray, IntArray, LongArray, hot_loop, inlined, uniform
from placer.decision import Decisions
from placer.decision.routing import copy_entries, route_turns
from placer.fabric import Fabric
from placer.netlist import Netlist

MAX_DRIFT = 1e-4  # relative, of a running prediction against a fresh one
GROWTH, MAX_BLOCK = 1.2, 64.0
_COST = int(Refusal.COST)


class Taught(NamedTuple):
    """The pricer of a model with a student."""

    model: Engine  # at the placement that it kept last
    student: Engine  # where the walk is
    level: FloatArray  # [2] that of the model
    kept_sites: IntArray  # [num_units] where the model is
    kept_class: IntArray  # [num_flows]
    accepted: LongArray  # [num kinds] moves since then
    spread: FloatArray  # [2] not read
    block: FloatArray  # [1] accepted moves after which the model is asked


@inlined
def _price(engine: Engine, board: Board, state: State, change: Change, rise: float) -> bool:
    """Predict the state of an applied change; say whether the energy rises by `rise` at most."""
    routes = engine.net.routes
    copy_entries(change.flows, 0, routes.changed, 0, change.num_flows[0])
    routes.num_changed[0] = change.num_flows[0]
    energy = price_state(engine, state.sites, state.flow_class)
    return energy <= engine.level[0] + rise and math.isfinite(energy)


@inlined
def _commit(engine: Engine, change: Change) -> float:
    """Keep a priced change: it stands already; return the energy."""
    engine.level[0] = engine.level[1]
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


@hot_loop
def _anneal_taught(
    pricer: Taught,
    walk: Walk,
    unjudged: Walk,
    num_moves: int,
    temperature: float,
    reach: int,
    accepted: LongArray,
    refused: LongArray,
    spread: FloatArray,
) -> None:
    """The same by a student, whose blocks of moves the model judges; `unjudged` is the same walk without a best."""
    for number in range(num_moves):
        anneal_moves(
            _price, _commit, _revert, pricer.student, unjudged, 1, temperature, reach,
            pricer.accepted, refused, pricer.spread,
        )  # fmt: skip
        waiting = 0
        for kind in range(len(accepted)):
            waiting += pricer.accepted[kind]
        if waiting == 0 or (waiting < pricer.block[0] and number < num_moves - 1):
            continue
        if _judge(pricer, walk, -temperature * math.log(1.0 - uniform(walk.rng))):
            pricer.block[0] = min(GROWTH * pricer.block[0], MAX_BLOCK)
            for kind in range(len(accepted)):
                accepted[kind] += pricer.accepted[kind]
            spread[0] += waiting * pricer.level[0]
            spread[1] += waiting * pricer.level[0] ** 2
        else:
            pricer.block[0] = max(pricer.block[0] / 2, 1.0)
            for kind in range(len(accepted)):
                refused[kind, _COST] += pricer.accepted[kind]
        pricer.accepted[:] = 0


@inlined
def _judge(pricer: Taught, walk: Walk, rise: float) -> bool:
    """Let the model keep where the walk is, if its energy rises by `rise` at most, or take the walk back."""
    model, student, state = pricer.model, pricer.student, walk.state
    flows, routes, again = model.net.flows, model.net.routes, student.net.routes
    num = 0
    for flow in range(len(flows.source)):
        source = flows.source[flow]
        is_changed = state.flow_class[flow] != pricer.kept_class[flow]
        is_changed |= state.sites[source] != pricer.kept_sites[source]
        for end in range(flows.target_start[flow], flows.target_start[flow + 1]):
            is_changed |= state.sites[flows.targets[end]] != pricer.kept_sites[flows.targets[end]]
        if is_changed:
            routes.changed[num] = again.changed[num] = flow
            num += 1
    routes.num_changed[0] = again.num_changed[0] = num
    energy = price_state(model, state.sites, state.flow_class)
    if energy <= model.level[0] + rise and math.isfinite(energy):
        model.level[0] = energy
        copy_entries(state.sites, 0, pricer.kept_sites, 0, len(state.sites))
        copy_entries(state.flow_class, 0, pricer.kept_class, 0, len(state.flow_class))
        note_best(walk, energy)
        return True
    revert_state(model)
    take_candidate(walk, pricer.kept_sites, pricer.kept_class)
    student.level[0] = price_state(student, state.sites, state.flow_class)
    return False


class LearnedSearch(CompiledSearch):
    """A walk through placements by the predictions of one network or several, and of students if given."""

    chunk = 128

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
        self._engines = [self._engine(each) for each in (networks, students) if each]
        if not students:
            self._open(self._engines[0], _anneal_learned)
            return
        model, student = self._engines
        state, num_kinds = self._walk.state, len(mix)
        pricer = Taught(
            model=model,
            student=student,
            level=model.level,
            kept_sites=state.sites.copy(),
            kept_class=state.flow_class.copy(),
            accepted=np.zeros(num_kinds, np.int64),
            spread=np.zeros(2),
            block=np.ones(1),
        )
        unjudged = self._walk._replace(best_level=np.full(1, -np.inf))
        self._open(pricer, lambda pricer, walk, *rest: _anneal_taught(pricer, walk, unjudged, *rest))

    def _engine(self, networks: Sequence[FlowNetwork]) -> Engine:
        """Return an engine where the walk is."""
        state = self._walk.state
        return open_engine(
            networks, self._fabric, self._netlist, state.sites, state.flow_class, self._pessimism
        )  # fmt: skip

    def run(self, num_moves: int, temperature: float, reach: int, counts: Counts) -> None:
        super().run(num_moves, temperature, reach, counts)
        for engine in self._engines:
            require_finite(engine)

    def verify(self) -> None:
        exact = float(self._engine(self._networks).level[0])
        if abs(self.energy - exact) > MAX_DRIFT * max(1.0, abs(exact)):
            raise RuntimeError(f"the running energy {self.energy} differs from the full {exact}")

    def neighbours(self, number: int, reach: int) -> Decisions:
        """Return where the walk is and moves from it, `number` at most, as a stack; the walk stays."""
        state, refused = self._walk.state, Counts().refused
        _, sites, flow_class = propose_candidates(self._walk, 3 * number, reach, refused)
        sites = np.concatenate((state.sites[None], sites))[:number]
        flow_class = np.concatenate((state.flow_class[None], flow_class))[:number]
        return route_turns(self._fabric, self._netlist, sites, flow_class)
