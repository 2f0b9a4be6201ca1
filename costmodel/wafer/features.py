"""What the `flow` network sees of a mapping: kernels are units, streams are flows.

Unlike on the fabric, what is known of a unit depends on the decision: how its loops are unrolled.
Counts only: steps, wavelets and hops of each phase (docs/wafer_truth.md names them) relative to the
bound, as they follow from the loops and the rectangles. How they add up, overlap and wait for each
other is learned.
"""

from __future__ import annotations

from costmodel.encoding import FeatureSchema
from placer.kernels.model import KERNEL_TYPES

PHASES = ("compute", "inputs", "reduction", "outputs", "hops")  # of a convolution
# Each number relative to the bound comes twice: as it is (at most LARGEST), and as a logarithm.
LARGEST, SMALLEST = 6.0, 1e-3

# Blocks look like single convolutions: their busiest one (of the largest sum of counts), and the
# largest count of each phase over all of them.
_UNIT_COUNTS = (*PHASES, *(f"most_{phase}" for phase in PHASES), "rim_in", "rim_out")
_FLOW_COUNTS = ("pace", "spread", "distance", "adapter_hops", "part_load")


def _twice(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for each in names for name in (each, f"log_{each}"))


UNIT_FACTS = ("is_rotated", "depth_share", "log_inputs", "log_outputs")
FLOW_FACTS = ("adapters", "has_adapter", "depth_distance", "out_across", "in_across")
_UNIT_SIZES = (*_twice(_UNIT_COUNTS), "log_x", "log_y", "log_bound")
_FLOW_SIZES = (*_twice(_FLOW_COUNTS), "log_lanes", "log_bound")

WAFER_FEATURES = FeatureSchema(
    version="wafer 1",
    subject="mappings to a wafer",
    unit_columns=UNIT_FACTS + _UNIT_SIZES,
    flow_columns=FLOW_FACTS + _FLOW_SIZES,
    annotations=frozenset(_UNIT_SIZES + _FLOW_SIZES),
    ops=KERNEL_TYPES,
    num_stages=64,
    lane_kinds=4,  # a rim; links between regions, by what kernels leave of them
)
