"""Masked PPO: play games with the policy, then improve it on them (Schulman et al. 2017).

Masked logits keep illegal tiles out of the distribution and its entropy (Huang and Ontanon 2020).
Episodes have no discount: the sum of rewards is minus the cycles above the bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from placer.streaming.game import BatchEnv, Order
from placer.streaming.model import require_within
from placer.streaming.rl.policy import Graphs, Policy, Seen, graphs_of, seen_of
from placer.streaming.search import UNLIMITED

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

    graphs: Graphs  # that they were played on
    seen: Seen
    actions: Tensor  # [steps]
    log_probs: Tensor  # [steps]
    advantages: Tensor  # [steps] normalised per graph
    returns: Tensor  # [steps] scaled cycles


def play(
    policy: Policy, env: BatchEnv, config: PpoConfig, generator: torch.Generator
) -> tuple[Games, dict[str, float]]:
    """Play all games of `env` to their end; return their steps, and how they ended."""
    graphs = graphs_of(env.problems)
    graph = env.episodes.problem
    num_tiles = env.pack.tables.num_tiles[graph]
    on_device = torch.from_numpy(np.arange(num_tiles.max()) < num_tiles[:, None])
    steps: list[tuple[Any, ...]] = []
    with torch.no_grad():
        embedded = policy.embed(graphs)
        observation = env.reset()
        while env.is_alive.any():
            is_alive = torch.from_numpy(env.is_alive.copy())
            seen = seen_of(graph, observation)
            if not config.is_masked:
                seen = seen._replace(mask=on_device)
            logits, values = policy(embedded, graphs.is_node, seen)
            log_probs = torch.log_softmax(logits, dim=1)
            actions = torch.multinomial(log_probs.exp(), 1, generator=generator)[:, 0]
            chosen = log_probs.gather(1, actions[:, None])[:, 0]
            observation = env.step(actions.numpy())
            rewards = torch.from_numpy(env.rewards * np.float32(REWARD_SCALE))
            steps.append((seen, actions, chosen, values, rewards, is_alive))
    seen_parts, *others = zip(*steps, strict=True)
    actions, chosen, values, rewards, is_alive = (torch.stack(part) for part in others)
    advantages = _advantages(values, rewards, is_alive, config.trace)
    returns = advantages + values
    advantages = _normalised(advantages, is_alive, torch.from_numpy(graph))
    seen = Seen(*(torch.stack(part)[is_alive] for part in zip(*seen_parts, strict=True)))
    flat = (part[is_alive] for part in (actions, chosen, advantages, returns))
    return Games(graphs, seen, *flat), _outcome(env, rewards)


def _advantages(values: Tensor, rewards: Tensor, is_alive: Tensor, trace: float) -> Tensor:
    """Return what each step [steps, batch] brought beyond what was expected (GAE)."""
    advantages = torch.zeros_like(values)
    running, following = torch.zeros_like(values[0]), torch.zeros_like(values[0])
    for k in range(len(values) - 1, -1, -1):
        delta = rewards[k] + following - values[k]
        running = torch.where(is_alive[k], delta + trace * running, 0.0)
        following = torch.where(is_alive[k], values[k], 0.0)
        advantages[k] = running
    return advantages


def _normalised(advantages: Tensor, is_alive: Tensor, graph: Tensor) -> Tensor:
    """Scale to mean 0 and deviation 1 by graph: hard graphs do not drown easy ones."""
    num = int(graph.max()) + 1
    count, total, square = (
        torch.zeros(num).index_add(0, graph, (amount * is_alive).sum(dim=0))
        for amount in (torch.ones_like(advantages), advantages, advantages**2)
    )
    mean = total / count
    deviation = (square / count - mean**2).clamp(min=1e-4).sqrt()
    return (advantages - mean[graph]) / deviation[graph]


def _outcome(env: BatchEnv, rewards: Tensor) -> dict[str, float]:
    is_won = env.cycles < UNLIMITED
    bound = env.pack.bound[env.episodes.problem]
    excess = np.where(is_won, env.cycles / bound - 1.0, np.inf)
    best = np.array([excess[env.episodes.problem == k].min() for k in range(len(env.problems))])
    won, best = excess[is_won], best[np.isfinite(best)]
    reward = sum(float(step.sum()) for step in rewards) / len(excess) / REWARD_SCALE
    return {
        "excess": float(won.mean()) if len(won) else np.nan,  # of games won, above the bound
        "best_excess": float(best.mean()) if len(best) else np.nan,  # of the best of each graph
        "dead_ends": float(1.0 - is_won.mean()),  # share of games
        "reward": reward,  # mean sum of rewards, cycles
    }


def improve(
    policy: Policy, optimizer: Optimizer, games: Games, config: PpoConfig, rng: torch.Generator
) -> dict[str, float]:
    """Learn from minibatches that mix graphs, in several passes; return the mean losses."""
    graphs = games.graphs
    count = len(games.actions)
    sums = {"policy_loss": 0.0, "value_loss": 0.0, "entropy": 0.0}
    batches = 0
    for _ in range(config.epochs):
        shuffled = torch.randperm(count, generator=rng)
        for chosen in torch.split(shuffled, config.minibatch):
            rows = chosen[torch.argsort(games.seen.graph[chosen])]
            seen = Seen(*(part[rows] for part in games.seen))
            part = Games(graphs, seen, *(part[rows] for part in games[2:]))
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


def _losses(logits: Tensor, values: Tensor, games: Games, clip: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the clipped policy loss, the value loss and the entropy."""
    log_probs = torch.log_softmax(logits, dim=1)
    chosen = log_probs.gather(1, games.actions[:, None])[:, 0]
    ratio = (chosen - games.log_probs).exp()
    clipped = ratio.clamp(1 - clip, 1 + clip)
    policy_loss = -torch.minimum(ratio * games.advantages, clipped * games.advantages).mean()
    value_loss = nn.functional.smooth_l1_loss(values, games.returns)
    entropy = -(log_probs.exp() * log_probs.masked_fill(~games.seen.mask, 0.0)).sum(dim=1).mean()
    return policy_loss, value_loss, entropy
