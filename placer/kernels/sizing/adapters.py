"""Choice of labels with few adapters: exact on chains and trees, large neighbourhoods on others.

Nodes are the ends of kernels. Minimises the sum of own costs, plus for every edge
`adapter * mismatches + half * [parity differs]`; the two ends of a block are tied: they must have
the same core. Mismatches are counted in three parts (h, w, c), so that the message from a node to
its neighbour needs only the best labels by h, by w, by c, by pairs and by all of them: it is linear
in the number of labels. On graphs with cycles, nodes outside a random induced forest keep their
labels, the forest is solved exactly, and so on with other forests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import njit

from placer.base import BoolArray, FloatArray, LongArray


class Choice(NamedTuple):
    """Labels of all nodes in one array; node i owns rows `starts[i] : starts[i + 1]`."""

    h: LongArray
    w: LongArray
    c: LongArray  # as targets of links see it
    out: LongArray  # c as their sources hand it over, at most c
    parity: LongArray
    core: LongArray
    cost: FloatArray
    starts: LongArray


class Links(NamedTuple):
    """Edges between nodes; a tie asks for the same core, others pay for mismatches."""

    ends: LongArray  # [num_links, 2]: source, target
    is_tie: BoolArray
    adapter: float
    half: float


class _Best(NamedTuple):
    """Least cost of a node's labels, by parity and by what a neighbour may have in common."""

    by_one: FloatArray
    by_two: FloatArray
    by_three: FloatArray
    by_core: FloatArray
    triple: LongArray  # [h, w] -> first entry of by_three


@njit(cache=True)
def _pair_cost(choice: Choice, links: Links, link: int, i: int, j: int) -> float:
    """Return the cost of a link whose source has label i and whose target has label j."""
    if links.is_tie[link]:
        return 0.0 if choice.core[i] == choice.core[j] else np.inf
    mismatches = (choice.h[i] != choice.h[j]) + (choice.w[i] != choice.w[j]) + (choice.out[i] != choice.c[j])
    return float(links.adapter * mismatches + links.half * (choice.parity[i] != choice.parity[j]))


@njit(cache=True)
def _link_cost(choice: Choice, links: Links, link: int, node: int, i: int, other: int) -> float:
    """Return the cost of a link, one of whose ends is a node with label i; the other end has label `other`."""
    if node == links.ends[link, 0]:
        return float(_pair_cost(choice, links, link, i, other))
    return float(_pair_cost(choice, links, link, other, i))


@njit(cache=True)
def total_cost(choice: Choice, links: Links, chosen: LongArray) -> float:
    """Return the whole cost of a choice."""
    total = 0.0
    for i in chosen:
        total += choice.cost[i]
    for link in range(len(links.ends)):
        u, v = links.ends[link, 0], links.ends[link, 1]
        total += _pair_cost(choice, links, link, chosen[u], chosen[v])
    return total


@njit(cache=True)
def _tie_message(choice: Choice, child: int, parent: int, out: FloatArray, best: _Best) -> None:
    for i in range(choice.starts[child], choice.starts[child + 1]):
        best.by_core[choice.core[i]] = min(best.by_core[choice.core[i]], out[i])
    for i in range(choice.starts[parent], choice.starts[parent + 1]):
        out[i] += best.by_core[choice.core[i]]
    for i in range(choice.starts[child], choice.starts[child + 1]):
        best.by_core[choice.core[i]] = np.inf


@njit(cache=True)
def _message(
    choice: Choice, links: Links, child: int, parent: int, is_source: bool, out: FloatArray, best: _Best
) -> None:
    """Add to out[parent's labels] the min over the child's labels of its cost and the link's.

    `is_source` tells whether the child is the source of the link.
    """
    child_c, parent_c = (choice.out, choice.c) if is_source else (choice.c, choice.out)
    one, two, three = best.by_one, best.by_two, best.by_three
    adapter = links.adapter
    lowest = np.full(2, np.inf)
    for i in range(choice.starts[child], choice.starts[child + 1]):
        h, w, c, p = choice.h[i], choice.w[i], child_c[i], choice.parity[i]
        value, t = out[i], best.triple[h, w] + c
        lowest[p] = min(lowest[p], value)
        one[0, p, h] = min(one[0, p, h], value)
        one[1, p, w] = min(one[1, p, w], value)
        one[2, p, c] = min(one[2, p, c], value)
        two[0, p, h, w] = min(two[0, p, h, w], value)
        two[1, p, h, c] = min(two[1, p, h, c], value)
        two[2, p, w, c] = min(two[2, p, w, c], value)
        three[p, t] = min(three[p, t], value)
    for i in range(choice.starts[parent], choice.starts[parent + 1]):
        h, w, c = choice.h[i], choice.w[i], parent_c[i]
        t = best.triple[h, w] + c
        least = np.inf
        for p in range(2):
            value = min(
                lowest[p] + 3 * adapter,
                min(one[0, p, h], one[1, p, w], one[2, p, c]) + 2 * adapter,
                min(two[0, p, h, w], two[1, p, h, c], two[2, p, w, c]) + adapter,
                three[p, t],
            )
            least = min(least, value + links.half * (p != choice.parity[i]))
        out[i] += least
    for i in range(choice.starts[child], choice.starts[child + 1]):
        h, w, c, p = choice.h[i], choice.w[i], child_c[i], choice.parity[i]
        one[0, p, h] = one[1, p, w] = one[2, p, c] = np.inf
        two[0, p, h, w] = two[1, p, h, c] = two[2, p, w, c] = np.inf
        three[p, best.triple[h, w] + c] = np.inf


@njit(cache=True)
def _walk(links: Links, is_free: BoolArray, order: LongArray, parent_link: LongArray) -> int:
    """Order the free nodes from the roots of their trees; returns how many there are."""
    num = len(is_free)
    seen = np.zeros(num, np.bool_)
    placed = 0
    for root in range(num):
        if seen[root] or not is_free[root]:
            continue
        seen[root] = True
        parent_link[root] = -1
        order[placed] = root
        head = placed
        placed += 1
        while head < placed:
            node = order[head]
            head += 1
            for link in range(len(links.ends)):
                u, v = links.ends[link, 0], links.ends[link, 1]
                other = v if u == node else (u if v == node else -1)
                if other >= 0 and is_free[other] and not seen[other]:
                    seen[other] = True
                    parent_link[other] = link
                    order[placed] = other
                    placed += 1
    return placed


@njit(cache=True)
def _solve_forest(choice: Choice, links: Links, is_free: BoolArray, chosen: LongArray, best: _Best) -> None:
    """Write the best labels of the free nodes, which form a forest, into `chosen`."""
    num = len(is_free)
    out = choice.cost.copy()
    for link in range(len(links.ends)):
        u, v = links.ends[link, 0], links.ends[link, 1]
        if is_free[u] == is_free[v]:
            continue
        node, fixed = (u, chosen[v]) if is_free[u] else (v, chosen[u])
        for i in range(choice.starts[node], choice.starts[node + 1]):
            out[i] += _link_cost(choice, links, link, node, i, fixed)
    order, parent_link = np.empty(num, np.int64), np.empty(num, np.int64)
    placed = _walk(links, is_free, order, parent_link)
    for k in range(placed - 1, -1, -1):
        node, link = order[k], parent_link[order[k]]
        if link < 0:
            continue
        parent = links.ends[link, 0] + links.ends[link, 1] - node
        if links.is_tie[link]:
            _tie_message(choice, node, parent, out, best)
        else:
            _message(choice, links, node, parent, node == links.ends[link, 0], out, best)
    for k in range(placed):
        node, link = order[k], parent_link[order[k]]
        fixed = chosen[links.ends[link, 0] + links.ends[link, 1] - node] if link >= 0 else -1
        lowest = np.inf
        for i in range(choice.starts[node], choice.starts[node + 1]):
            value = out[i]
            if link >= 0:
                value += _link_cost(choice, links, link, node, i, fixed)
            if value < lowest:
                lowest = value
                chosen[node] = i


@njit(cache=True)
def _induced_forest(ends: LongArray, order: LongArray) -> BoolArray:
    """Take nodes in this order, each unless it would close a cycle with those taken."""
    num = len(order)
    is_free = np.zeros(num, np.bool_)
    group = np.arange(num)
    for node in order:
        seen = np.zeros(num, np.bool_)
        closes = False
        for link in range(len(ends)):
            u, v = ends[link, 0], ends[link, 1]
            other = v if u == node else (u if v == node else -1)
            if other >= 0 and is_free[other]:
                closes = closes or seen[group[other]]
                seen[group[other]] = True
        if closes:
            continue
        is_free[node] = True
        for other in range(num):
            if is_free[other] and seen[group[other]]:
                group[other] = node
        group[node] = node
    return is_free


def choose_labels(
    choice: Choice, links: Links, rounds: int, generator: np.random.Generator, is_over: Callable[[], bool]
) -> tuple[LongArray, float] | None:
    """Return the row of the chosen label per node, and the cost; exact if the links form a forest.

    None if the time is over before all rounds.
    """
    num = len(choice.starts) - 1
    best = _tables(choice)
    is_in_tree = _spanning_forest(num, links.ends)
    tree = Links(links.ends[is_in_tree], links.is_tie[is_in_tree], links.adapter, links.half)
    chosen = choice.starts[:-1].copy()
    _solve_forest(choice, tree, np.ones(num, np.bool_), chosen, best)
    kept, lowest = chosen.copy(), float(total_cost(choice, links, chosen))
    if is_in_tree.all():
        return kept, lowest
    simple = np.unique(np.sort(links.ends, axis=1), axis=0)
    for _ in range(rounds):
        if is_over():
            return None
        is_free = _induced_forest(simple, generator.permutation(num))
        _solve_forest(choice, links, is_free, chosen, best)
        value = float(total_cost(choice, links, chosen))
        if value < lowest - 1e-9:
            kept, lowest = chosen.copy(), value
    return kept, lowest


def _tables(choice: Choice) -> _Best:
    most_h, most_w = int(choice.h.max()) + 1, int(choice.w.max()) + 1
    side = max(most_h, most_w, int(choice.c.max()) + 1)
    most = np.zeros((most_h, most_w), np.int64)
    np.maximum.at(most, (choice.h, choice.w), choice.c + 1)
    ends = np.cumsum(most.ravel())
    return _Best(
        np.full((3, 2, side), np.inf),
        np.full((3, 2, max(most_h, most_w), side), np.inf),
        np.full((2, int(ends[-1])), np.inf),
        np.full(int(choice.core.max()) + 1, np.inf),
        (ends - most.ravel()).reshape(most.shape),
    )


def _spanning_forest(num: int, ends: LongArray) -> BoolArray:
    """Tell which links a spanning forest takes: all that close no cycle with those before."""
    group, is_in_tree = np.arange(num), np.zeros(len(ends), np.bool_)
    for link, (u, v) in enumerate(ends.tolist()):
        is_in_tree[link] = group[u] != group[v]
        group[group == group[v]] = group[u]
    return is_in_tree
