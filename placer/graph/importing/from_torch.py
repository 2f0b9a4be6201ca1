"""Import of PyTorch modules by way of `torch.export`."""

from __future__ import annotations

import importlib
import operator
import re
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placer.base import InputError
from placer.graph import Shape
from placer.graph.importing.assembler import Constant
from placer.graph.importing.finishing import finish
from placer.graph.importing.network import ImportedNetwork, require_agreement
from placer.graph.importing.torch_operators import HANDLERS, IGNORED, SHAPE_ONLY
from placer.graph.importing.views import Value
from placer.graph.importing.walk import Walk

if TYPE_CHECKING:
    import torch


def make_module(model: str, arguments: Mapping[str, Any]) -> torch.nn.Module:
    """Run the user's code `module:name` that is, or makes, a network."""
    import torch

    where, (module_name, _, name) = f"model={model}", model.partition(":")
    if not module_name or not name:
        raise InputError(f"{where}: write module:function, or the name of a file *.onnx")
    try:
        made = getattr(importlib.import_module(module_name), name)
        if not isinstance(made, torch.nn.Module):
            made = made(**arguments)
    except Exception as error:  # whatever the user's code raises
        place = _place_of_error(error)
        raise InputError(f"{where}: {type(error).__name__}: {error}{place}") from error
    if not isinstance(made, torch.nn.Module):
        raise InputError(f"{where}: makes a {type(made).__name__}; needed is a torch.nn.Module")
    return made


def import_module(module: torch.nn.Module, input_shape: Shape, has_indices: bool, name: str) -> ImportedNetwork:
    """Import a module in evaluation mode, for one input of the given shape.

    `has_indices`: the input holds row numbers of embeddings, not real numbers. The graph is
    evaluated on a random input and must agree with PyTorch.
    Raises InputError with all operators that are not supported, and where they are called.
    """
    import torch

    module = module.eval()
    example = torch.zeros(input_shape, dtype=torch.long if has_indices else torch.float32)
    network = _TorchWalk(_export(module, example), input_shape).network(name)
    if network.can_be_checked():
        array = network.example(input_shape)
        with torch.no_grad():
            expected = module(torch.from_numpy(array))
        leaves = torch.utils._pytree.tree_leaves(expected)
        tensors = [leaf.numpy() for leaf in leaves if isinstance(leaf, torch.Tensor)]
        require_agreement(network, [array], tensors)
    return network


def _export(module: torch.nn.Module, example: torch.Tensor) -> torch.export.ExportedProgram:
    """Make a program of pure functions of a module."""
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
            f"{_place_of_error(error)}"
        ) from error
    finally:
        torch.backends.mha.set_fastpath_enabled(was_fast)


class _TorchWalk(Walk):
    """One pass over the nodes of an exported program."""

    def __init__(self, program: torch.export.ExportedProgram, input_shape: Shape) -> None:
        super().__init__(input_shape)
        self._program = program
        self._values: dict[Any, Any] = {}  # Value, torch.Tensor (constant), or a tuple, by node
        self._names: dict[Any, str] = {}  # of parameters, by node

    def network(self, name: str) -> ImportedNetwork:
        self._read_constants()
        for node in self._program.graph.nodes:
            if node.op == "placeholder" and node not in self._values:
                self._values[node] = self.input
            elif node.op == "call_function":
                self._values[node] = self._visit(node)
            elif node.op == "output":
                for number, result in enumerate(node.args[0]):
                    self.output(self._values.get(result), number, f"output {number}")
        self.require_no_problems(f"network {name!r}")
        return finish(self.assembler, name)

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

    def _visit(self, node: Any) -> Any:
        """Return the result of a node; None if it, or what it reads, is not supported."""
        name = _operator_name(node)
        if name in IGNORED:
            return None
        inputs = [self._values[argument] for argument in node.all_input_nodes]
        if not any(isinstance(value, Value | tuple) or value is None for value in inputs):
            return self._fold(node, self._values.get)
        if name in SHAPE_ONLY:
            return self._fold(node, _shaped)
        if name != "getitem" and name not in HANDLERS:
            self.refuse(name, _place(node))
            return None
        if any(value is None for value in inputs):
            return None
        arguments = [self._argument(argument) for argument in node.args]
        options = {key: self._argument(value) for key, value in node.kwargs.items()}
        if name == "getitem":
            return arguments[0][arguments[1]]
        try:
            return HANDLERS[name](self.assembler, *arguments, **options)
        except InputError as error:
            self.refuse(name, _place(node), error)
        except (AttributeError, TypeError, ValueError) as error:
            self.refuse(name, _place(node), f"in a form that is not known here ({error})")
        return None

    def _fold(self, node: Any, lookup: Callable[[Any], Any]) -> Any:
        """Compute the result of a node that does not depend on the input."""
        import torch

        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lookup)
        with torch.no_grad():
            return node.target(*args, **kwargs)

    def _argument(self, argument: Any) -> Any:
        """Return what a handler gets: a Value, a Constant, or a plain Python object."""
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


def _shaped(node: Any) -> Any:
    """Make a stand-in for a tensor of which only shape and type are read."""
    import torch

    tensor = node.meta["val"]
    return torch.empty(tensor.shape, dtype=tensor.dtype)


def _operator_name(node: Any) -> str:
    if node.target is operator.getitem:
        return "getitem"
    return ".".join(str(node.target).split(".")[:2])  # aten.add.Tensor -> aten.add


def _is_of_user(file: str) -> bool:
    """Say whether code is neither PyTorch's, nor of this package, nor what imports modules."""
    import torch

    files = (torch.__file__, importlib.__file__, __file__)
    folders = [str(Path(str(name)).parent) for name in files]
    return not file.startswith((*folders, "<frozen importlib"))


def _place_of_error(error: BaseException) -> str:
    """Return the last line of the user's code that the error came through, or nothing."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if _is_of_user(f.filename)]
    if not frames:
        return ""
    last = frames[-1]
    return f"; at {Path(last.filename).name}:{last.lineno}, {last.name}: {last.line}"


def _place(node: Any) -> str:
    """Return the line of the user's code: the last frame outside of PyTorch, or the last one."""
    frames = re.findall(r'File "([^"]+)", line (\d+), in (\S+)\n\s*(.*)', node.meta.get("stack_trace") or "")
    own = [frame for frame in frames if _is_of_user(frame[0])] or frames
    modules = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values() if path]
    inside = f" (in module {modules[-1]!r})" if modules else ""
    if not own:
        return f"node {node.name!r}{inside}"
    file, line, function, code = own[-1]
    return f"{Path(file).name}:{line}, {function}: {code.strip()}{inside}"
