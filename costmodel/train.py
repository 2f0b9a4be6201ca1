"""Command: train a model on a dataset (conf/train.yaml)."""

from __future__ import annotations

import sys

from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table

from costmodel.metrics import Evaluation
from costmodel.training.run import RunConfig, RunResult, run
from placer.command import make_console
from placer.config import run_command, to_dataclass

_COLUMNS = {
    "RE": "relative_error",
    "Spearman pooled": "spearman_pooled",
    "per graph": "spearman",
    "pairs > 5%": "pair_accuracy_5",
    "top-5 regret": "top5_regret",
}


def main(config: DictConfig) -> None:
    """Entry point."""
    settings = to_dataclass(RunConfig, config)
    console = make_console()
    try:
        result = run(settings, show_progress=console.is_terminal)
    except KeyboardInterrupt:
        sys.stderr.write("the same command goes on after the last finished epoch\n")
        raise
    show(console, result)
    console.print(f"written to {settings.output}, the model is {settings.model_file}")


def show(console: Console, result: RunResult) -> None:
    """What counts most; all metrics stand in the files."""
    table = Table("part", "decisions", "netlists", *_COLUMNS)
    _add(table, "validation", result.validation)
    if result.test is not None:
        _add(table, "test", result.test)
    console.print(table)
    console.print(f"{len(result.epochs)} epochs, validation loss {result.validation_loss:.5f}")


def _add(table: Table, part: str, evaluation: Evaluation) -> None:
    scores = evaluation.overall
    values = [f"{getattr(scores, name):.4f}" for name in _COLUMNS.values()]
    table.add_row(part, str(scores.num_decisions), str(scores.num_graphs), *values)


if __name__ == "__main__":
    run_command(main, "train")
