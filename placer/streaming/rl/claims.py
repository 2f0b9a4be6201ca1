"""Command: the claims of arXiv 2205.13675 tested again: attention, masking and order, by seeds.

Every variant trains for the same number of updates on small random graphs, then maps graphs that
none has seen, legal tiles only. `python -m placer.streaming.rl.claims FOLDER` writes a table there.
"""

from __future__ import annotations

import csv
import io
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch

from placer.command import make_console
from placer.files import make_folder, write_atomic
from placer.streaming.problem import Problem
from placer.streaming.rl.policy import PolicyConfig
from placer.streaming.rl.ppo import PpoConfig
from placer.streaming.rl.sample import sample_once
from placer.streaming.rl.train import GraphConfig, TrainConfig, draw_problems, train

SEEDS = (0, 1, 2)
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


def score(variant: str, seed: int, updates: int | None = None) -> Score:
    """Train a variant and test it."""
    torch.set_num_threads(1)
    config = replace(VARIANTS[variant], seed=seed, updates=updates or _BASE.updates)
    rows: list[dict[str, float]] = []
    unseen = unseen_problems(config.graphs)
    held_out = {problem.program.fingerprint for problem in unseen}
    with TemporaryDirectory() as folder:
        policy = train(config, Path(folder), lambda _, row: rows.append(row), held_out).eval()
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
    lines = [
        "| variant | reward, cycles | dead ends | single mapping | best of 64 |",
        "|---|---|---|---|---|",
    ]
    for variant in dict.fromkeys(item.variant for item in scores):
        rows = [item for item in scores if item.variant == variant]
        reward = _spread([row.reward for row in rows], "{:.1f}")
        cells = [_spread([100 * getattr(row, k) for row in rows], "{:.1f}%") for k in
                 ("dead_ends", "single", "best")]  # fmt: skip
        lines.append(f"| {variant} | {reward} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _spread(values: list[float], form: str) -> str:
    low, mean, high = (form.format(v) for v in (min(values), np.mean(values), max(values)))
    return f"{mean} ({low} to {high})"


def main(folder: Path, workers: int = 1) -> None:
    """Entry point."""
    make_folder(folder)
    jobs = [(variant, seed) for seed in SEEDS for variant in VARIANTS]
    with ProcessPoolExecutor(workers) as pool:
        scores = list(pool.map(score, *zip(*jobs, strict=True)))
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(Score.__slots__)
    writer.writerows([[getattr(item, name) for name in Score.__slots__] for item in scores])
    write_atomic(folder / "streaming_claims.csv", buffer.getvalue())
    write_atomic(folder / "streaming_claims.md", table(scores))
    make_console().print(table(scores))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs/results"))
