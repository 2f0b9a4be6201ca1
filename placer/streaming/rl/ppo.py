"""Masked PPO: play games with the policy, then improve it on them (Schulman et al. 2017).

Masked logits keep illegal tiles out of the distribution and its entropy (Huang and Ontanon 2020).
Episodes have no discount: the sum of rewards is minus the cycles above the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from placer.streaming.bounds import UNLIMITED
from placer.streaming.options import require_within
from placer.streaming.problem import Problem
from placer.streaming.rl.environment import BatchEnv, Order
from placer.streaming.rl.policy import Policy, Seen, graphs_of, seen_of

REWARD_SCALE = 0.25  # values of a few units suit the network


@dataclass(frozen=True, slots=True)
class PpoConfig:
    """How one update learns."""

    rollouts: int = 16  # games of each graph
    epochs: int = 2  # passes over the games
    minibatch: int = 1024  # steps
    clip: float = 0.2  # of the ratio of probabilities
    trace: float = 1.0  # lambda of the advantage estimate (GAE); gamma is 1
    entropy: float = 0.05  # weight of the entropy of legal actions
    value: float = 0.5  # weight of the value loss
    max_norm: float = 1.0  # of the gradient
    order: Order = "tail"  # in which instructions are placed
    is_masked: bool = True  # False: illegal tiles may be chosen, and end the game with a penalty

    def __post_init__(self) -> None:
        require_within(
            self, ("rollouts", 1, 4096), ("epochs", 1, 1000), ("minibatch", 1, 1 << 20),
            ("clip", 1e-6, 1), ("trace", 0, 1), ("entropy", 0, 1e6), ("value", 0, 1e6),
            ("max_norm", 1e-9, 1e9),
        )  # fmt: skip


class Games(NamedTuple):
    """Steps of finished games, those of all games after each other."""

    seen: Seen
    actions: Tensor  # [steps]
    log_probs: Tensor  # [steps]
    advantages: Tensor  # [steps] normalised per graph
    returns: Tensor  # [steps] scaled cycles


class _Step(NamedTuple):
    """One step of all games."""

    seen: Seen
    actions: Tensor  # [batch]
    log_probs: Tensor
    values: Tensor
    rewards: Tensor
    is_alive: Tensor  # before the step


class Outcome(NamedTuple):
    """How the games of an update ended."""

    excess: float  # mean of (cycles - bound) / bound over games that were won
    best_excess: float  # the same for the best game of each graph
    dead_ends: float  # share of games
    reward: float  # mean sum of rewards, cycles


def play(
    policy: Policy, env: BatchEnv, config: PpoConfig, generator: torch.Generator
) -> tuple[Games, Outcome]:
    """Play all games of `env` to their end."""
    graphs = graphs_of(env.problems)
    graph = env.episodes.problem
    steps: list[_Step] = []
    with torch.no_grad():
        embedded = policy.embed(graphs)
        observation = env.reset()
        while env.is_alive.any():
            is_alive = torch.from_numpy(env.is_alive.copy())
            seen = seen_of(graph, observation)
            if not config.is_masked:
                seen = seen._replace(mask=_on_device(env, seen.mask))
            logits, values = policy(embedded, graphs.is_node, seen)
            log_probs = torch.log_softmax(logits, dim=1)
            actions = torch.multinomial(log_probs.exp(), 1, generator=generator)[:, 0]
            chosen = log_probs.gather(1, actions[:, None])[:, 0]
            observation = env.step(actions.numpy())
            rewards = torch.from_numpy(env.rewards * np.float32(REWARD_SCALE))
            steps.append(_Step(seen, actions, chosen, values, rewards, is_alive))
    return _join(steps, graph, config.trace), _outcome(env, steps)


def _on_device(env: BatchEnv, mask: Tensor) -> Tensor:
    """All tiles of the device count as legal."""
    tiles = torch.from_numpy(env.pack.num_tiles[env.episodes.problem])
    return torch.arange(mask.shape[1])[None] < tiles[:, None]


def _join(
    steps: Sequence[_Step],
    graph: np.ndarray,
    trace: float,
) -> Games:
    values = torch.stack([step.values for step in steps])
    rewards = torch.stack([step.rewards for step in steps])
    is_alive = torch.stack([step.is_alive for step in steps])
    advantages = torch.zeros_like(values)
    running, following = torch.zeros_like(values[0]), torch.zeros_like(values[0])
    for k in range(len(steps) - 1, -1, -1):
        delta = rewards[k] + following - values[k]
        running = torch.where(is_alive[k], delta + trace * running, 0.0)
        following = torch.where(is_alive[k], values[k], 0.0)
        advantages[k] = running
    returns = advantages + values
    advantages = _normalised(advantages, is_alive, torch.from_numpy(graph))
    seen = Seen(
        *(torch.stack(part)[is_alive] for part in zip(*(s.seen for s in steps), strict=True))
    )
    actions = torch.stack([step.actions for step in steps])[is_alive]
    log_probs = torch.stack([step.log_probs for step in steps])[is_alive]
    return Games(seen, actions, log_probs, advantages[is_alive], returns[is_alive])


def _normalised(advantages: Tensor, is_alive: Tensor, graph: Tensor) -> Tensor:
    """Mean 0 and deviation 1 over the steps of each graph: hard graphs do not drown easy ones."""
    num = int(graph.max()) + 1
    count, total, square = (
        torch.zeros(num).index_add(0, graph, (amount * is_alive).sum(dim=0))
        for amount in (torch.ones_like(advantages), advantages, advantages**2)
    )
    mean = total / count
    deviation = (square / count - mean**2).clamp(min=1e-4).sqrt()
    return (advantages - mean[graph]) / deviation[graph]


def _outcome(env: BatchEnv, steps: Sequence[_Step]) -> Outcome:
    is_won = env.cycles < UNLIMITED
    bound = env.pack.bound[env.episodes.problem]
    excess = np.where(is_won, env.cycles / bound - 1.0, np.inf)
    best = np.array([excess[env.episodes.problem == k].min() for k in range(len(env.problems))])
    reward = sum(float(step.rewards.sum()) for step in steps) / len(excess) / REWARD_SCALE
    return Outcome(
        float(excess[is_won].mean()) if is_won.any() else np.nan,
        float(best[np.isfinite(best)].mean()) if np.isfinite(best).any() else np.nan,
        float(1.0 - is_won.mean()),
        reward,
    )


def improve(
    policy: Policy,
    optimizer: torch.optim.Optimizer,
    problems: Sequence[Problem],
    games: Games,
    config: PpoConfig,
    generator: torch.Generator,
) -> dict[str, float]:
    """Minibatches that mix graphs, several passes; returns mean losses."""
    graphs = graphs_of(problems)
    count = len(games.actions)
    sums = {"policy_loss": 0.0, "value_loss": 0.0, "entropy": 0.0}
    batches = 0
    for _ in range(config.epochs):
        shuffled = torch.randperm(count, generator=generator)
        for chosen in torch.split(shuffled, config.minibatch):
            rows = chosen[torch.argsort(games.seen.graph[chosen])]
            part = Games(Seen(*(t[rows] for t in games.seen)), *(t[rows] for t in games[1:]))
            embedded = policy.embed(graphs)
            logits, values = policy(embedded, graphs.is_node, part.seen)
            losses = _losses(logits, values, part, config.clip)
            loss = losses[0] + config.value * losses[1] - config.entropy * losses[2]
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(policy.parameters(), config.max_norm)
            optimizer.step()
            batches += 1
            for name, value in zip(sums, losses, strict=True):
                sums[name] += value.item()
    return {name: value / batches for name, value in sums.items()}


def _losses(
    logits: Tensor, values: Tensor, games: Games, clip: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Clipped policy loss, value loss, entropy."""
    log_probs = torch.log_softmax(logits, dim=1)
    chosen = log_probs.gather(1, games.actions[:, None])[:, 0]
    ratio = (chosen - games.log_probs).exp()
    clipped = ratio.clamp(1 - clip, 1 + clip)
    policy_loss = -torch.minimum(ratio * games.advantages, clipped * games.advantages).mean()
    value_loss = nn.functional.smooth_l1_loss(values, games.returns)
    entropy = -(log_probs.exp() * log_probs.masked_fill(~games.seen.mask, 0.0)).sum(dim=1).mean()
    return policy_loss, value_loss, entropy
