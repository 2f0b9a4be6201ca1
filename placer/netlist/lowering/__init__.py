"""From a dataflow graph and a fabric to netlists: shards, stages, buffers, sections."""

from placer.netlist.lowering.draw import SECTION, draw_netlist, draw_section, draw_spec
from placer.netlist.lowering.groups import is_compute
from placer.netlist.lowering.lower import lower
from placer.netlist.lowering.sections import Section, lower_sections
from placer.netlist.lowering.sharding import DEFAULT_FILL, macs_for_cycles
