"""Metrics of every epoch as a table."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import lightning
from lightning.pytorch.callbacks import Callback

from placer.files import write_atomic


class EpochLog(Callback):
    """One row per epoch, in `rows` and in a CSV file that is whole after every epoch.

    Rows are part of checkpoints: a run that goes on after a kill has those of all its epochs.
    """

    def __init__(self, path: Path) -> None:
        self.rows: list[dict[str, float]] = []
        self._path = path

    def on_train_epoch_end(
        self, trainer: lightning.Trainer, pl_module: lightning.LightningModule
    ) -> None:
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        self.rows.append({"epoch": trainer.current_epoch} | dict(sorted(metrics.items())))
        table = io.StringIO()
        writer = csv.DictWriter(table, list(self.rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        write_atomic(self._path, table.getvalue())

    def state_dict(self) -> dict[str, Any]:
        return {"rows": self.rows}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.rows = state_dict["rows"]
