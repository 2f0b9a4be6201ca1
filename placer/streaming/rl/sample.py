"""Mappings from a trained policy: many games of one problem at once, the best one counts."""

from __future__ import annotations

import math
import time
from itertools import count

import numpy as np
import torch

from placer.base import InputError
from placer.streaming.game import BatchEnv, Order
from placer.streaming.model import Budget, Found, Mapping
from placer.streaming.rl.policy import Policy, graphs_of, seen_of
from placer.streaming.rl.ppo import REWARD_SCALE, PpoConfig
from placer.streaming.rl.train import update_once
from placer.streaming.search import UNLIMITED, Problem

SAMPLES = 64
_FINE_TUNING_RATE = 3e-4
_CELLS_PER_SECOND = 250_000  # games times instructions times (tiles + instructions); a slow core
_MOST_CELLS = 100_000_000  # games times instructions times tiles, of a batch: some 200 MB
_MOST_TUNED_CELLS = 100_000  # instructions times tiles, when all steps of 64 games are kept
_PROBE_STEPS = 4  # of the first batch, whose speed tells how long all of it takes
_CLEARLY = 2.0  # times too slow, which the first of these steps tells
_GRACE = 1.1, 0.6  # the first batch may take so many times the limit, and so many seconds more
_UPDATE_GAMES = 8.0  # games that take as long as learning from one
_TEMPERATURE = 1.6  # flatter than trained: the best of many counts, not the mean


class TooSlowError(Exception):
    """A batch that has just begun would take longer than its budget."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds  # of all of it


def sample_once(
    problem: Problem,
    policy: Policy,
    num: int,
    seed: int,
    budget: Budget | None = None,
    *,
    ranks: int = 0,
    order: Order = "tail",
    probe: bool = False,
) -> list[Mapping]:
    """Return the mappings of `num` games, best first; the first game takes the likeliest tiles.

    There are none when the games take longer than the budget (default: any time).

    `ranks` times, evenly spread over the game, the value model ranks the games by the cycles that
    it expects (LB - value): the better half goes on twice, the other half is given up.

    With `probe`, raises TooSlowError after a few steps when all of them would take too long.
    """
    budget, began = budget or Budget(math.inf), time.monotonic()
    env = BatchEnv([problem], np.zeros(num, np.int64), order, seed)
    generator = torch.Generator().manual_seed(seed)
    graphs = graphs_of([problem])
    rank_at = {round(problem.num_nodes * (k + 1) / (ranks + 1)) for k in range(ranks)}
    with torch.inference_mode():
        embedded = policy.embed(graphs)
        observation = env.reset()
        for step in count():
            if not env.is_alive.any() or budget.is_spent(0):
                break
            if probe and 0 < step <= _PROBE_STEPS:
                expected = (time.monotonic() - began) / step * problem.num_nodes
                if expected > budget.seconds * (1 if step == _PROBE_STEPS else _CLEARLY):
                    raise TooSlowError(expected)
            seen = seen_of(env.episodes.problem, observation)
            logits, values = policy(embedded, graphs.is_node, seen)
            if step in rank_at:
                expected = env.episodes.bound - values.numpy() / REWARD_SCALE
                expected[~env.is_alive] = UNLIMITED
                kept = np.argsort(expected, kind="stable")[: (num + 1) // 2]
                going_on = np.concatenate([kept, kept])[:num]
                env.copy_games(going_on)
                logits = logits[torch.from_numpy(going_on)]
            odds = torch.softmax(logits / _TEMPERATURE, dim=1)
            actions = torch.multinomial(odds, 1, generator=generator)[:, 0]
            actions[0] = logits[0].argmax()
            observation = env.step(actions.numpy())
    best_first = np.argsort(env.cycles, kind="stable")
    found = (env.mapping(int(game)) for game in best_first)
    return [mapping for mapping in found if mapping is not None]


def sample_mappings(
    problem: Problem, budget: Budget, seed: int, policy: Policy, *, samples: int = SAMPLES, ranks: int = 0
) -> Found:
    """Take batches of samples until the budget is spent or the bound is reached (zero-shot).

    Batches of large problems are smaller than `samples`, so that time and memory are enough for one.
    The first batch may take a little longer than the budget: without it there is nothing. When not
    even one game can end by then, this is noticed after a few steps, and there is no mapping.
    """
    nodes, tiles = problem.num_nodes, problem.num_tiles
    in_time = int(_CELLS_PER_SECOND * budget.seconds) // (nodes * (nodes + tiles))
    samples = max(1, min(samples, in_time, _MOST_CELLS // (nodes * tiles)))
    best: Mapping | None = None
    try:
        found, samples = _first_batch(problem, budget, seed, policy, samples, ranks)
    except TooSlowError as error:
        return Found(None, problem.bounds.total, 0, needed=error.seconds)
    tries = samples
    for batch in count(1):
        if found and (best is None or found[0].cycles < best.cycles):
            best = found[0]
        if budget.is_spent(tries) or (best and best.cycles == problem.bounds.total):
            break
        found = sample_once(problem, policy, samples, _child(seed, batch), budget, ranks=ranks)
        tries += samples
    return Found(best, problem.bounds.total, tries)


def _first_batch(
    problem: Problem, budget: Budget, seed: int, policy: Policy, samples: int, ranks: int
) -> tuple[list[Mapping], int]:
    """Return the first mappings, and the number of games: fewer when so many would take too long.

    Raises TooSlowError when even one would.
    """
    times, more = _GRACE
    while True:
        left = budget.began + times * budget.seconds + more - time.monotonic()
        now = budget.part(max(left, more / 2))
        try:
            return sample_once(problem, policy, samples, _child(seed, 0), now, ranks=ranks, probe=True), samples
        except TooSlowError:
            if samples == 1:
                raise
            samples = max(1, samples // 4)


def _child(seed: int, batch: int) -> int:
    return int(np.random.SeedSequence([seed, batch]).generate_state(1)[0])


def fine_tune(problem: Problem, budget: Budget, seed: int, policy: Policy) -> Found:
    """Go on training on this problem alone; every game played counts.

    `policy` changes. Raises InputError for a problem that would need too much memory.
    """
    if problem.num_nodes * problem.num_tiles > _MOST_TUNED_CELLS:
        raise InputError(
            f"fine_tune=true with {problem.num_nodes} instructions on {problem.num_tiles} tiles "
            f"needs too much memory; allowed: a product of {_MOST_TUNED_CELLS}"
        )
    optimizer = torch.optim.Adam(policy.parameters(), lr=_FINE_TUNING_RATE)
    config = PpoConfig(rollouts=SAMPLES)
    began = time.monotonic()
    first = sample_mappings(problem, budget.part(budget.seconds, 1), seed, policy)
    tries, mapping = first.tries, first.mapping
    if first.needed is not None:
        return first
    # An update that would not end in time is not begun.
    seconds = _UPDATE_GAMES * config.rollouts / tries * (time.monotonic() - began)
    for batch in count(1):
        is_done = mapping is not None and mapping.cycles == problem.bounds.total
        if is_done or budget.is_spent(tries) or budget.remaining < seconds:
            break
        begin = time.monotonic()
        _, games = update_once(policy, optimizer, [problem], config, _child(seed, batch))
        seconds = time.monotonic() - begin
        tries += config.rollouts
        found = games[0]
        if found and (mapping is None or found.cycles < mapping.cycles):
            mapping = found
    return Found(mapping, problem.bounds.total, tries)
