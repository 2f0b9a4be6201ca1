"""Programs from small PyTorch functions of element-wise ops, by way of `torch.export`."""

from __future__ import annotations

from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

from placer.errors import InputError
from placer.streaming.program import Instruction, Number, Program

if TYPE_CHECKING:
    from torch.export import ExportedProgram

# What an operator of PyTorch computes, in ops of placer.streaming.values.
_OPS: dict[str, tuple[str, ...]] = {
    "add": ("add",), "sub": ("sub",), "mul": ("mul",), "div": ("div",), "rsub": ("neg", "add"),
    "minimum": ("min",), "maximum": ("max",), "neg": ("neg",), "abs": ("abs",),
    "sqrt": ("sqrt",), "exp": ("exp",), "reciprocal": ("recip",), "relu": ("relu",),
}  # fmt: skip


def load_exported(path: Path) -> Program:
    """The program in a file that `torch.export.save` wrote. Raises InputError."""
    import torch

    try:
        exported = torch.export.load(path)
    except OSError as error:
        raise InputError(f"cannot read it: {error.strerror or error}") from error
    except (
        RuntimeError, ValueError, KeyError, AttributeError, AssertionError, UnpicklingError,
        BadZipFile,
    ) as error:  # fmt: skip
        raise InputError("it is damaged or was not written by torch.export.save") from error
    return program_of(exported, path.stem)


def program_of(exported: ExportedProgram, name: str) -> Program:
    """One instruction per operator; parameters and constants count as inputs.

    Raises InputError for an operator that no tile can do.
    """
    instructions: list[Instruction] = []
    writer: dict[str, int] = {}
    edges: set[tuple[int, int]] = set()
    for node in exported.graph.nodes:
        if node.op != "call_function":
            continue
        item = _instruction(node)
        edges |= {(writer[name], len(instructions)) for name in item.uses if name in writer}
        writer[node.name] = len(instructions)
        instructions.append(item)
    return Program(name, tuple(instructions), tuple(sorted(edges)))


def _instruction(node: Any) -> Instruction:
    kind = str(node.target).removeprefix("aten.").partition(".")[0]
    names = [argument.name for argument in node.args if hasattr(argument, "name")]
    constants: list[Number] = [a for a in node.args if type(a) in (int, float)]
    if kind == "pow" and names and constants == [2]:
        return Instruction(("mul",), (names[0], names[0]), (node.name,))
    is_plain = len(names) + len(constants) == len(node.args) and not node.kwargs
    if kind not in _OPS or not is_plain or not hasattr(node.args[0], "name"):
        raise InputError(
            f"{node.format_node()}: no tile can do this; known: {', '.join(sorted(_OPS))}, pow 2"
        )
    return Instruction((*_OPS[kind], *constants), tuple(names), (node.name,))
