"""Import of PyTorch modules by way of `torch.export`."""

from __future__ import annotations

import importlib
import inspect
import operator
import re
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from placer.base import InputError
from placer.graph import Shape
from placer.graph.importing.assembler import Constant
from placer.graph.importing.finishing import finish
from placer.graph.importing.network import ImportedNetwork, require_agreement
from placer.graph.importing.torch_operators import HANDLERS, IGNORED, SHAPE_ONLY
from placer.graph.importing.walk import MAX_COMPUTED, Node, Problem, Walk, complete

if TYPE_CHECKING:
    import torch


def make_module(model: Any, arguments: Mapping[str, Any]) -> tuple[torch.nn.Module, str]:
    """Return the network that a model is or makes, and a name for it.

    The model is `module:name` of the user's code, or what would be found there: a module, a class or
    function that makes one with the arguments, or a function of tensors.
    """
    import torch

    where = f"model={model}" if isinstance(model, str) else f"model={type(model).__name__}"
    try:
        made = _found(where, model) if isinstance(model, str) else model
        name = getattr(made, "__name__", type(made).__name__)
        name = model.partition(":")[2] if isinstance(model, str) else name
        if not isinstance(made, torch.nn.Module):
            made = made(**arguments) if _makes_network(made, arguments) else _as_module(made, arguments)
    except InputError:
        raise
    except Exception as error:  # whatever the user's code raises
        place = _place_of_error(error)
        raise InputError(f"{where}: {type(error).__name__}: {error}{place}") from error
    if not isinstance(made, torch.nn.Module):
        raise InputError(f"{where}: makes a {type(made).__name__}; needed is a torch.nn.Module")
    return made, "".join(letter for letter in name if letter.isprintable()) or "network"


def _found(where: str, model: str) -> Any:
    """Run the user's code `module:name`."""
    module_name, _, name = model.partition(":")
    if not module_name or not name:
        raise InputError(f"{where}: write module:function, or the name of a file *.onnx")
    return getattr(importlib.import_module(module_name), name)


def _makes_network(made: Any, arguments: Mapping[str, Any]) -> bool:
    """Say whether to call something for a network: not if it is a function that needs tensors."""
    if not inspect.isfunction(made):
        return True
    try:
        inspect.signature(made).bind(**arguments)
    except TypeError:
        return bool(arguments)  # wrong ones: the call says which
    return True


def _as_module(function: Callable[..., Any], arguments: Mapping[str, Any]) -> torch.nn.Module:
    import torch

    class FunctionOfTensors(torch.nn.Module):
        function_of_user = staticmethod(function)

        def forward(self, *tensors: torch.Tensor) -> Any:
            return function(*tensors)

    return FunctionOfTensors()


def import_module(
    module: torch.nn.Module, input_shape: Shape | Sequence[Shape], has_indices: bool | Sequence[bool], name: str
) -> ImportedNetwork:
    """Import a module in evaluation mode, for one input or several of the given shapes.

    `has_indices`: the input holds row numbers of embeddings, not real numbers. The graph is
    evaluated on a random input and must agree with PyTorch.
    Raises InputError with all operators that are not supported, and where they are called.
    """
    import torch

    given: Any = input_shape
    shapes: list[Shape] = [given] if isinstance(given[0], int) else [tuple(shape) for shape in given]
    flags = [has_indices] * len(shapes) if isinstance(has_indices, bool) else has_indices
    module = module.eval()
    examples = tuple(  # not written to, so that they take no memory
        torch.empty(shape, dtype=torch.long if flag else torch.float32)
        for shape, flag in zip(shapes, flags, strict=True)
    )
    _require_shapes(module, shapes)
    program = _export(module, examples)
    walk = complete(lambda known: _TorchWalk(program, shapes, known), f"network {name!r}")
    network = finish(walk.assembler, name)
    if network.can_be_checked(walk.repeated):
        arrays = network.examples(shapes)
        with torch.no_grad():
            expected = module(*(torch.from_numpy(array) for array in arrays))
        leaves = torch.utils._pytree.tree_leaves(expected)
        tensors = [leaf.numpy() for leaf in leaves if isinstance(leaf, torch.Tensor)]
        require_agreement(network, arrays, tensors)
    return network


def _require_shapes(module: torch.nn.Module, shapes: Sequence[Shape]) -> None:
    """Raise InputError that names the inputs of a module when there is no shape for each, or one too many."""
    try:
        called = getattr(module, "function_of_user", module.forward)
        parameters = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):  # one that Python cannot look into
        return
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return
    named = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [parameter.name for parameter in named if parameter.default is parameter.empty]
    if not len(needed) <= len(shapes) <= len(named):
        given = ",".join(str(list(shape)).replace(" ", "") for shape in shapes[: len(named)])
        raise InputError(
            f"the network takes {len(needed)} inputs ({', '.join(needed)}), input_shape has {len(shapes)}; write a "
            f"shape for each, in this order: input_shape=[{given}{',...' if len(shapes) < len(needed) else ''}]"
        )


def _export(module: torch.nn.Module, examples: tuple[torch.Tensor, ...]) -> torch.export.ExportedProgram:
    """Make a program of pure functions of a module."""
    import torch

    was_fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # it hides attention in one operator
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of PyTorch, about itself
            program: torch.export.ExportedProgram = torch.export.export(module, examples)
            program = program.run_decompositions({})  # none, but no operator changes its inputs
            return program
    except Exception as error:  # whatever the user's code, or tracing it, raises
        sizes = " and ".join(str(list(example.shape)) for example in examples)
        raise InputError(
            f"torch.export cannot follow the network with an input of {sizes}: "
            f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            f"{_place_of_error(error)}"
        ) from error
    finally:
        torch.backends.mha.set_fastpath_enabled(was_fast)


class _TorchWalk(Walk):
    """One pass over the nodes of an exported program."""

    def __init__(
        self, program: torch.export.ExportedProgram, input_shapes: Sequence[Shape], known: Mapping[int, Problem]
    ) -> None:
        super().__init__(input_shapes, known)
        self._program = program
        self._values: dict[Any, Any] = {}  # Node, or a constant, by node of the program
        self._names: dict[Any, str] = {}  # of parameters, by node

    def native(self, array: NDArray[Any]) -> Any:
        import torch

        return torch.tensor(array)

    def array(self, native: Any) -> NDArray[Any] | None:
        import torch

        is_real = isinstance(native, torch.Tensor) and native.is_floating_point()
        return native.float().numpy() if is_real else None

    def shapes_of(self, node: Node) -> list[Shape | None]:
        import torch

        nodes = list(self._program.graph.nodes)
        made = torch.utils._pytree.tree_leaves(nodes[node.number].meta.get("val"))
        is_real = [isinstance(each, torch.Tensor) and each.is_floating_point() for each in made]
        return [tuple(each.shape) if real else None for each, real in zip(made, is_real, strict=True)]

    def visit_all(self) -> None:
        self._read_constants()
        inputs = iter(self.inputs)
        for number, node in enumerate(self._program.graph.nodes):
            if node.op == "placeholder" and node not in self._values:
                self._values[node] = next(inputs)
            elif node.op == "call_function":
                self._values[node] = self._visit(number, node)
            elif node.op == "output":
                self._write_outputs(node.args[0])

    def _write_outputs(self, results: Any) -> None:
        import torch

        tensors = [result for result in results if isinstance(result, torch.fx.Node)]
        for number, result in enumerate(tensors):
            self.output(self._values.get(result), number, f"output {number}")

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

    def _visit(self, number: int, node: Any) -> Any:
        """Return the result of a node: a Node, or a constant if it does not depend on the input."""
        import torch

        name = _operator_name(node)
        if name in IGNORED:
            return None
        inputs = tuple(v for n in node.all_input_nodes if isinstance(v := self._values[n], Node))
        arguments = torch.utils._pytree.tree_leaves((node.args, node.kwargs))
        entry = Node(
            number, name, lambda: _place(node), inputs,
            compute=lambda results: self._compute(node, results),
            numbers=tuple(float(a) for a in arguments if isinstance(a, int | float) and not isinstance(a, bool)),
        )  # fmt: skip
        if not inputs or name in SHAPE_ONLY:
            return self._fold(node, entry)
        handler = operator.getitem if name == "getitem" else HANDLERS.get(name)
        return self.settle(entry, handler and (lambda: self._handle(node, handler)))

    def _handle(self, node: Any, handler: Callable[..., Any]) -> Any:
        arguments = [self._argument(argument) for argument in node.args]
        if handler is operator.getitem:
            return arguments[0][arguments[1]]
        options = {key: self._argument(value) for key, value in node.kwargs.items()}
        return handler(self.assembler, *arguments, **options)

    def _compute(self, node: Any, results: Mapping[Node, Any]) -> Any:
        """Return what a node makes of what the nodes before it made."""
        if _numbers(node) > MAX_COMPUTED:
            raise InputError(f"{node.name}: more than {MAX_COMPUTED} numbers")
        values = {n: results.get(v) if isinstance(v := self._values[n], Node) else v for n in node.all_input_nodes}
        return self._run(node, values.__getitem__)

    def _run(self, node: Any, lookup: Callable[[Any], Any]) -> Any:
        import torch

        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lookup)
        with torch.no_grad():
            return node.target(*args, **kwargs)

    def _fold(self, node: Any, entry: Node) -> Any:
        """Compute the result of a node that does not depend on the input."""
        try:
            self.assembler.reserve(_numbers(node))
            return self._run(node, lambda n: _shaped(n) if isinstance(self._values[n], Node) else self._values[n])
        except InputError as error:
            entry.problem = error
        except RuntimeError as error:
            entry.problem = f"cannot be computed ({error})"
        return entry

    def _argument(self, argument: Any) -> Any:
        """Return what a handler gets: a Value, a Constant, or a plain Python object."""
        import torch

        if isinstance(argument, list | tuple):
            return [self._argument(item) for item in argument]
        if not isinstance(argument, torch.fx.Node):
            return argument
        value = self._values[argument]
        if isinstance(value, Node):
            return value.value
        if isinstance(value, torch.Tensor):
            array = (value.float() if value.is_floating_point() else value).cpu().numpy()
            return Constant(self._names.get(argument, argument.name), array, argument in self._names)
        return value


def _numbers(node: Any) -> int:
    """Return how many numbers a node makes."""
    import torch

    made = torch.utils._pytree.tree_leaves(node.meta.get("val"))
    return sum(tensor.numel() for tensor in made if isinstance(tensor, torch.Tensor))


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
