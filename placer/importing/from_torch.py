"""Import of PyTorch modules by way of `torch.export`."""

from __future__ import annotations

import operator
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placer.errors import InputError
from placer.importing.assembler import Assembler, Constant, Value
from placer.importing.finishing import finish
from placer.importing.network import ImportedNetwork, require_agreement
from placer.importing.torch_operators import HANDLERS, IGNORED, SHAPE_ONLY
from placer.importing.unsupported import Problems
from placer.importing.user_code import is_of_user, place_of_error
from placer.importing.views import UnsupportedError
from placer.ops import Shape

if TYPE_CHECKING:
    import torch


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
    if network.can_be_checked():
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
            program: torch.export.ExportedProgram = torch.export.export(module, (example,))
            program = program.run_decompositions({})  # none, but no operator changes its inputs
            return program
    except Exception as error:  # whatever the user's code, or tracing it, raises
        raise InputError(
            f"torch.export cannot follow the network with an input of {list(example.shape)}: "
            f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            f"{place_of_error(error)}"
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
        if name in IGNORED:
            return None
        inputs = [self._values[argument] for argument in node.all_input_nodes]
        if not any(isinstance(value, Value | tuple) or value is None for value in inputs):
            return self._fold(node, self._values.get)
        if name in SHAPE_ONLY:
            return self._fold(node, _shaped)
        if name != "getitem" and name not in HANDLERS:
            self._problems.add(name, _place(node))
            return None
        if any(value is None for value in inputs):
            return None
        arguments = [self._argument(argument) for argument in node.args]
        options = {key: self._argument(value) for key, value in node.kwargs.items()}
        if name == "getitem":
            return arguments[0][arguments[1]]
        try:
            return HANDLERS[name](self._assembler, *arguments, **options)
        except InputError as error:
            self._problems.add(name, _place(node), error)
        except (AttributeError, TypeError, ValueError) as error:
            self._problems.add(name, _place(node), f"in a form that is not known here ({error})")
        return None

    def _fold(self, node: Any, lookup: Callable[[Any], Any]) -> Any:
        """Result of a node that does not depend on the input."""
        import torch

        with torch.no_grad():
            return node.target(*_map(node.args, lookup), **_map(node.kwargs, lookup))

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


def _shaped(node: Any) -> Any:
    """Stands in for a tensor of which only shape and type are read."""
    import torch

    tensor = node.meta["val"]
    return torch.empty(tensor.shape, dtype=tensor.dtype)


def _operator_name(node: Any) -> str:
    if node.target is operator.getitem:
        return "getitem"
    return ".".join(str(node.target).split(".")[:2])  # aten.add.Tensor -> aten.add


def _place(node: Any) -> str:
    """The line of the user's code: the last frame outside of PyTorch, or the last one."""
    frames = re.findall(
        r'File "([^"]+)", line (\d+), in (\S+)\n\s*(.*)', node.meta.get("stack_trace") or ""
    )
    own = [frame for frame in frames if is_of_user(frame[0])] or frames
    modules = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values() if path]
    inside = f" (in module {modules[-1]!r})" if modules else ""
    if not own:
        return f"node {node.name!r}{inside}"
    file, line, function, code = own[-1]
    return f"{Path(file).name}:{line}, {function}: {code.strip()}{inside}"
