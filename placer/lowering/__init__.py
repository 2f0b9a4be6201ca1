"""From a dataflow graph and a fabric to netlists: shards, stages, buffers, sections."""

from placer.lowering.draw import SECTION, draw_netlist, draw_section, draw_spec
from placer.lowering.lower import lower
from placer.lowering.sections import Section, lower_sections
from placer.lowering.sharding import DEFAULT_FILL, macs_for_cycles

__all__ = [
    "DEFAULT_FILL",
    "SECTION",
    "Section",
    "draw_netlist",
    "draw_section",
    "draw_spec",
    "lower",
    "lower_sections",
    "macs_for_cycles",
]
