"""Programs from small PyTorch functions of element-wise ops, by way of `torch.export`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from placer.errors import InputError
from placer.streaming.program import Instruction, Number, Program

if TYPE_CHECKING:
    import torch

# What an operator of PyTorch computes, in ops of placer.streaming.values.
_OPS: dict[str, tuple[str, ...]] = {
    "add": ("add",), "sub": ("sub",), "mul": ("mul",), "div": ("div",), "rsub": ("neg", "add"),
    "minimum": ("min",), "maximum": ("max",), "neg": ("neg",), "abs": ("abs",),
    "sqrt": ("sqrt",), "exp": ("exp",), "reciprocal": ("recip",), "relu": ("relu",),
}  # fmt: skip


def program_of(
    function: Callable[..., Any], examples: tuple[torch.Tensor, ...], name: str
) -> Program:
    """One instruction per operator; `examples` are inputs that the function can take.

    Raises InputError for an operator that no tile can do.
    """
    import torch

    class Wrapped(torch.nn.Module):
        def forward(self, *inputs: torch.Tensor) -> Any:
            return function(*inputs)

    graph = torch.export.export(Wrapped(), examples).graph
    instructions: list[Instruction] = []
    writer: dict[str, int] = {}
    edges: set[tuple[int, int]] = set()
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        item = _instruction(node)
        edges |= {(writer[name], len(instructions)) for name in item.uses if name in writer}
        writer[node.name] = len(instructions)
        instructions.append(item)
    return Program(name, tuple(instructions), tuple(sorted(edges)))


def _instruction(node: Any) -> Instruction:
    kind = str(node.target).removeprefix("aten.").partition(".")[0]
    operands = [argument for argument in node.args if hasattr(argument, "name")]
    constants: list[Number] = [a for a in node.args if isinstance(a, int | float)]
    names = [argument.name for argument in operands]
    if kind == "pow" and constants == [2]:
        return Instruction(("mul",), (names[0], names[0]), (node.name,))
    if kind not in _OPS or node.kwargs or len(names) + len(constants) != len(node.args):
        raise InputError(
            f"{node.format_node()}: no tile can do this; known: {', '.join(sorted(_OPS))}, pow 2"
        )
    return Instruction((*_OPS[kind], *constants), tuple(names), (node.name,))
