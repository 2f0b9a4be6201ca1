"""Command: the claims of arXiv 2205.13675 tested again: attention, masking and order, by seeds.

Every variant trains for the same number of updates on small random graphs, then maps graphs that
none has seen, legal tiles only (conf/streaming_claims.yaml). Scores are kept as files: a run that
was cut off goes on.
"""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig

from placer.command import make_console
from placer.config import run_command, to_dataclass
from placer.files import make_folder, require_folder, write_atomic
from placer.streaming.bench.store import stored
from placer.streaming.options import require_within
from placer.streaming.problem import Problem
from placer.streaming.rl.observe import TILE_FEATURES
from placer.streaming.rl.policy import PolicyConfig
from placer.streaming.rl.ppo import PpoConfig
from placer.streaming.rl.sample import sample_once
from placer.streaming.rl.train import GraphConfig, TrainConfig, draw_problems, train
from placer.study.tables import csv_table, markdown_table

_UNSEEN_SEED = 1_000_003  # of the graphs that variants are tested with
_LAST = 20  # updates over which the reward of training is averaged
_BASE = TrainConfig(
    ppo=PpoConfig(rollouts=8, minibatch=512),
    graphs=GraphConfig(
        num_graphs=6, least_nodes=12, most_nodes=20, layered_share=0.25, other_device_share=0.0
    ),
    updates=80,
)
VARIANTS: dict[str, TrainConfig] = {
    "attention, masked, tail order": _BASE,
    "graph network without attention": replace(_BASE, policy=PolicyConfig(encoder="gnn")),
    "MLP without graph network": replace(_BASE, policy=PolicyConfig(encoder="mlp")),
    "penalty instead of mask": replace(_BASE, ppo=replace(_BASE.ppo, is_masked=False)),
    "order by level": replace(_BASE, ppo=replace(_BASE.ppo, order="level")),
    "random topological order": replace(_BASE, ppo=replace(_BASE.ppo, order="random")),
    "order by id, not topological": replace(_BASE, ppo=replace(_BASE.ppo, order="id")),
}


@dataclass(frozen=True, slots=True)
class Score:
    """What one training run came to."""

    variant: str
    seed: int
    reward: float  # mean over the last updates of training, cycles
    dead_ends: float  # share of the games of the last updates
    single: float  # likeliest mapping of unseen graphs, mean share of cycles above the bound
    best: float  # the same for the best of 64


@dataclass(frozen=True, slots=True)
class ClaimsConfig:
    """What `conf/streaming_claims.yaml` holds."""

    seeds: int
    updates: int
    output: Path
    publish: Path | None

    def __post_init__(self) -> None:
        require_within(self, ("seeds", 1, 100), ("updates", 1, 100_000))


def score(variant: str, config: TrainConfig) -> Score:
    """Train a variant and test it."""
    seed = config.seed
    rows: list[dict[str, float]] = []
    unseen = unseen_problems(config.graphs)
    held_out = tuple(sorted({problem.program.fingerprint for problem in unseen}))
    with TemporaryDirectory() as folder:
        config = replace(config, exclude=held_out)
        policy = train(config, Path(folder), lambda _, row: rows.append(row)).eval()
    reward, dead_ends = (
        float(np.mean([row[key] for row in rows[-_LAST:]])) for key in ("reward", "dead_ends")
    )
    single, best = [], []
    for problem in unseen:
        found = sample_once(problem, policy, 64, seed, order=config.ppo.order)
        likeliest = sample_once(problem, policy, 1, seed, order=config.ppo.order)
        best.append(found[0].cycles / problem.bounds.total - 1.0)
        single.append(likeliest[0].cycles / problem.bounds.total - 1.0)
    return Score(variant, seed, reward, dead_ends, float(np.mean(single)), float(np.mean(best)))


def unseen_problems(config: GraphConfig) -> list[Problem]:
    config = replace(config, num_graphs=8)
    draws = (draw_problems(config, np.random.default_rng([_UNSEEN_SEED, k])) for k in range(3))
    return [problem for problems in draws for problem in problems]


def table(scores: list[Score]) -> str:
    """Mean and range over seeds, as Markdown."""
    header = ("variant", "reward, cycles", "dead ends", "single mapping", "best of 64")
    lines = []
    for variant in dict.fromkeys(item.variant for item in scores):
        rows = [item for item in scores if item.variant == variant]
        reward = _spread([row.reward for row in rows], "{:.1f}")
        cells = [_spread([100 * getattr(row, k) for row in rows], "{:.1f}%") for k in
                 ("dead_ends", "single", "best")]  # fmt: skip
        lines.append((variant, reward, *cells))
    return markdown_table(header, lines)


def _spread(values: list[float], form: str) -> str:
    low, mean, high = (form.format(v) for v in (min(values), np.mean(values), max(values)))
    return f"{mean} ({low} to {high})"


def main(config: DictConfig) -> None:
    """Entry point."""
    settings = to_dataclass(ClaimsConfig, config)
    for folder in (settings.output, settings.publish):
        if folder is not None:
            require_folder(folder)
    torch.set_num_threads(1)
    console, scores = make_console(), []
    for seed in range(settings.seeds):
        for variant, base in VARIANTS.items():
            learning = replace(base, seed=seed, updates=settings.updates)
            origin = {"kind": "claim", "variant": variant, "features": TILE_FEATURES,
                      "settings": asdict(learning) | {"exclude": []}}  # fmt: skip
            result = stored(settings.output / "jobs", origin, partial(_measure, variant, learning))
            scores.append(Score(**result))
            console.print(f"{variant}, seed {seed}: single {100 * scores[-1].single:.1f}% above")
    command = shlex.join(["python", "-m", "placer.streaming.rl.claims", *sys.argv[1:]])
    rows = [tuple(asdict(item).values()) for item in scores]
    for folder in filter(None, (settings.output, settings.publish)):
        make_folder(folder)
        write_atomic(folder / "claims.csv", csv_table(tuple(Score.__slots__), rows))
        write_atomic(folder / "claims.md", f"Command: `{command}`\n\n{table(scores)}")
    console.print(table(scores))


def _measure(variant: str, config: TrainConfig) -> dict[str, Any]:
    return asdict(score(variant, config))


if __name__ == "__main__":
    run_command(main, "streaming_claims")
