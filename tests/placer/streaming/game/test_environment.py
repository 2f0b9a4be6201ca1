"""The mapping game: rewards, masks, orders; many games are the same as one."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.streaming.game import BatchEnv, Order
from placer.streaming.mappers import require_legal
from placer.streaming.model import Device, growing_network, layered
from placer.streaming.rl.gym_env import StreamingEnv
from placer.streaming.search import UNLIMITED, Problem, make_problem
from tests.placer.streaming.cases import graph, problems

ORDERS: tuple[Order, ...] = ("level", "tail", "random", "id")


def play(env: BatchEnv, rng: np.random.Generator) -> np.ndarray:
    """Random legal games; the sum of rewards of each."""
    seen = env.reset()
    total = np.zeros(len(env.cycles))
    while env.is_alive.any():
        seen = env.step((rng.random(seen.mask.shape) * seen.mask).argmax(axis=1))
        total += env.rewards
    return total


@settings(max_examples=15)
@given(st.lists(problems(), min_size=1, max_size=4), st.sampled_from(ORDERS), st.integers(0, 99))
def test_rewards_add_up_to_the_cycles_above_the_bound(cases: list[Problem], order: Order, seed: int) -> None:
    env = BatchEnv(cases, np.repeat(np.arange(len(cases)), 3), order, seed)
    total = play(env, np.random.default_rng(seed))
    for game, problem in enumerate(case for case in cases for _ in range(3)):
        mapping = env.mapping(game)
        if mapping is None:
            assert total[game] < 0
            continue
        cycles = require_legal(problem, mapping).cycles
        assert cycles == env.cycles[game] == problem.bounds.total - total[game]


@pytest.mark.parametrize("order", ["level", "tail", "random"])
def test_orders_are_topological(order: Order) -> None:
    problem = make_problem(layered(30, np.random.default_rng(0)), Device())
    env = BatchEnv([problem], [0, 0], order, seed=1)
    env.reset()
    for places in env.episodes.order:
        position = {int(node): k for k, node in enumerate(places)}
        assert sorted(position) == list(range(30))
        assert all(position[a] < position[b] for a, b in problem.program.edges)


def test_games_do_not_know_of_each_other() -> None:
    """A game in a batch with larger ones sees and gets what it does alone."""
    rng = np.random.default_rng(0)
    small = make_problem(growing_network(9, rng), Device())
    large = make_problem(growing_network(20, rng), Device(tiles=32))
    together, alone = BatchEnv([large, small], [0, 1], "id"), BatchEnv([small], [0], "id")
    seen, own = together.reset(), alone.reset()
    while alone.is_alive.any():
        tiles, nodes = own.mask.shape[1], own.nodes.shape[1]
        assert (seen.mask[1, :tiles] == own.mask[0]).all() and not seen.mask[1, tiles:].any()
        assert (seen.tiles[1, :tiles] == own.tiles[0]).all()
        assert (seen.nodes[1, :nodes] == own.nodes[0]).all()
        assert (seen.state[1] == own.state[0]).all()
        choice = int(rng.choice(np.flatnonzero(own.mask[0])))
        seen = together.step(np.array([int(seen.mask[0].argmax()), choice]))
        own = alone.step(np.array([choice]))
        assert together.rewards[1] == alone.rewards[0]
    assert together.cycles[1] == alone.cycles[0] < UNLIMITED


def test_illegal_tiles_end_the_game_with_a_penalty() -> None:
    problem = make_problem(graph(3, (0, 1), (0, 2)), Device())
    env = BatchEnv([problem], [0, 0])
    first = env.reset()
    legal = int(first.mask[0].argmax())
    env.step(np.array([legal, 99]))
    assert env.is_alive.tolist() == [True, False]
    assert env.rewards[1] == -(3 + 3) * 3
    assert env.mapping(1) is None


def test_look_ahead_keeps_room_for_clusters_and_siblings() -> None:
    """Two tiles of two slots: the cluster {1, 2} needs a whole tile."""
    program = graph(4, (0, 1), (0, 3), (1, 2), a=(1, 2))
    problem = make_problem(program, Device(tiles=2, ii=2, depth=1))
    env = BatchEnv([problem], np.zeros(50, np.int64), "random", 0)
    play(env, np.random.default_rng(0))
    assert (env.cycles < UNLIMITED).all()


def test_copied_games_go_on_alike() -> None:
    problem = make_problem(growing_network(12, np.random.default_rng(1)), Device())
    env = BatchEnv([problem], np.zeros(4, np.int64), "random", 0)
    rng = np.random.default_rng(2)
    seen = env.reset()
    for _ in range(5):
        seen = env.step((rng.random(seen.mask.shape) * seen.mask).argmax(axis=1))
    seen = env.copy_games(np.array([2, 2, 2, 2]))
    while env.is_alive.any():
        assert (seen.tiles == seen.tiles[0]).all()
        seen = env.step(seen.mask.argmax(axis=1))
    assert len(set(env.cycles.tolist())) == 1


def test_gymnasium_accepts_the_environment() -> None:
    problem = make_problem(growing_network(8, np.random.default_rng(0)), Device())
    env = StreamingEnv(problem)
    assert isinstance(env, gym.Env)
    check_env(env, skip_render_check=True)
    seen, _ = env.reset(seed=3)
    is_over, total, info = False, 0.0, {}
    while not is_over:
        assert env.observation_space.contains(seen)
        action = np.int64(env.action_masks().argmax())
        seen, reward, is_over, _, info = env.step(action)
        total += reward
    mapping = env.mapping()
    assert mapping is not None
    assert info["cycles"] == require_legal(problem, mapping).cycles
    assert total == problem.bounds.total - info["cycles"]
