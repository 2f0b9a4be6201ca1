"""Command: write the programs of this project, small kernels by instruction, to files anew.

`data/inputs/streaming` holds each of them as a file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from placer.files import write_atomic
from placer.streaming.program import Instruction, Number, Program
from placer.streaming.program_file import to_json

INPUTS = Path(__file__).resolve().parents[2] / "data/inputs/streaming"


class ProgramBuilder:
    """Adds instructions one after the other; edges follow from the names that they read.

    A name is an input of the thread until an instruction writes it.
    """

    def __init__(self) -> None:
        self._instructions: list[Instruction] = []
        self._writer: dict[str, int] = {}
        self._edges: set[tuple[int, int]] = set()
        self._contents: dict[str, tuple[float, ...]] = {}
        self._flow = 0

    def memory(self, name: str, *values: float) -> str:
        """A variable in a tile memory: its readers will be on one tile."""
        self._contents[name] = values
        return name

    def next_flow(self) -> None:
        """Instructions from here on belong to another synchronous flow; no data crosses over."""
        self._flow += 1
        self._writer.clear()

    def add(self, result: str, ops: str, *operands: str, constant: Number | None = None) -> str:
        """`result` = ops(operands), with ops as in "mul add"; a constant goes to the last op."""
        node = len(self._instructions)
        given: tuple[str | Number, ...] = tuple(ops.split())
        if constant is not None:
            given += (constant,)
        self._instructions.append(Instruction(given, operands, (result,), self._flow))
        self._edges |= {(self._writer[name], node) for name in operands if name in self._writer}
        self._writer[result] = node
        return result

    def build(self, name: str) -> Program:
        readers = {
            variable: tuple(n for n, item in enumerate(self._instructions) if variable in item.uses)
            for variable in self._contents
        }
        return Program(
            name, tuple(self._instructions), tuple(sorted(self._edges)), readers, self._contents
        )


def vector_add() -> Program:
    """c = a + b: two flows load, the third gets a and b over the asynchronous fabric and stores.

    Memory outside of the tiles is not modelled: a load or store hands on its first operand.
    """
    b = ProgramBuilder()
    for name in "ab":
        b.add(f"address_{name}", "add", f"base_{name}", "index")
        b.add(name, "mov", f"address_{name}")
        b.next_flow()
    b.add("sum", "add", "a", "b")
    b.add("address_c", "add", "base_c", "index")
    b.add("c", "mov", "sum", "address_c")
    return b.build("vector_add")


def distance() -> Program:
    """(x - x0)^2 + (y - y0)^2 + (z - z0)^2, figure 1 of the paper."""
    b = ProgramBuilder()
    for axis in "xyz":
        b.add(f"d{axis}", "sub", axis, f"{axis}0")
    b.add("xx", "mul", "dx", "dx")
    b.add("xy", "mul add", "dy", "dy", "xx")
    b.add("xyz", "mul add", "dz", "dz", "xy")
    return b.build("distance")


def multiply_add() -> Program:
    """y = a * x + b with the coefficients in tile memories."""
    b = ProgramBuilder()
    b.memory("a", 1.5)
    b.memory("b", -0.25)
    b.add("loaded", "mov", "x")
    b.add("y", "mul add", "loaded", "a", "b")
    b.add("clipped", "relu", "y")
    return b.build("multiply_add")


def fir(taps: int = 6) -> Program:
    """Finite impulse response filter y = sum_k h_k x_k, with x_k the sample k threads ago.

    A thread brings the window of samples; each coefficient is in a tile memory.
    """
    b = ProgramBuilder()
    total = ""
    for k in range(taps):
        coefficient = b.memory(f"h{k}", 1.0 / (1 + k))
        sample = b.add(f"s{k}", "mov", f"x{k}")
        if k:
            total = b.add(f"y{k}", "mul add", sample, coefficient, total)
        else:
            total = b.add("y0", "mul", sample, coefficient)
    return b.build("fir")


def _butterfly(name: str, *, is_inverse: bool) -> Program:
    """(u, v) -> (u + w v, u - w v) for complex u, v, with the twiddle w in tile memories.

    The inverse transform takes the conjugate of w and halves its results.
    """
    b = ProgramBuilder()
    b.memory("wr", 0.8)
    b.memory("wi", -0.6)
    b.add("address", "add", "base", "index")
    for value in ("ur", "ui", "vr", "vi"):
        b.add(value, "add", "address", f"in_{value}")
    for value in ("vr", "vi"):
        for part in ("wr", "wi"):
            b.add(value + part, "mul", value, part)
    b.add("tr", "add" if is_inverse else "sub", "vrwr", "viwi")
    b.add("ti", "sub" if is_inverse else "add", "viwr", "vrwi")
    halve: dict[str, float] = {"constant": 0.5} if is_inverse else {}
    for part in ("r", "i"):
        for sign, op in (("p", "add"), ("m", "sub")):
            ops = f"{op} mul" if is_inverse else op
            b.add(f"out_{sign}{part}", ops, f"u{part}", f"t{part}", **halve)
    b.add("stored_upper", "add", "out_pr", "out_pi")
    b.add("stored_lower", "add", "out_mr", "out_mi")
    return b.build(name)


def fft() -> Program:
    """Inner loop of a radix-2 FFT: a butterfly, its loads and its stores."""
    return _butterfly("fft", is_inverse=False)


def inverse_fft() -> Program:
    """Inner loop of the inverse FFT."""
    return _butterfly("inverse_fft", is_inverse=True)


def fft4() -> Program:
    """All of a four-point FFT; its twiddles are 1 and -i, so there are no products."""
    b = ProgramBuilder()
    for point in "abcd":
        for part in "ri":
            b.add(f"{point}{part}", "mov", f"in_{point}{part}")
    for upper, lower in ("ac", "bd"):
        for part in "ri":
            b.add(f"s{upper}{part}", "add", f"{upper}{part}", f"{lower}{part}")
            b.add(f"d{upper}{part}", "sub", f"{upper}{part}", f"{lower}{part}")
    for part, other, sign in (("r", "i", "add"), ("i", "r", "sub")):
        turned = "sub" if sign == "add" else "add"
        b.add(f"y0{part}", "add", f"sa{part}", f"sb{part}")
        b.add(f"y2{part}", "sub", f"sa{part}", f"sb{part}")
        b.add(f"y1{part}", sign, f"da{part}", f"db{other}")
        b.add(f"y3{part}", turned, f"da{part}", f"db{other}")
    return b.build("fft4")


def matrix_vector(size: int = 3) -> Program:
    """y = M x, a row of multiply-adds for each y; the entries of M are in tile memories."""
    b = ProgramBuilder()
    for column in range(size):
        b.add(f"x{column}", "mov", f"in{column}")
    for row in range(size):
        for column in range(size):
            entry = b.memory(f"m{row}{column}", 1.0 + row - 0.5 * column)
            if column:
                b.add(f"y{row}{column}", "mul add", f"x{column}", entry, f"y{row}{column - 1}")
            else:
                b.add(f"y{row}0", "mul", "x0", entry)
    return b.build("matrix_vector")


def _tree(b: ProgramBuilder, op: str, names: list[str], stem: str) -> str:
    """Join `names` in pairs until one is left."""
    while len(names) > 1:
        pairs = zip(names[::2], names[1::2], strict=False)
        joined = [b.add(f"{stem}{len(names)}{k}", op, *pair) for k, pair in enumerate(pairs)]
        names = joined + names[2 * len(joined) :]
    return names[0]


def softmax_row(size: int = 4) -> Program:
    """exp(x - max x) / sum of them."""
    b = ProgramBuilder()
    loaded = [b.add(f"x{k}", "mov", f"in{k}") for k in range(size)]
    largest = _tree(b, "max", loaded, "max")
    powers = [b.add(f"e{k}", "sub exp", f"x{k}", largest) for k in range(size)]
    inverse = b.add("inverse", "recip", _tree(b, "add", powers, "sum"))
    for k in range(size):
        b.add(f"y{k}", "mul", f"e{k}", inverse)
    return b.build("softmax_row")


def sorting_network() -> Program:
    """Four values in order, by five comparators."""
    b = ProgramBuilder()
    lines = [b.add(f"x{k}", "mov", f"in{k}") for k in range(4)]
    for step, (i, j) in enumerate(((0, 1), (2, 3), (0, 2), (1, 3), (1, 2))):
        low = b.add(f"low{step}", "min", lines[i], lines[j])
        high = b.add(f"high{step}", "max", lines[i], lines[j])
        lines[i], lines[j] = low, high
    return b.build("sorting_network")


def table_lookup() -> Program:
    """Two readers of one table follow the same instruction: rules 2 and 4 disagree."""
    b = ProgramBuilder()
    b.memory("table", 2.0, 3.0, 5.0)
    b.add("key", "add", "x", "offset")
    b.add("first", "mul", "key", "table")
    b.add("second", "add", "key", "table")
    b.add("both", "sub sum", "second", "first")
    return b.build("table_lookup")


PROGRAMS: tuple[Callable[[], Program], ...] = (
    vector_add, distance, multiply_add, fir, fft, inverse_fft, fft4, matrix_vector, softmax_row,
    sorting_network, table_lookup,
)  # fmt: skip


def main(folder: Path) -> None:
    """Entry point."""
    for build in PROGRAMS:
        program = build()
        write_atomic(folder / f"{program.name}.json", to_json(program))


if __name__ == "__main__":
    main(INPUTS)
