"""Routes: dimension-ordered, negotiated, incremental; the load of links, and what it demands."""

from placer.decision.routing.arrays import Grid, grid_of, require_routes, require_sites
from placer.decision.routing.decision_file import decision_text, load_decision, parse_decision, save_decision
from placer.decision.routing.demand import MAX_DOUBLINGS, Demand, Rules, Tables, demand_of, estimate, power, tables_of
from placer.decision.routing.dimension_ordered import (
    add_node,
    dimension_channels,
    dimension_tree,
    route_dimension_ordered,
)
from placer.decision.routing.incremental import reroute
from placer.decision.routing.load import Usage, link_load, usage_of
from placer.decision.routing.router import RoutingMethod, route, route_turns
from placer.decision.routing.trees import Marks, copy_entries, empty_marks, hops
