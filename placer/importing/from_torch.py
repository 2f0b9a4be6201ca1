"""Import of PyTorch modules by way of `torch.export`: one handler per operator of ATen."""

from __future__ import annotations

import math
import operator
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from placer.errors import InputError
from placer.importing import layers
from placer.importing.assembler import Assembler, Constant, Value
from placer.importing.finishing import finish
from placer.importing.network import ImportedNetwork, require_agreement
from placer.importing.unsupported import Problems
from placer.importing.views import UnsupportedError
from placer.ops import OpAttributes, OpKind, Shape

if TYPE_CHECKING:
    import torch

Handler = Callable[..., Any]


def import_module(
    module: torch.nn.Module, input_shape: Shape, has_indices: bool, name: str
) -> ImportedNetwork:
    """The network of a module in evaluation mode, for one input of the given shape.

    `has_indices`: the input holds row numbers of embeddings, not real numbers. The graph is
    evaluated on a random input and must agree with PyTorch.
    Raises InputError with all operators that are not supported, and where they are called.
    """
    import torch

    module = module.eval()
    example = torch.zeros(input_shape, dtype=torch.long if has_indices else torch.float32)
    walk = _Walk(_export(module, example), input_shape)
    network = walk.network(name)
    if network.is_small:
        array = network.example(input_shape)
        with torch.no_grad():
            expected = module(torch.from_numpy(array))
        leaves = torch.utils._pytree.tree_leaves(expected)
        tensors = [leaf.numpy() for leaf in leaves if isinstance(leaf, torch.Tensor)]
        require_agreement(network, [array], tensors)
    return network


def _export(module: torch.nn.Module, example: torch.Tensor) -> torch.export.ExportedProgram:
    """The module as a program of pure functions."""
    import torch

    was_fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # it hides attention in one operator
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of PyTorch, about itself
            program = torch.export.export(module, (example,))
            return program.run_decompositions({})  # none, but no operator changes its inputs
    except Exception as error:  # whatever the user's code, or tracing it, raises
        raise InputError(
            f"torch.export cannot follow the network with an input of {list(example.shape)}: "
            f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
        ) from error
    finally:
        torch.backends.mha.set_fastpath_enabled(was_fast)


class _Walk:
    """One pass over the nodes of an exported program."""

    def __init__(self, program: torch.export.ExportedProgram, input_shape: Shape) -> None:
        self._program = program
        self._input_shape = input_shape
        self._assembler = Assembler()
        self._problems = Problems()
        self._values: dict[Any, Any] = {}  # Value, torch.Tensor (constant), or a tuple, by node
        self._names: dict[Any, str] = {}  # of parameters, by node

    def network(self, name: str) -> ImportedNetwork:
        self._read_constants()
        for node in self._program.graph.nodes:
            if node.op == "placeholder" and node not in self._values:
                self._values[node] = self._assembler.input(0, self._input_shape)
            elif node.op == "call_function":
                self._values[node] = self._visit(node)
            elif node.op == "output":
                self._read_outputs(node)
        self._problems.require_none(f"network {name!r}", self._input_shape)
        return finish(self._assembler, name)

    def _read_constants(self) -> None:
        signature, program = self._program.graph_signature, self._program
        tensors = {**program.constants, **program.state_dict}
        targets = {
            **signature.inputs_to_parameters,
            **signature.inputs_to_buffers,
            **signature.inputs_to_lifted_tensor_constants,
        }
        for node in program.graph.nodes:
            if node.op == "placeholder" and node.name in targets:
                self._names[node] = targets[node.name]
                self._values[node] = tensors[targets[node.name]].detach()

    def _read_outputs(self, node: Any) -> None:
        for number, result in enumerate(node.args[0]):
            value = self._values.get(result)
            if value is None:
                continue  # no tensor, or depends on something that is not supported
            try:
                if not isinstance(value, Value):
                    raise UnsupportedError("does not depend on the input")
                self._assembler.output(value, f"output{number}" if number else "output")
            except InputError as error:
                self._problems.add("output", f"output {number}", error)

    def _visit(self, node: Any) -> Any:
        """Result of a node; None if it, or what it reads, is not supported."""
        name = _operator_name(node)
        if name in _IGNORED:
            return None
        inputs = [self._values[argument] for argument in node.all_input_nodes]
        if not any(isinstance(value, Value | tuple) or value is None for value in inputs):
            return self._fold(node)
        if name != "getitem" and name not in _HANDLERS:
            self._problems.add(name, _place(node))
            return None
        if any(value is None for value in inputs):
            return None
        arguments = [self._argument(argument) for argument in node.args]
        options = {key: self._argument(value) for key, value in node.kwargs.items()}
        if name == "getitem":
            return arguments[0][arguments[1]]
        try:
            return _HANDLERS[name](self._assembler, *arguments, **options)
        except InputError as error:
            self._problems.add(name, _place(node), error)
            return None

    def _fold(self, node: Any) -> Any:
        """Result of a node that does not depend on the input."""
        import torch

        with torch.no_grad():
            return node.target(
                *_map(node.args, self._values.get), **_map(node.kwargs, self._values.get)
            )

    def _argument(self, argument: Any) -> Any:
        """What a handler gets: a Value, a Constant, or a plain Python object."""
        import torch

        if isinstance(argument, list | tuple):
            return [self._argument(item) for item in argument]
        if not isinstance(argument, torch.fx.Node):
            return argument
        value = self._values[argument]
        if isinstance(value, torch.Tensor):
            array = (value.float() if value.is_floating_point() else value).cpu().numpy()
            return Constant(self._names.get(argument, argument.name), array)
        return value


def _map(argument: Any, lookup: Callable[[Any], Any]) -> Any:
    """Arguments of a node with its inputs looked up."""
    import torch

    return torch.fx.node.map_arg(argument, lookup)


def _operator_name(node: Any) -> str:
    if node.target is operator.getitem:
        return "getitem"
    return ".".join(str(node.target).split(".")[:2])  # aten.add.Tensor -> aten.add


def _place(node: Any) -> str:
    """The line of the user's code: the last frame outside of PyTorch, or the last one."""
    import torch

    library = str(Path(torch.__file__).parent)
    frames = re.findall(
        r'File "([^"]+)", line (\d+), in (\S+)\n\s*(.*)', node.meta.get("stack_trace") or ""
    )
    own = [frame for frame in frames if not frame[0].startswith(library)] or frames
    modules = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values() if path]
    inside = f" (in module {modules[-1]!r})" if modules else ""
    if not own:
        return f"node {node.name!r}{inside}"
    file, line, function, code = own[-1]
    return f"{Path(file).name}:{line}, {function}: {code.strip()}{inside}"


def _constant(number: Any) -> Any:
    """Numbers in the code are constants too."""
    if isinstance(number, bool | int | float):
        return Constant("number", np.asarray(float(number)))
    return number


def _add(a: Assembler, x: Any, y: Any, alpha: float = 1) -> Value:
    return layers.add(a, _constant(x), _times(a, _constant(y), alpha))


def _times(a: Assembler, x: Any, factor: float) -> Any:
    if isinstance(x, Value):
        return layers.scale(a, x, factor)
    return x if factor == 1 else Constant(f"{x.name}.scaled", x.array * factor)


def _divide(a: Assembler, x: Any, y: Any) -> Value:
    divisor = _constant(y)
    if not isinstance(divisor, Constant) or not isinstance(x, Value):
        raise UnsupportedError("a quotient of two tensors")
    return layers.multiply(a, x, Constant(f"1/{divisor.name}", 1 / divisor.array))


def _gelu(a: Assembler, x: Value, approximate: str = "none") -> Value:
    return layers.elementwise(a, OpKind.GELU, x, OpAttributes(tanh=approximate == "tanh"))


def _layer_norm(
    a: Assembler, x: Value, shape: Sequence[int], weight: Any = None, bias: Any = None,
    epsilon: float = 1e-5, _cudnn: bool = False,
) -> Value:  # fmt: skip
    return layers.layernorm(a, x, math.prod(shape), weight, bias, epsilon, "layernorm")


def _attention(
    a: Assembler, query: Value, key: Value, value: Value, mask: Any = None, dropout: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Value:  # fmt: skip
    if isinstance(mask, Value) or enable_gqa:
        raise UnsupportedError("attention with a computed mask or grouped heads")
    return layers.attention(a, query, key, value, mask, is_causal, scale)


def _convolution(
    a: Assembler, x: Value, weight: Constant, bias: Any = None, stride: Any = 1, padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Value:  # fmt: skip
    rank = len(weight.shape) - 2
    strides, paddings, dilations = (
        value * rank if isinstance(value, list) and len(value) == 1 else
        value if isinstance(value, list) else [value] * rank
        for value in (stride, padding, dilation)
    )  # fmt: skip
    if groups != 1 or paddings != [0] * rank or dilations != [1] * rank:
        raise UnsupportedError("a convolution with groups, padding or dilation")
    return layers.convolution(a, x, weight, bias, strides)


def _mean(
    a: Assembler, x: Value, dims: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Value:
    return layers.mean(a, x, [dims] if isinstance(dims, int) else dims or [], keepdim)


def _embedding(a: Assembler, table: Any, indices: Value, *_options: Any) -> Value:
    return layers.embedding(a, table, indices)


def _addmm(a: Assembler, bias: Any, x: Any, weight: Any) -> Value:
    return layers.add(a, layers.matmul(a, x, weight), bias)


def _expand(a: Assembler, x: Value, sizes: Sequence[int], implicit: bool = False) -> Value:
    extra = len(sizes) - len(x.shape)
    shape = (1,) * extra + x.shape
    if any(size not in (-1, old) for size, old in zip(sizes, shape, strict=True)):
        raise UnsupportedError(f"repeating a computed tensor, {list(x.shape)} to {list(sizes)}")
    return x.reshape(shape)


def _squeeze(a: Assembler, x: Value, dims: Any = None) -> Value:
    rank = len(x.shape)
    chosen = range(rank) if dims is None else [dims] if isinstance(dims, int) else dims
    gone = {dim % rank for dim in chosen if x.shape[dim] == 1}
    return x.reshape(tuple(size for dim, size in enumerate(x.shape) if dim not in gone))


def _unsqueeze(a: Assembler, x: Value, dim: int) -> Value:
    dim %= len(x.shape) + 1
    return x.reshape((*x.shape[:dim], 1, *x.shape[dim:]))


def _transpose(a: Assembler, x: Value, one: int = -2, two: int = -1) -> Value:
    order = list(range(len(x.shape)))
    order[one], order[two] = order[two], order[one]
    return x.permute(order)


def _slice(
    a: Assembler, x: Value, dim: int = 0, start: int | None = None, stop: int | None = None,
    step: int = 1,
) -> Value:  # fmt: skip
    if step != 1:
        raise UnsupportedError(f"every element number {step} of a dimension")
    first, last, _ = slice(start, stop).indices(x.shape[dim])
    return Value(x.tensor, x.view.slice(dim % len(x.shape), first, last))


def _select(a: Assembler, x: Value, dim: int, index: int) -> Value:
    return Value(x.tensor, x.view.select(dim % len(x.shape), index % x.shape[dim]))


def _split(a: Assembler, x: Value, sizes: Any, dim: int = 0) -> tuple[Value, ...]:
    length = x.shape[dim]
    if isinstance(sizes, int):
        sizes = [min(sizes, length - start) for start in range(0, length, sizes)]
    ends = np.cumsum(sizes)
    return tuple(_slice(a, x, dim, int(e) - s, int(e)) for s, e in zip(sizes, ends, strict=True))


def _chunk(a: Assembler, x: Value, number: int, dim: int = 0) -> tuple[Value, ...]:
    return _split(a, x, -(-x.shape[dim] // number), dim)


def _unbind(a: Assembler, x: Value, dim: int = 0) -> tuple[Value, ...]:
    return tuple(_select(a, x, dim, index) for index in range(x.shape[dim]))


def _same(a: Assembler, x: Value, *_options: Any, **_more: Any) -> Value:
    return x


_IGNORED = {"aten._assert_tensor_metadata", "aten._assert_scalar", "aten.sym_constrain_range"}

_HANDLERS: dict[str, Handler] = {
    "aten.linear": lambda a, x, weight, bias=None: layers.linear(a, x, weight, bias),
    "aten.matmul": layers.matmul,
    "aten.mm": layers.matmul,
    "aten.bmm": layers.matmul,
    "aten.addmm": _addmm,
    "aten.add": _add,
    "aten.sub": lambda a, x, y, alpha=1: _add(a, x, y, -alpha),
    "aten.rsub": lambda a, x, y, alpha=1: _add(a, y, x, -alpha),
    "aten.mul": lambda a, x, y: layers.multiply(a, _constant(x), _constant(y)),
    "aten.div": _divide,
    "aten.neg": lambda a, x: layers.scale(a, x, -1.0),
    "aten.relu": lambda a, x: layers.elementwise(a, OpKind.RELU, x),
    "aten.gelu": _gelu,
    "aten.softmax": lambda a, x, dim, dtype=None: layers.softmax(a, x, dim),
    "aten.layer_norm": _layer_norm,
    "aten.scaled_dot_product_attention": _attention,
    "aten.masked_fill": lambda a, x, mask, y: layers.choose(a, mask, _constant(y), x),
    "aten.where": lambda a, mask, x, y: layers.choose(a, mask, _constant(x), _constant(y)),
    "aten.embedding": _embedding,
    "aten.conv1d": _convolution,
    "aten.conv2d": _convolution,
    "aten.mean": _mean,
    "aten.cat": lambda a, parts, dim=0: layers.concat(a, parts, dim),
    "aten.view": lambda a, x, sizes: x.reshape(layers.sizes_of(x.shape, sizes)),
    "aten._unsafe_view": lambda a, x, sizes: x.reshape(layers.sizes_of(x.shape, sizes)),
    "aten.reshape": lambda a, x, sizes: x.reshape(layers.sizes_of(x.shape, sizes)),
    "aten.expand": _expand,
    "aten.squeeze": _squeeze,
    "aten.unsqueeze": _unsqueeze,
    "aten.permute": lambda a, x, order: x.permute([dim % len(x.shape) for dim in order]),
    "aten.transpose": _transpose,
    "aten.t": lambda a, x: _transpose(a, x, 0, -1),
    "aten.slice": _slice,
    "aten.select": _select,
    "aten.split": _split,
    "aten.split_with_sizes": _split,
    "aten.chunk": _chunk,
    "aten.unbind": _unbind,
    "aten.clone": _same,
    "aten.contiguous": _same,
    "aten.alias": _same,
    "aten.detach": _same,
    "aten.dropout": _same,
    "aten.lift_fresh_copy": _same,
    "aten._to_copy": _same,
    "aten.to": _same,
}
