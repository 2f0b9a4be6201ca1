"""The independent checker: is a decision legal on this fabric?

Nothing leaves a placer or router unchecked. This module shares no code with them: it is plain
Python, follows `docs/simulator.md`, and trusts neither ids nor array shapes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np

from placer.base import InputError, IntArray
from placer.decision.decision import Decisions
from placer.fabric import Direction, Fabric, SiteKind
from placer.netlist import Flow, Netlist, Unit

_OPPOSITE = {
    Direction.EAST: Direction.WEST,
    Direction.WEST: Direction.EAST,
    Direction.NORTH: Direction.SOUTH,
    Direction.SOUTH: Direction.NORTH,
}
_VERTICAL = (Direction.NORTH, Direction.SOUTH)
_MOST_REPORTED = 5  # decisions named in one error message


def check(fabric: Fabric, netlist: Netlist, decisions: Decisions) -> None:
    """Raise InputError with the first problem of each illegal decision."""
    shape_problem = next(_shape_problems(netlist, decisions), None)
    if shape_problem:
        raise InputError(f"decisions of netlist {netlist.name!r}: {shape_problem}")
    firsts = [
        f"decision {index}: {found[0]}"
        for index in range(len(decisions))
        if (found := problems(fabric, netlist, decisions, index))
    ]
    if firsts:
        more = f"; and {len(firsts) - _MOST_REPORTED} more" if len(firsts) > _MOST_REPORTED else ""
        raise InputError(
            f"netlist {netlist.name!r} on fabric {fabric.name!r}: {len(firsts)} of "
            f"{len(decisions)} decisions are illegal: " + "; ".join(firsts[:_MOST_REPORTED]) + more
        )


def problems(fabric: Fabric, netlist: Netlist, decisions: Decisions, index: int) -> list[str]:
    """Return everything that is wrong with decision number `index`, in words; the list is empty when it is legal."""
    found = list(_shape_problems(netlist, decisions))
    if found:
        return found
    sites = [int(site) for site in decisions.sites[index]]
    found = list(_site_problems(fabric, netlist, sites))
    if found:
        return found  # routes cannot be judged without the sites of their ends
    found = list(_sharing_problems(fabric, netlist, sites))
    for flow_id, flow in enumerate(netlist.flows):
        links, parents = decisions.route(flow_id, index)
        channel = int(decisions.channels[index, flow_id])
        for problem in _route_problems(fabric, flow, sites, channel, links, parents):
            found.append(f"flow {flow_id} ({flow.name}): {problem}")
    return found


def _shape_problems(netlist: Netlist, decisions: Decisions) -> Iterator[str]:
    num, starts = len(decisions.sites), decisions.route_start
    num_nodes = decisions.links.size
    for name, array, shape in (
        ("sites", decisions.sites, (num, netlist.num_units)),
        ("channels", decisions.channels, (num, netlist.num_flows)),
        ("route_start", starts, (num, netlist.num_flows + 1)),
        ("links", decisions.links, (num_nodes,)),
        ("parents", decisions.parents, (num_nodes,)),
    ):
        if array.shape != shape:
            yield f"{name} has shape {array.shape}, needed {shape}"
        elif not np.issubdtype(array.dtype, np.integer):
            yield f"{name} holds {array.dtype}, needed integers"
    if starts.shape == (num, netlist.num_flows + 1) and starts.size:
        if (starts[:, 1:] < starts[:, :-1]).any():
            yield "route_start falls from one flow to the next"
        if starts.min() < 0 or starts.max() > num_nodes:
            yield f"route_start spans {starts.min()} to {starts.max()}, allowed 0 to {num_nodes}"


def _site_problems(fabric: Fabric, netlist: Netlist, sites: list[int]) -> Iterator[str]:
    topology = fabric.topology
    for unit_id, (unit, site) in enumerate(zip(netlist.units, sites, strict=True)):
        if not 0 <= site < topology.num_sites:
            yield (f"unit {unit_id} ({unit.name}) sits on site {site}; allowed 0 to {topology.num_sites - 1}")
        elif topology.site_kind[site] != unit.kind:
            holds = SiteKind(topology.site_kind[site]).name.lower()
            yield (
                f"unit {unit_id} ({unit.name}) needs a {unit.kind.name.lower()} site, "
                f"but {_site_name(fabric, site)} is for {holds}"
            )


def _sharing_problems(fabric: Fabric, netlist: Netlist, sites: list[int]) -> Iterator[str]:
    tenants: defaultdict[int, list[Unit]] = defaultdict(list)
    for unit, site in zip(netlist.units, sites, strict=True):
        tenants[site].append(unit)
    for site, units in sorted(tenants.items()):
        kind = units[0].kind
        who = f"{_site_name(fabric, site)} holds {', '.join(unit.name for unit in units)}"
        most = fabric.max_units(kind)
        if len(units) > most:
            yield f"{who}: {len(units)} units, allowed {most} on a {kind.name.lower()} site"
        used = sum(unit.bytes for unit in units)
        if kind == SiteKind.MEMORY and used > fabric.memory.capacity_bytes:
            yield f"{who}: {used} bytes, allowed {fabric.memory.capacity_bytes}"


def _site_name(fabric: Fabric, site: int) -> str:
    row, column = divmod(int(fabric.topology.site_switch[site]), fabric.columns)
    return f"site {site} (row {row}, column {column})"


def _route_problems(
    fabric: Fabric, flow: Flow, sites: list[int], channel: int, links: IntArray, parents: IntArray
) -> Iterator[str]:
    """Yield what is wrong with the tree of one flow; later rules are checked only where earlier ones hold."""
    topology = fabric.topology
    if not 0 <= channel < fabric.link.channels:
        yield f"channel {channel}; allowed 0 to {fabric.link.channels - 1}"
        return
    nodes = [(int(link), int(parent)) for link, parent in zip(links, parents, strict=True)]
    if not nodes:
        yield "it has no route"
        return
    for node, (link, parent) in enumerate(nodes):
        if not 0 <= link < topology.num_links:
            yield f"node {node} is link {link}; allowed 0 to {topology.num_links - 1}"
            return
        if not (parent == -1 if node == 0 else 0 <= parent < node):
            yield f"node {node} has parent {parent}; parents stand before children, -1 is the root"
            return
    if nodes[0][0] != topology.inject_link(sites[flow.source]):
        yield (
            f"the route starts with {_link_name(fabric, nodes[0][0])}, "
            f"its source sits on {_site_name(fabric, sites[flow.source])}"
        )
    turn_class = 0 if channel < fabric.link.channels // 2 else 1
    for node, (link, parent) in enumerate(nodes[1:], start=1):
        problem = _step_problem(fabric, nodes[parent][0], link, turn_class)
        if problem:
            step = f"{_link_name(fabric, nodes[parent][0])} to {_link_name(fabric, link)}"
            yield f"node {node}, from {step}: {problem}"
    yield from _tree_problems(fabric, nodes)
    yield from _leaf_problems(fabric, nodes, {sites[target] for target in flow.targets})


def _step_problem(fabric: Fabric, link: int, after: int, turn_class: int) -> str | None:
    """Return why a route must not go from one link to the next, None if it may."""
    topology = fabric.topology
    heading = Direction(topology.link_direction[link])
    turn = Direction(topology.link_direction[after])
    if heading == Direction.EJECT or turn == Direction.INJECT:
        return "inject links only start a route, eject links only end it"
    if topology.link_target[link] != topology.link_source[after]:
        return "the links do not meet"
    if _OPPOSITE.get(heading) == turn:
        return "U-turn"
    if turn_class == 0 and heading in _VERTICAL and turn == Direction.WEST:
        return f"channels of class 0 must not turn from {heading.name.lower()} to west"
    if turn_class == 1 and heading == Direction.WEST and turn in _VERTICAL:
        return f"channels of class 1 must not turn from west to {turn.name.lower()}"
    return None


def _tree_problems(fabric: Fabric, nodes: list[tuple[int, int]]) -> Iterator[str]:
    links = [link for link, _ in nodes]
    entered = [int(fabric.topology.link_target[link]) for link in links]
    for link in _repeated(links):
        yield f"{_link_name(fabric, link)} is used twice"
    for switch in _repeated([switch for switch in entered if switch >= 0]):
        row, column = divmod(switch, fabric.columns)
        yield f"the switch in row {row}, column {column} is entered twice"


def _leaf_problems(fabric: Fabric, nodes: list[tuple[int, int]], target_sites: set[int]) -> Iterator[str]:
    topology = fabric.topology
    inner = {parent for _, parent in nodes}
    leaves = {link for node, (link, _) in enumerate(nodes) if node not in inner}
    needed = {topology.eject_link(site) for site in target_sites}
    for link in sorted(leaves - needed):
        yield f"the route ends with {_link_name(fabric, link)}, where no target sits"
    for link in sorted(needed - leaves):
        site = link - topology.num_mesh_links - topology.num_sites
        yield f"the route does not reach its target on {_site_name(fabric, site)}"


def _repeated(values: list[int]) -> list[int]:
    return [value for value, count in Counter(values).items() if count > 1]


def _link_name(fabric: Fabric, link: int) -> str:
    topology = fabric.topology
    direction = Direction(topology.link_direction[link])
    if direction == Direction.INJECT:
        return f"inject link {link} of {_site_name(fabric, link - topology.num_mesh_links)}"
    if direction == Direction.EJECT:
        site = link - topology.num_mesh_links - topology.num_sites
        return f"eject link {link} of {_site_name(fabric, site)}"
    row, column = divmod(int(topology.link_source[link]), fabric.columns)
    return f"link {link} ({direction.name.lower()} from row {row}, column {column})"
