"""Routes: dimension-ordered, negotiated, incremental; and the load they put on the links."""

from placer.routing.incremental import reroute
from placer.routing.load import link_load
from placer.routing.router import RoutingMethod, route, route_turns

__all__ = ["RoutingMethod", "link_load", "reroute", "route", "route_turns"]
