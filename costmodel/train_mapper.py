"""Command: train the policy that maps instructions to a CGRA (conf/train_mapper.yaml)."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from omegaconf import DictConfig

from costmodel.tracking import TrackingConfig, open_tracker
from placer.command import make_console
from placer.config import run_command, to_dataclass
from placer.errors import InputError
from placer.files import require_folder, write_atomic
from placer.streaming.program_file import load_program
from placer.streaming.rl.policy import PolicyConfig
from placer.streaming.rl.ppo import PpoConfig
from placer.streaming.rl.train import POLICY_FILE, GraphConfig, TrainConfig, train

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
        for name in ("updates", "checkpoint_every", "threads"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)}; allowed 1 or more")
        if self.seed < 0:
            raise InputError(f"seed={self.seed}; allowed 0 or more")

    def learning(self) -> TrainConfig:
        return TrainConfig(
            self.policy, self.ppo, self.graphs, self.updates, self.learning_rate,
            self.checkpoint_every, self.seed,
        )  # fmt: skip


class _Rows:
    """Metrics of updates: means of some at a time go to the tracker and the screen."""

    def __init__(self) -> None:
        self.all: list[dict[str, float]] = []

    def recent(self) -> dict[str, float]:
        rows = self.all[-_LOG_EVERY:]
        return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}

    def text(self) -> str:
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, list(self.all[0]) if self.all else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.all)
        return buffer.getvalue()


def main(config: DictConfig) -> None:
    """Entry point."""
    settings = to_dataclass(RunConfig, config)
    require_folder(settings.output)
    settings.output.mkdir(parents=True, exist_ok=True)
    held_out = fingerprints(settings.exclude)
    torch.set_num_threads(settings.threads)
    console, rows = make_console(), _Rows()
    learning = settings.learning()
    tracker = open_tracker(
        settings.tracking, settings.output.name, asdict(learning), settings.output / "mlflow.json"
    )

    def log(update: int, metrics: dict[str, float]) -> None:
        rows.all.append({"update": float(update), **metrics})
        if (update + 1) % _LOG_EVERY == 0:
            recent = rows.recent()
            tracker.log_metrics(recent, update + 1)
            console.print(
                f"update {update + 1}: {100 * recent['excess']:.1f}% above the bound, best of "
                f"{settings.ppo.rollouts} {100 * recent['best_excess']:.1f}%, "
                f"{recent['steps_per_second']:.0f} steps/s"
            )

    with tracker:
        train(learning, settings.output, log, held_out)
        write_atomic(settings.output / "updates.csv", rows.text())
        write_atomic(settings.output / "config.json", json.dumps(asdict(learning), indent=1))
        tracker.log_files([settings.output / POLICY_FILE, settings.output / "updates.csv"])
    console.print(f"the policy is {settings.output / POLICY_FILE}")


def fingerprints(places: Iterable[Path]) -> frozenset[str]:
    """Of all graphs in files or folders."""
    files = [
        path
        for place in places
        for path in (sorted(place.glob("*.json")) if place.is_dir() else [place])
    ]
    return frozenset(load_program(path).fingerprint for path in files)


if __name__ == "__main__":
    run_command(main, "train_mapper")
