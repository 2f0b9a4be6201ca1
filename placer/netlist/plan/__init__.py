"""What lowering may choose before anything is placed, as data and as files."""

from placer.netlist.plan.plan import (
    BufferPlan,
    Cut,
    GroupPlan,
    Plan,
    SectionPlan,
    TileAxis,
    Tiling,
    WeightsPlan,
    fabric_key,
    graph_fingerprint,
    require_match,
)
from placer.netlist.plan.plan_file import load_plan, plan_from_dict
