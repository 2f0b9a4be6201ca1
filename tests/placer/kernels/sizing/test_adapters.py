"""Labels and the choice among them, against brute force."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.kernels.model import KERNEL_TYPES, OutRule, Placed, adapter_cost, kernel_performance
from placer.kernels.sizing import Frames, JointSizing, Problem, Target
from placer.kernels.sizing.adapters import Choice, Links, choose_labels, total_cost
from placer.kernels.sizing.labels import CORE, LABEL_C, LABEL_H, LABEL_W, execution_of, kernel_labels
from tests.placer.kernels.cases import small_graphs

GRAPHS = small_graphs()


def random_choice(seed: int, num: int, labels: int) -> Choice:
    generator = np.random.default_rng(seed)
    total = num * labels
    h, w, c, parity, core = (generator.integers(low, 4, total) for low in (1, 1, 1, 0, 0))
    out = np.minimum(c, generator.integers(1, 4, total))
    core[::labels] = 0  # one label of each node that fits any tie
    costs = generator.integers(0, 9, total).astype(np.float64)
    return Choice(h, w, c, out, parity % 2, core, costs, np.arange(num + 1) * labels)


def lowest(choice: Choice, links: Links) -> float:
    num = len(choice.starts) - 1
    ranges = [range(choice.starts[i], choice.starts[i + 1]) for i in range(num)]
    return min(total_cost(choice, links, np.array(chosen)) for chosen in product(*ranges))


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(2, 4), st.booleans())
def test_trees_are_solved_exactly(seed: int, num: int, has_tie: bool) -> None:
    choice = random_choice(seed, num, 5)
    generator = np.random.default_rng(seed)
    pairs = [(int(generator.integers(i)), i) for i in range(1, num)]
    ends = np.array([pair if generator.integers(2) else pair[::-1] for pair in pairs], np.int64)
    is_tie = np.zeros(num - 1, np.bool_)
    is_tie[0] = has_tie
    links = Links(ends, is_tie, 2.0, 0.5)
    found = choose_labels(choice, links, 0, generator, lambda: False)
    assert found is not None
    chosen, cost = found
    assert cost == pytest.approx(lowest(choice, links))
    assert cost == pytest.approx(total_cost(choice, links, chosen))


def test_cycles_are_nearly_always_solved_by_random_forests() -> None:
    ends = np.array([(0, 1), (1, 2), (0, 2), (2, 3)], np.int64)
    links = Links(ends, np.zeros(4, np.bool_), 2.0, 0.5)
    gaps = []
    for seed in range(12):
        choice = random_choice(seed, 4, 6)
        found = choose_labels(choice, links, 8, np.random.default_rng(seed), lambda: False)
        assert found is not None
        gaps.append(found[1] - lowest(choice, links))
    assert min(gaps) >= -1e-9
    assert np.mean(np.array(gaps) < 1e-9) >= 0.7


@pytest.mark.parametrize("name", GRAPHS)
def test_labels_stand_for_legal_executions_within_their_rectangle(name: str) -> None:
    graph = GRAPHS[name]
    problem = Problem(graph)
    limit, scale = graph.wafer.memory_limit, graph.time_scale
    ticks = int(problem.times[len(problem.times) // 2])
    target = Target(ticks, limit, scale)
    generator = np.random.default_rng(0)
    for kernel in graph.kernels:
        ends = kernel_labels(kernel, target, 39, 60)
        for _ in range(20):
            head = ends[0][generator.integers(len(ends[0]))]
            chosen = [head]
            if len(ends) == 2:
                same = ends[1][ends[1][:, CORE] == head[CORE]]
                chosen.append(same[generator.integers(len(same))])
            execution, x, y = execution_of(kernel, tuple(chosen), target, 60)
            performance = kernel_performance(kernel, execution)
            assert performance.time * scale <= ticks
            assert performance.memory <= limit
            assert y <= 60
            assert {x, y} == {performance.height, performance.width}
            assert (execution.image_height, execution.image_width) == (head[LABEL_H], head[LABEL_W])
            assert execution.channels_in[0] == head[LABEL_C]
            assert execution.channels_in[-1] == chosen[-1][LABEL_C]


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("rule", ["c_n", "min(c,k)"])
def test_labels_hand_over_what_the_rule_says(name: str, rule: OutRule) -> None:
    """The estimate of a chain is exact: wires aside, its cost is that of the judge's adapters."""
    graph = GRAPHS[name]
    graph = replace(graph, wafer=replace(graph.wafer, wire_weight=0.0, adapter_weight=1.0))
    problem, rules = Problem(graph), dict.fromkeys(KERNEL_TYPES, rule)
    zeros = np.zeros(problem.num, np.int64)
    frames = Frames(np.full(problem.num, 40), zeros, zeros.astype(np.float64), zeros, np.zeros(1))
    ticks = int(problem.times[len(problem.times) // 2])
    costs = {}
    for asked in (rules, dict.fromkeys(KERNEL_TYPES, "c_n"), dict.fromkeys(KERNEL_TYPES, "min(c,k)")):
        sized = JointSizing(problem, ticks, lambda: False, asked).choose(frames, np.zeros(1), 8, 0)
        assert sized is not None
        layout = tuple(Placed(e, 0, 0, r) for e, r in zip(sized.executions, sized.is_rotated, strict=True))
        costs[tuple(asked.values())] = adapter_cost(graph, layout, rules)
        if asked == rules:
            assert sized.cost == pytest.approx(adapter_cost(graph, layout, rules))
    assert costs[tuple(rules.values())] == min(costs.values())
