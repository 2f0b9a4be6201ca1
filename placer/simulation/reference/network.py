"""Network of the plain-Python engine: routes, FIFOs and the arbitration of links."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from placer.decision import Decisions
from placer.fabric import FULL_PACE, Fabric, SiteKind, pace_of
from placer.netlist import Flow, Netlist, Unit
from placer.simulation.reference.units import Delayed, Inlet, Outlet, ceil_div


@dataclass(eq=False, slots=True)
class Route:
    """The way of a flow through the network."""

    channels: dict[int, int]  # by link
    inject_link: int
    next_links: dict[int, list[int]]  # inject or mesh link -> links that continue from it
    outlet: Outlet
    inlets: dict[int, list[Inlet]]  # eject link -> the targets behind it

    def can_inject(self, t: int) -> bool:
        queue = self.outlet.queue
        return bool(queue) and queue[0] <= t and all(i.credits.visible for i in self.all_inlets())

    def all_inlets(self) -> list[Inlet]:
        return [inlet for inlets in self.inlets.values() for inlet in inlets]


@dataclass(eq=False, slots=True)
class Vector:
    """A vector on its way to or in a FIFO."""

    route: Route
    visible_at: int
    still_to_send: list[int]  # links over which no copy has gone yet


Fifo = deque[Vector]


@dataclass(frozen=True, slots=True)
class Request:
    """A vector that wants to go over a link: a FIFO's head or, without FIFO, an output queue's."""

    link: int
    route: Route
    fifo: Fifo | None
    turn: int  # by which round robin goes: flow id, or number of the FIFO


class Network:
    """Links and the FIFOs at their far ends, one wherever a route needs it; empty at first."""

    def __init__(self, fabric: Fabric, routes: list[Route]) -> None:
        self.link_cycles: list[int] = fabric.topology.link_cycles.tolist()
        self.link_width: list[int] = fabric.topology.link_width.tolist()
        self.fifo_vectors = fabric.link.fifo_vectors
        self.num_mesh_links = fabric.topology.num_mesh_links
        self.num_channels = fabric.link.channels
        self.cores = fabric.cores
        self.mesh_pace = FULL_PACE
        if self.cores is not None:
            rate = self.cores.link_bytes_per_cycle / fabric.link.vectors_per_cycle
            self.mesh_pace = pace_of(rate, fabric.vector_bytes)
        self.routes = routes
        self.fifos: dict[tuple[int, int], Fifo] = {  # by inject or mesh link, and channel
            (link, route.channels[link]): deque() for route in routes for link in route.next_links
        }
        self.last_winner = [-1] * fabric.topology.num_links
        self.link_vectors = [0] * fabric.topology.num_links

    def choose(self, t: int) -> list[Request]:
        """Return the requests that are granted now, in the order of granting at every link."""
        requests = [Request(r.inject_link, r, None, r.outlet.flow_id) for r in self.routes if r.can_inject(t)]
        for (before, channel), fifo in self.fifos.items():
            if fifo and fifo[0].visible_at <= t:
                head = fifo[0]
                number = before * self.num_channels + channel
                turn = head.route.outlet.flow_id if self.cores is None else number
                requests += [Request(link, head.route, fifo, turn) for link in head.still_to_send]
        if self.is_paused(t):
            requests = [request for request in requests if request.link >= self.num_mesh_links]
        by_link: dict[int, list[Request]] = {}
        for request in requests:
            by_link.setdefault(request.link, []).append(request)
        return [grant for link in by_link for grant in self.arbitrate(link, by_link[link])]

    def is_paused(self, t: int) -> bool:
        """Say whether links between switches grant nothing in cycle t, since their rate is no whole vector."""
        return (t + 1) * self.mesh_pace // FULL_PACE == t * self.mesh_pace // FULL_PACE

    def arbitrate(self, link: int, requests: list[Request]) -> list[Request]:
        granted: list[Request] = []
        waiting = list(requests)
        last_winner = self.last_winner[link]
        for _ in range(self.link_width[link]):
            eligible = [request for request in waiting if self.has_room(request, granted)]
            if eligible:
                winner = min(eligible, key=lambda request: (request.turn <= last_winner, request.turn))
                waiting.remove(winner)
                granted.append(winner)
                last_winner = winner.turn
        return granted

    def has_room(self, request: Request, granted: list[Request]) -> bool:
        link = request.link
        if link in request.route.inlets:  # input queues have room for what has a credit
            return True
        channel = request.route.channels[link]
        sent_now = sum(grant.route.channels[link] == channel for grant in granted)
        occupancy = len(self.fifos[link, channel]) + sent_now
        return occupancy < self.fifo_vectors + self.link_cycles[link]

    def apply(self, t: int, granted: list[Request]) -> None:
        for grant in granted:
            self.leave(grant)
            self.send(t, grant)
        for fifo in self.fifos.values():
            if fifo and not fifo[0].still_to_send:
                fifo.popleft()

    def leave(self, grant: Request) -> None:
        if grant.fifo is not None:
            grant.fifo[0].still_to_send.remove(grant.link)
            return
        grant.route.outlet.queue.popleft()
        for inlet in grant.route.all_inlets():
            inlet.credits.visible -= 1

    def send(self, t: int, grant: Request) -> None:
        link, route = grant.link, grant.route
        self.last_winner[link] = grant.turn
        self.link_vectors[link] += 1
        arrival = t + self.link_cycles[link]
        if link in route.inlets:
            for inlet in route.inlets[link]:
                inlet.queue.on_way.append(arrival)
        else:
            vector = Vector(route, arrival, list(route.next_links[link]))
            self.fifos[link, route.channels[link]].append(vector)


def build_route(fabric: Fabric, netlist: Netlist, decisions: Decisions, flow_id: int) -> Route:
    """Build the route of one flow, with empty queues and all credits at the source."""
    flow = netlist.flows[flow_id]
    links, parents = (nodes.tolist() for nodes in decisions.route(flow_id))
    inlets: dict[int, list[Inlet]] = {}
    for position, target in enumerate(flow.targets):
        eject_link = fabric.topology.eject_link(int(decisions.sites[0, target]))
        hops = _mesh_hops(fabric, links, parents, links.index(eject_link))
        inlet = Inlet(
            flow_id=flow_id,
            tokens=flow.tokens,
            position=position,
            operand_vectors=min(fabric.compute.operand_vectors, _window(fabric, netlist.units[target])),
            credit_cycles=hops * fabric.link.credit_hop_cycles + 1,
            credits=Delayed(_window(fabric, netlist.units[target])),
        )
        inlets.setdefault(eject_link, []).append(inlet)
    outlet = Outlet(
        flow_id=flow_id,
        tokens=flow.tokens,
        capacity=_output_capacity(fabric, netlist.units[flow.source], flow),
        read_cycles=flow.read_cycles,
    )
    return Route(_channels(fabric, decisions, flow_id), links[0], _next_links(links, parents), outlet, inlets)


def _channels(fabric: Fabric, decisions: Decisions, flow_id: int) -> dict[int, int]:
    """Return the channel of a flow on each of its links: another one behind the date line of a ring."""
    links, parents = (nodes.tolist() for nodes in decisions.route(flow_id))
    channel, topology = int(decisions.channels[0, flow_id]), fabric.topology
    channels: dict[int, int] = {}
    for link, parent in zip(links, parents, strict=True):
        before = links[parent] if parent >= 0 else -1
        stays = before >= 0 and topology.link_direction[before] == topology.link_direction[link]
        is_behind = bool(topology.link_crosses[link]) or (stays and channels[before] != channel)
        channels[link] = channel + fabric.link.channels // 2 if is_behind else channel
    return channels


def _next_links(links: list[int], parents: list[int]) -> dict[int, list[int]]:
    """Return by link the links that continue from it; no entry for eject links."""
    next_links: dict[int, list[int]] = {}
    for link, parent in zip(links, parents, strict=True):
        if parent >= 0:
            next_links.setdefault(links[parent], []).append(link)
    return next_links


def _mesh_hops(fabric: Fabric, links: list[int], parents: list[int], node: int) -> int:
    """Count the mesh links between the root of a route tree and one of its nodes."""
    hops = 0
    while node >= 0:
        hops += links[node] < fabric.topology.num_mesh_links
        node = parents[node]
    return hops


def _window(fabric: Fabric, target: Unit) -> int:
    if target.kind == SiteKind.COMPUTE:
        return fabric.compute.window_vectors
    if target.kind == SiteKind.MEMORY:
        return fabric.memory.window_vectors
    return fabric.dram.window_vectors


def _output_capacity(fabric: Fabric, source: Unit, flow: Flow) -> int:
    if source.kind == SiteKind.COMPUTE:
        release = ceil_div(flow.tokens, source.releases)
        in_pipeline = release * ceil_div(source.depth_cycles * source.releases, source.cycles)
        return max(fabric.compute.output_vectors, 2 * release) + in_pipeline
    if source.kind == SiteKind.MEMORY:
        return fabric.memory.output_vectors
    return fabric.dram.prefetch_vectors
