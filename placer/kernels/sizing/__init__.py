"""Which rectangles kernels can have at a target time; sizing of all at once, with few adapters."""

from placer.kernels.sizing.joint import Frames, JointSizing, Sized
from placer.kernels.sizing.problem import (
    FAR,
    NEVER,
    Loops,
    Problem,
    Shapes,
    ShapeTables,
    Target,
    find_variants,
    least_channels,
    loops_of,
    shapes_at,
    ticks_per_pass,
    total_area,
)
