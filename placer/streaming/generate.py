"""Random programs: growing networks as in the paper, and layered graphs with tile memories."""

from __future__ import annotations

import numpy as np

from placer.streaming.program import Instruction, Program


def growing_network(num_nodes: int, rng: np.random.Generator) -> Program:
    """Each new node points to an earlier one, chosen in proportion to its degree.

    Then the lowest-numbered source gets an edge to every other source: one flow start with a wide
    fan-out, whose children all lead to node 0.
    """
    degree = np.zeros(num_nodes)
    edges = set()
    for node in range(1, num_nodes):
        weight = np.maximum(degree[:node], 1.0)
        target = int(rng.choice(node, p=weight / weight.sum()))
        edges.add((node, target))
        degree[target] += 1
        degree[node] += 1
    sources = sorted(set(range(num_nodes)) - {target for _, target in edges})
    edges |= {(sources[0], other) for other in sources[1:]}
    return Program(f"gn{num_nodes}", (Instruction(),) * num_nodes, tuple(sorted(edges)))


def layered(num_nodes: int, rng: np.random.Generator, *, memories: int = 0) -> Program:
    """Nodes in layers of two to five; each reads one to three nodes of the two layers before.

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
    plain = Program("layered", (Instruction(),) * num_nodes, tuple(sorted(edges)))
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
    name = f"layered{num_nodes}"
    return Program(name, plain.instructions, plain.edges, readers)
