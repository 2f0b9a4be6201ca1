"""Programs of this project: small kernels, instruction by instruction, and random graphs.

`data/inputs/streaming` has the kernels as files that `python -m placer.streaming.programs` wrote.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from placer.streaming.model.program import Instruction, Program, ProgramBuilder


def vector_add() -> Program:
    """Build c = a + b: two flows load, the third gets a and b over the asynchronous fabric and stores.

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
    """Compute (x - x0)^2 + (y - y0)^2 + (z - z0)^2, figure 1 of the paper."""
    b = ProgramBuilder()
    for axis in "xyz":
        b.add(f"d{axis}", "sub", axis, f"{axis}0")
    b.add("xx", "mul", "dx", "dx")
    b.add("xy", "mul add", "dy", "dy", "xx")
    b.add("xyz", "mul add", "dz", "dz", "xy")
    return b.build("distance")


def multiply_add() -> Program:
    """Compute y = a * x + b with the coefficients in tile memories."""
    b = ProgramBuilder()
    b.memory("a", 1.5)
    b.memory("b", -0.25)
    b.add("loaded", "mov", "x")
    b.add("y", "mul add", "loaded", "a", "b")
    b.add("clipped", "relu", "y")
    return b.build("multiply_add")


def fir(taps: int = 6) -> Program:
    """Filter by a finite impulse response: y = sum_k h_k x_k, with x_k the sample k threads ago.

    A thread brings the window of samples; each coefficient is in a tile memory.
    """
    b = ProgramBuilder()
    total: tuple[str, ...] = ()
    for k in range(taps):
        coefficient = b.memory(f"h{k}", 1.0 / (1 + k))
        sample = b.add(f"s{k}", "mov", f"x{k}")
        total = (b.add(f"y{k}", "mul add" if k else "mul", sample, coefficient, *total),)
    return b.build("fir")


def fft(*, is_inverse: bool = False) -> Program:
    """Build the inner loop of a radix-2 FFT: a butterfly, its loads and its stores.

    (u, v) -> (u + w v, u - w v) for complex u, v, with the twiddle w in tile memories. The inverse
    transform takes the conjugate of w and halves its results.
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
    return b.build("inverse_fft" if is_inverse else "fft")


def inverse_fft() -> Program:
    """Build the inner loop of the inverse FFT."""
    return fft(is_inverse=True)


def fft4() -> Program:
    """Build all of a four-point FFT; its twiddles are 1 and -i, so there are no products."""
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
    """Build y = M x, a row of multiply-adds for each y; the entries of M are in tile memories."""
    b = ProgramBuilder()
    for column in range(size):
        b.add(f"x{column}", "mov", f"in{column}")
    for row in range(size):
        total: tuple[str, ...] = ()
        for column in range(size):
            entry = b.memory(f"m{row}{column}", 1.0 + row - 0.5 * column)
            ops = "mul add" if column else "mul"
            total = (b.add(f"y{row}{column}", ops, f"x{column}", entry, *total),)
    return b.build("matrix_vector")


def _tree(b: ProgramBuilder, op: str, names: list[str], stem: str) -> str:
    """Join `names` in pairs until one is left."""
    while len(names) > 1:
        pairs = zip(names[::2], names[1::2], strict=False)
        joined = [b.add(f"{stem}{len(names)}{k}", op, *pair) for k, pair in enumerate(pairs)]
        names = joined + names[2 * len(joined) :]
    return names[0]


def softmax_row(size: int = 4) -> Program:
    """Divide exp(x - max x) by the sum of them."""
    b = ProgramBuilder()
    loaded = [b.add(f"x{k}", "mov", f"in{k}") for k in range(size)]
    largest = _tree(b, "max", loaded, "max")
    powers = [b.add(f"e{k}", "sub exp", f"x{k}", largest) for k in range(size)]
    inverse = b.add("inverse", "recip", _tree(b, "add", powers, "sum"))
    for k in range(size):
        b.add(f"y{k}", "mul", f"e{k}", inverse)
    return b.build("softmax_row")


def sorting_network() -> Program:
    """Put four values in order, by five comparators."""
    b = ProgramBuilder()
    lines = [b.add(f"x{k}", "mov", f"in{k}") for k in range(4)]
    for step, (i, j) in enumerate(((0, 1), (2, 3), (0, 2), (1, 3), (1, 2))):
        low = b.add(f"low{step}", "min", lines[i], lines[j])
        high = b.add(f"high{step}", "max", lines[i], lines[j])
        lines[i], lines[j] = low, high
    return b.build("sorting_network")


def table_lookup() -> Program:
    """Build two readers of one table that follow the same instruction: rules 2 and 4 disagree."""
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


def growing_network(num_nodes: int, rng: np.random.Generator) -> Program:
    """Return a graph in which each new node points to an earlier one, drawn by its degree.

    Then the lowest-numbered source gets an edge to every other source: one flow start with a wide
    fan-out, whose children all lead to node 0.
    """
    degree = np.zeros(num_nodes)
    edges = set()
    for node in range(1, num_nodes):
        weight = np.maximum(degree[:node], 1.0)
        target = int(rng.choice(node, p=weight / weight.sum()))
        edges.add((node, target))
        degree[[target, node]] += 1
    sources = sorted(set(range(num_nodes)) - {target for _, target in edges})
    edges |= {(sources[0], other) for other in sources[1:]}
    return Program(f"gn{num_nodes}", (Instruction(),) * num_nodes, tuple(sorted(edges)))


def layered(num_nodes: int, rng: np.random.Generator, *, memories: int = 0) -> Program:
    """Return nodes in layers of two to five; each reads one to three of the two layers before.

    `memories` variables are each read by two or three nodes that are no siblings of each other.
    """
    layer_of: list[int] = []
    while len(layer_of) < num_nodes:
        layer = layer_of[-1] + 1 if layer_of else 0
        layer_of += [layer] * int(rng.integers(2, 6))
    del layer_of[num_nodes:]
    edges = set()
    for node, layer in enumerate(layer_of):
        earlier = [n for n in range(node) if layer - 2 <= layer_of[n] < layer]
        for p in rng.permutation(earlier)[: rng.integers(1, 4)] if earlier else ():
            edges.add((int(p), node))
    name, nodes = f"layered{num_nodes}", (Instruction(),) * num_nodes
    plain = Program(name, nodes, tuple(sorted(edges)))
    readers = {}
    taken: set[int] = set()
    for k in range(memories):
        chosen: list[int] = []
        for node in map(int, rng.permutation(num_nodes)):
            rivals = {s for p in plain.predecessors[node] for s in plain.successors[p]}
            is_start = not plain.predecessors[node]
            if node not in taken and not is_start and not rivals & set(chosen):
                chosen.append(node)
            if len(chosen) == 2 + k % 2:
                break
        taken |= set(chosen)
        readers[f"v{k}"] = tuple(sorted(chosen))
    return Program(name, nodes, plain.edges, readers)
