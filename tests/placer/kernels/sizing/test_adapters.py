"""Labels and the choice among them, against brute force."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.kernels.model import kernel_performance
from placer.kernels.sizing import Problem, Target
from placer.kernels.sizing.adapters import Choice, Links, choose_labels, total_cost
from placer.kernels.sizing.labels import LABEL_C, LABEL_H, LABEL_W, execution_of, kernel_labels
from tests.placer.kernels.cases import small_graphs

GRAPHS = small_graphs()


def random_choice(seed: int, num: int, labels: int) -> Choice:
    generator = np.random.default_rng(seed)
    total = num * labels
    h, w, c, parity, core = (generator.integers(low, 4, total) for low in (1, 1, 1, 0, 0))
    core[::labels] = 0  # one label of each node that fits any tie
    costs = generator.integers(0, 9, total).astype(np.float64)
    return Choice(h, w, c, parity % 2, core, costs, np.arange(num + 1) * labels)


def lowest(choice: Choice, links: Links) -> float:
    num = len(choice.starts) - 1
    ranges = [range(choice.starts[i], choice.starts[i + 1]) for i in range(num)]
    return min(total_cost(choice, links, np.array(chosen)) for chosen in product(*ranges))


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(2, 4), st.booleans())
def test_trees_are_solved_exactly(seed: int, num: int, has_tie: bool) -> None:
    choice = random_choice(seed, num, 5)
    generator = np.random.default_rng(seed)
    ends = np.array([(generator.integers(i), i) for i in range(1, num)], np.int64)
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
                same = ends[1][ends[1][:, 4] == head[4]]
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
