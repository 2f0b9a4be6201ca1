"""What is placed: units with pipeline stages, and flows between them."""

from placer.netlist.bound import Bound, full_bound
from placer.netlist.flows import Flows, connect, flows_of
from placer.netlist.netlist import Flow, Netlist, Unit
from placer.netlist.packing import first_fit_decreasing
