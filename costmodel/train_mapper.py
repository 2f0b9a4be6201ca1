"""Command: train the policy that maps instructions to a CGRA (conf/train_mapper.yaml)."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean

import torch
from omegaconf import DictConfig

from placer.base import make_console, make_folder, require_folder, write_atomic
from placer.base.config import run_command, to_dataclass
from placer.base.tracking import TrackingConfig, open_tracker
from placer.streaming.model import load_program, require_within
from placer.streaming.rl import POLICY_FILE, UPDATES_FILE, GraphConfig, PolicyConfig, PpoConfig, TrainConfig, train

_LOG_EVERY = 20  # updates


@dataclass(frozen=True, slots=True)
class RunConfig:
    """What `conf/train_mapper.yaml` holds."""

    policy: PolicyConfig
    ppo: PpoConfig
    graphs: GraphConfig
    updates: int
    learning_rate: float
    checkpoint_every: int
    threads: int
    exclude: tuple[Path, ...]
    seed: int
    output: Path
    tracking: TrackingConfig

    def __post_init__(self) -> None:
        require_within(self, ("threads", 1, 256))

    def learning(self) -> TrainConfig:
        return TrainConfig(
            self.policy, self.ppo, self.graphs, self.updates, self.learning_rate,
            self.checkpoint_every, self.seed, tuple(sorted(fingerprints(self.exclude))),
        )  # fmt: skip


def main(config: DictConfig) -> None:
    """Train the policy, print how it improves and write its files."""
    settings = to_dataclass(RunConfig, config)
    require_folder(settings.output)
    learning = settings.learning()
    torch.set_num_threads(settings.threads)
    make_folder(settings.output)
    console, recent_rows = make_console(), deque[dict[str, float]](maxlen=_LOG_EVERY)
    name = f"policy, {settings.updates} updates, seed {settings.seed}"
    tracker = open_tracker(settings.tracking, name, asdict(learning), settings.output / "mlflow.json")

    def log(update: int, metrics: dict[str, float]) -> None:
        recent_rows.append(metrics)
        if (update + 1) % _LOG_EVERY == 0:
            recent = {name: fmean(row[name] for row in recent_rows) for name in metrics}
            tracker.log_metrics(recent, update + 1)
            console.print(
                f"update {update + 1}: {100 * recent['excess']:.1f}% above the bound, best of "
                f"{settings.ppo.rollouts} {100 * recent['best_excess']:.1f}%, "
                f"{recent['steps_per_second']:.0f} steps/s"
            )

    with tracker:
        train(learning, settings.output, log)
        write_atomic(settings.output / "config.json", json.dumps(asdict(learning), indent=1))
        tracker.log_files([settings.output / name for name in (POLICY_FILE, UPDATES_FILE)])
    console.print(f"the policy is {settings.output / POLICY_FILE}")


def fingerprints(places: Iterable[Path]) -> frozenset[str]:
    """Return those of all graphs in files or folders."""
    files = []
    for place in places:
        files += sorted(place.glob("*.json")) if place.is_dir() else [place]
    return frozenset(load_program(path).fingerprint for path in files)


if __name__ == "__main__":
    run_command(main, "train_mapper")
