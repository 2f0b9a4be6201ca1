"""Reading ONNX files, which come from anywhere: data only, and nothing outside of their folder."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placer.base import InputError
from placer.graph import MAX_ELEMENTS

MAX_FILE_BYTES = 2**31  # what the format allows
MAX_NODES = 50_000
MIN_OPSET = 13  # from here on, softmax works on one axis and axes are inputs
MAX_ATTRIBUTE = 2**16  # of axes, windows and counts; what computes an operator believes them
MAX_SIZES = 2**12  # numbers in a list of sizes, axes or places that is a tensor

# What malformed entries of a file make numpy, onnx and Python raise.
MALFORMED = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError,
    ValueError,
)  # fmt: skip


def read_model(path: Path, content: bytes | None = None) -> Any:
    """Read the model of a file, with weights that lie in files beside it, or of its content. Raises InputError."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        if (path.stat().st_size if content is None else len(content)) > MAX_FILE_BYTES:
            raise InputError(f"ONNX file {path}: larger than {MAX_FILE_BYTES} bytes")
        model = onnx.ModelProto.FromString(path.read_bytes() if content is None else content)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from error
    except DecodeError as error:
        raise InputError(f"ONNX file {path}: damaged, or no ONNX file ({error})") from error
    opsets = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}
    if not MIN_OPSET <= opsets.get("ai.onnx", 0) <= onnx.defs.onnx_opset_version():
        raise InputError(
            f"ONNX file {path}: operator set {opsets.get('ai.onnx', 'missing')}; supported: "
            f"{MIN_OPSET} to {onnx.defs.onnx_opset_version()}"
        )
    if len(model.graph.node) > MAX_NODES or model.graph.sparse_initializer:
        raise InputError(f"ONNX file {path}: more than {MAX_NODES} nodes, or sparse weights")
    for tensor in model.graph.initializer:
        if content is not None and tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise InputError(f"weight {tensor.name!r} lies in another file; give the ONNX file by its name")
        _complete(path, tensor)
    for node in model.graph.node:
        _require_small(path, node)
    _drop_unused(model)
    del model.functions[:]  # calls of them are not supported
    return model


def _require_small(path: Path, node: Any) -> None:
    """Raise InputError for an attribute that would make whatever computes the node take much memory."""
    if node.op_type in ("Constant", "Shape"):  # which may hold, or end at, any number
        return
    for entry in node.attribute:
        for number in (entry.i, *entry.ints):
            if abs(number) > MAX_ATTRIBUTE:
                raise InputError(
                    f"ONNX file {path}: {node.op_type} {(node.name or next(iter(node.output), ''))!r} has "
                    f"{entry.name}={number}; allowed are numbers from -{MAX_ATTRIBUTE} to {MAX_ATTRIBUTE}"
                )


def _drop_unused(model: Any) -> None:
    """Drop the nodes that no output needs, so that nobody computes them."""
    needed = {entry.name for entry in model.graph.output}
    for number in reversed(range(len(model.graph.node))):
        node = model.graph.node[number]
        if needed.isdisjoint(node.output):
            del model.graph.node[number]
        else:
            needed.update(node.input)


def _complete(path: Path, tensor: Any) -> None:
    """Check the size of a weight, and read it if it lies in another file."""
    import onnx

    where = f"ONNX file {path}: weight {tensor.name!r}"
    if any(size < 1 for size in tensor.dims) or math.prod(tensor.dims) > MAX_ELEMENTS:
        raise InputError(
            f"{where} has shape {list(tensor.dims)}; allowed are sizes from 1, at most {MAX_ELEMENTS} elements"
        )
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return
    entries = {entry.key: entry.value for entry in tensor.external_data}
    file = _file_beside(path, entries.get("location", ""), where)
    try:
        bytes_each = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
        needed = math.prod(tensor.dims) * bytes_each
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", needed))
        if offset < 0 or length != needed or offset + length > file.stat().st_size:
            raise InputError(
                f"{where} needs {needed} bytes; {length} from byte {offset} of {file.name} are named or there"
            )
        with file.open("rb") as stream:
            stream.seek(offset)
            tensor.raw_data = stream.read(length)
    except OSError as error:
        raise InputError(f"{where}: cannot read {file}: {error.strerror or error}") from error
    except InputError:
        raise
    except MALFORMED as error:
        raise InputError(f"{where} is malformed: {error}") from error
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")


def _file_beside(path: Path, location: str, where: str) -> Path:
    """Find the file of a weight; links and dots must not lead out of the model's folder."""
    folder = path.resolve().parent
    try:
        file = (folder / location).resolve()
        is_beside = file.is_relative_to(folder) and file.is_file()
    except (OSError, ValueError):  # a name that no file can have
        is_beside = False
    if not is_beside:
        raise InputError(
            f"{where} lies in {location!r}: there is no such file in the folder of the model or "
            "below it, and others are not read"
        )
    return file


def attributes_of(node: Any) -> dict[str, Any]:
    """Return attributes of a node. Raises InputError for graphs, and tensors in other files."""
    from onnx import TensorProto
    from onnx.helper import get_attribute_value

    for entry in node.attribute:
        sparse = [entry.sparse_tensor, *entry.sparse_tensors]
        parts = [tensor for pair in sparse for tensor in (pair.values, pair.indices)]
        tensors = [entry.t, *entry.tensors, *parts]
        is_outside = any(t.data_location == TensorProto.EXTERNAL for t in tensors)
        if is_outside or entry.HasField("g") or entry.graphs:
            raise InputError(f"attribute {entry.name!r} holds a graph, or lies in another file")
    return {entry.name: get_attribute_value(entry) for entry in node.attribute}


def to_array(tensor: Any) -> NDArray[Any]:
    """Return the numbers of a tensor; real ones at least in float32. Raises InputError."""
    from onnx import numpy_helper

    try:
        array: NDArray[Any] = numpy_helper.to_array(tensor)
    except MALFORMED as error:
        raise InputError(f"weight {tensor.name!r} is malformed: {error}") from error
    if array.dtype.kind in "biu" or array.dtype in (np.float32, np.float64):
        return array
    try:
        return array.astype(np.float32)
    except MALFORMED as error:
        raise InputError(f"weight {tensor.name!r} holds no numbers: {array.dtype}") from error
