"""Networks of the user, PyTorch modules and ONNX files, as dataflow graphs with their weights."""

from placer.graph.importing.network import InputKind, NetworkChoice, import_network
