"""From a dataflow graph and a fabric to netlists: plans, and what they say, built."""

from placer.netlist.lowering.check import check_plan
from placer.netlist.lowering.draw import (
    DrawnPlan,
    DrawnSegment,
    Recipe,
    draw_netlist,
    draw_plans,
    draw_segment,
    segment_of,
)
from placer.netlist.lowering.groups import form_groups, is_compute
from placer.netlist.lowering.lower import lower
from placer.netlist.lowering.recount import check_section
from placer.netlist.lowering.rules import DEFAULT_FILL, macs_for_cycles, plan_section
from placer.netlist.lowering.sections import (
    NearSegment,
    Section,
    build_section,
    default_plan,
    lower_plan,
    lower_sections,
    near_segments,
)
from placer.netlist.plan import (
    BufferPlan,
    Cut,
    GroupPlan,
    Plan,
    SectionPlan,
    TileAxis,
    Tiling,
    WeightsPlan,
    load_plan,
    plan_from_dict,
)
