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
    Op,
    OpAttributes,
    OpKind,
    Shape,
    output_shape,
)
from placer.graph.values import Array, compute_values
