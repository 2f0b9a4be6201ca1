"""Command: the claims of arXiv 2205.13675 tested again: attention, masking and order, by seeds.

Every variant trains for the same number of updates on small random graphs, then maps graphs that
none has seen, legal tiles only (conf/streaming_claims.yaml). Scores are kept as files: a run that
was cut off goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from omegaconf import DictConfig

from placer.base import Table, command_line, make_console, require_folder, source_key, write_report
from placer.base.config import run_command, to_dataclass
from placer.base.workers import run_jobs
from placer.streaming.game import Features
from placer.streaming.model import require_within
from placer.streaming.rl.policy import PolicyConfig
from placer.streaming.rl.ppo import PpoConfig
from placer.streaming.rl.sample import sample_once
from placer.streaming.rl.train import GraphConfig, TrainConfig, draw_problems, train
from placer.streaming.search import Problem

_UNSEEN_SEED = 1_000_003  # of the graphs that variants are tested with
_LAST = 20  # updates over which the reward of training is averaged
_BASE = TrainConfig(
    ppo=PpoConfig(rollouts=8, minibatch=512),
    graphs=GraphConfig(num_graphs=6, least_nodes=12, most_nodes=20, layered_share=0.25, other_device_share=0.0),
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
class ClaimsConfig:
    """What `conf/streaming_claims.yaml` holds."""

    seeds: int
    updates: int
    output: Path
    publish: Path | None

    def __post_init__(self) -> None:
        require_within(self, ("seeds", 1, 100), ("updates", 1, 100_000))


@dataclass(frozen=True, slots=True)
class Claim:
    """A variant to be trained and tested.

    What comes of it: the mean reward in cycles and the share of dead ends of the last updates, and
    for graphs that it has not seen the mean share of cycles above the bound, of the likeliest
    mapping (single) and of the best of 64.
    """

    variant: str
    config: TrainConfig

    def origin(self) -> dict[str, Any]:
        return {"kind": "claim", "variant": self.variant, "features": int(Features.TILE),
                "settings": asdict(self.config) | {"exclude": []},
                "schema": 2, "code": source_key(Path(__file__))}  # fmt: skip


def score(claim: Claim) -> dict[str, Any]:
    """Train a variant, and map graphs that it has not seen."""
    torch.set_num_threads(1)
    config, rows = claim.config, list[dict[str, float]]()
    unseen = unseen_problems(config.graphs)
    held_out = tuple(sorted({problem.program.fingerprint for problem in unseen}))
    with TemporaryDirectory() as folder:
        config = replace(config, exclude=held_out)
        policy = train(config, Path(folder), lambda _, row: rows.append(row)).eval()
    last = {key: [row[key] for row in rows[-_LAST:]] for key in ("reward", "dead_ends")}
    shares: dict[str, list[float]] = {"single": [], "best": []}
    for problem in unseen:
        for key, num in (("single", 1), ("best", 64)):
            found = sample_once(problem, policy, num, config.seed, order=config.ppo.order)
            shares[key].append(found[0].cycles / problem.bounds.total - 1.0)
    means = {key: float(np.mean(values)) for key, values in (last | shares).items()}
    return {"variant": claim.variant, "seed": config.seed, **means}


def unseen_problems(config: GraphConfig) -> list[Problem]:
    """Draw the graphs that variants are tested with."""
    config = replace(config, num_graphs=8)
    draws = (draw_problems(config, np.random.default_rng([_UNSEEN_SEED, k])) for k in range(3))
    return [problem for problems in draws for problem in problems]


def summary(scores: Sequence[dict[str, Any]]) -> Table:
    """Return mean and range over seeds."""
    header = ("variant", "reward, cycles", "dead ends", "single mapping", "best of 64")
    lines = []
    for variant in dict.fromkeys(row["variant"] for row in scores):
        rows = [row for row in scores if row["variant"] == variant]
        reward = _spread([row["reward"] for row in rows], "{:.1f}")
        cells = [_spread([100 * row[key] for row in rows], "{:.1f}%") for key in
                 ("dead_ends", "single", "best")]  # fmt: skip
        lines.append((variant, reward, *cells))
    return Table(header, lines)


def _spread(values: list[float], form: str) -> str:
    low, mean, high = (form.format(v) for v in (min(values), np.mean(values), max(values)))
    return f"{mean} ({low} to {high})"


def main(config: DictConfig) -> None:
    """Train and score every variant, write the report and print its summary."""
    settings = to_dataclass(ClaimsConfig, config)
    if settings.publish is not None:
        require_folder(settings.publish)
    console = make_console()
    claims = [
        Claim(variant, replace(base, seed=seed, updates=settings.updates))
        for seed in range(settings.seeds)
        for variant, base in VARIANTS.items()
    ]
    scores = run_jobs(
        claims, score, settings.output / "jobs", decode=lambda values: values,
        on_result=lambda _, new: console.print(
            f"{new['variant']}, seed {new['seed']}: single {100 * new['single']:.1f}% above"
        ),
    )  # fmt: skip
    rows = [tuple(row.values()) for row in scores]
    every = Table(tuple(scores[0]), rows, "Trainings", "claims")
    write_report(
        settings.output, "claims.md", "The claims of arXiv 2205.13675 tested again",
        command_line("placer.streaming.rl.claims"), [summary(scores), every], settings.publish,
    )  # fmt: skip
    console.print(summary(scores).markdown())


if __name__ == "__main__":
    run_command(main, "streaming_claims")
