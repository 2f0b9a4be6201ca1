"""Train one policy across random graphs; a run that was cut off goes on where it stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch.optim import Optimizer

from placer.base import InputError, Table, make_folder, write_atomic
from placer.streaming import model
from placer.streaming.game import BatchEnv
from placer.streaming.model import Mapping, require_within
from placer.streaming.rl.policy import Policy, PolicyConfig, Rows, read_checkpoint, save_checkpoint, save_policy
from placer.streaming.rl.ppo import PpoConfig, improve, play
from placer.streaming.search import UNLIMITED, Problem, make_problem

CHECKPOINT_FILE, POLICY_FILE, UPDATES_FILE = "checkpoint.pt", "policy.pt", "updates.csv"


@dataclass(frozen=True, slots=True)
class GraphConfig:
    """Random graphs to train with; every update draws new ones."""

    num_graphs: int = 8  # per update
    least_nodes: int = 6
    most_nodes: int = 44
    layered_share: float = 0.25  # layered graphs with tile memories; the others: growing networks
    other_device_share: float = 0.25  # graphs with another ii (3 to 8) or depth (2 to 4)

    def __post_init__(self) -> None:
        require_within(self, ("num_graphs", 1, 4096), ("least_nodes", 2, 200),
                       ("most_nodes", self.least_nodes, 200), ("layered_share", 0, 1),
                       ("other_device_share", 0, 1))  # fmt: skip


@dataclass(frozen=True, slots=True)
class TrainConfig:
    """All of a training run."""

    policy: PolicyConfig = field(default_factory=PolicyConfig)
    ppo: PpoConfig = field(default_factory=PpoConfig)
    graphs: GraphConfig = field(default_factory=GraphConfig)
    updates: int = 800
    learning_rate: float = 1e-3  # falls to a twentieth along a cosine
    checkpoint_every: int = 50  # updates
    seed: int = 0
    exclude: tuple[str, ...] = ()  # fingerprints of graphs that must not be seen

    def __post_init__(self) -> None:
        require_within(
            self, ("updates", 1, 10_000_000), ("learning_rate", 0, 1),
            ("checkpoint_every", 1, 10_000_000), ("seed", 0, model.MOST_SEED),
        )  # fmt: skip


Log = Callable[[int, dict[str, float]], None]


def train(config: TrainConfig, folder: Path, log: Log) -> Policy:
    """Train, or go on from the checkpoint in `folder`; the policy file is written at the end.

    `log` gets the metrics of each update; those of all updates, also from before a cut, are in
    `updates.csv`. Raises InputError when the folder holds a run with other settings.
    """
    torch.manual_seed(config.seed)
    policy = Policy(config.policy)
    optimizer = torch.optim.Adam(policy.parameters(), lr=config.learning_rate)
    make_folder(folder)
    rows = _resume(config, folder / CHECKPOINT_FILE, policy, optimizer)
    for update in range(len(rows), config.updates):
        began = time.perf_counter()
        share = 0.5 * (1.0 + np.cos(np.pi * update / config.updates))
        optimizer.param_groups[0]["lr"] = config.learning_rate * float(0.05 + 0.95 * share)
        rng = np.random.default_rng([config.seed, update])
        problems = draw_problems(config.graphs, rng, config.exclude)
        seed = int(rng.integers(1 << 31))
        metrics, _ = update_once(policy, optimizer, problems, config.ppo, seed)
        metrics["steps_per_second"] = metrics["steps"] / (time.perf_counter() - began)
        rows.append({"update": float(update), **metrics})
        log(update, metrics)
        if (update + 1) % config.checkpoint_every == 0 or update + 1 == config.updates:
            save_checkpoint(folder / CHECKPOINT_FILE, asdict(config), rows, policy, optimizer)
            table = Table(tuple(rows[0]), [tuple(map(str, row.values())) for row in rows])
            write_atomic(folder / UPDATES_FILE, table.csv())
    save_policy(folder / POLICY_FILE, policy, asdict(config))
    return policy


def update_once(
    policy: Policy, optimizer: Optimizer, problems: list[Problem], config: PpoConfig, seed: int
) -> tuple[dict[str, float], list[Mapping | None]]:
    """Play and improve; return metrics, and the best mapping of each problem."""
    games_of = np.repeat(np.arange(len(problems)), config.rollouts)
    env = BatchEnv(problems, games_of, config.order, seed)
    generator = torch.Generator().manual_seed(seed)
    games, outcome = play(policy, env, config, generator)
    losses = improve(policy, optimizer, games, config, generator)
    best = [int(np.argmin(np.where(games_of == k, env.cycles, UNLIMITED))) for k in games_of[:: config.rollouts]]
    metrics = losses | outcome | {"steps": float(len(games.actions))}
    return metrics, [env.mapping(game) for game in best]


def _resume(config: TrainConfig, path: Path, policy: Policy, optimizer: Optimizer) -> Rows:
    """Return the metrics of the updates that are done."""
    if not path.exists():
        return []
    settings, rows = read_checkpoint(path, policy, optimizer)
    ours = asdict(config)
    differing = sorted(key for key in ours if key != "updates" and settings.get(key) != ours[key])
    if differing:
        raise InputError(
            f"{path} is of a run with other settings ({', '.join(differing)}); choose another output folder"
        )
    return rows


def draw_problems(
    config: GraphConfig, rng: np.random.Generator, exclude: Collection[str] = frozenset()
) -> list[Problem]:
    """Draw graphs of similar size, so that little is padded, none twice and none of `exclude`."""
    largest = int(rng.integers(config.least_nodes, config.most_nodes + 1))
    known, problems = set(exclude), list[Problem]()
    for _ in range(50 * config.num_graphs):
        size = int(rng.integers(max(config.least_nodes, round(0.75 * largest)), largest + 1))
        if rng.random() < config.layered_share:
            program = model.layered(size, rng, memories=int(rng.integers(0, 1 + size // 6)))
        else:
            program = model.growing_network(size, rng)
        device = model.Device(tiles=16 if size < 25 else 64)
        if rng.random() < config.other_device_share:
            ii, depth = int(rng.integers(3, 9)), int(rng.integers(2, 5))
            device = model.Device(tiles=device.tiles, ii=ii, depth=depth)
        try:
            problem = make_problem(program, device)
        except model.InfeasibleError:
            continue
        if program.fingerprint not in known:
            known.add(program.fingerprint)
            problems.append(problem)
        if len(problems) == config.num_graphs:
            break
    if not problems:
        raise InputError(
            f"no graph of {config.least_nodes} to {config.most_nodes} nodes is left to train on; "
            "exclude fewer or allow larger ones"
        )
    return problems
