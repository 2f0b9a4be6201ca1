"""What is mapped, what a mapping is, their files, and the judge that shares no code with others."""

from placer.kernels.model.check import (
    DEFAULT_OUT_RULES,
    IllegalLayoutError,
    Mapping,
    OutRule,
    OutRules,
    Part,
    Score,
    adapter_cost,
    extents,
    find_faults,
    judge,
    kernel_performance,
)
from placer.kernels.model.files import (
    format_kgraph,
    format_layout,
    from_json,
    load_kgraph,
    parse_kgraph,
    parse_layout,
    to_json,
)
from placer.kernels.model.generate import branched, fully_connected, generate, load_or_generate, plain, resnet, unet
from placer.kernels.model.graph import (
    KERNEL_TYPES,
    MAX_SIDE,
    Conv,
    Kernel,
    KernelGraph,
    Wafer,
    breadth_first_order,
    depth_first_order,
    subgraph,
)
from placer.kernels.model.layout import (
    MAX_CONVS,
    NUM_COLUMNS,
    ROTATED,
    C,
    Execution,
    H,
    K,
    KernelLayout,
    Placed,
    W,
    X,
    Y,
    extents_of,
    layout_of,
    table_of,
)
