"""Operations and tensors of a network as a graph, and the numbers that it computes."""

from placer.graph.graph import DataflowGraph, Tensor
from placer.graph.graph_file import load_graph, to_json
from placer.graph.ops import (
    ATTRIBUTES,
    GRADIENT_KINDS,
    MAX_ELEMENTS,
    PRODUCT_KINDS,
    SINK_KINDS,
    SOURCE_KINDS,
    VIEW_KINDS,
    WINDOW_KINDS,
    Op,
    OpAttributes,
    OpKind,
    Shape,
)
from placer.graph.routing import expert_capacity
from placer.graph.shapes import output_shape
from placer.graph.values import Array, compute_values
from placer.graph.windows import Window, window_of
