"""Command: train a model on a dataset (conf/train.yaml)."""

from __future__ import annotations

import sys

from omegaconf import DictConfig
from rich.console import Console

import costmodel.wafer  # noqa: F401 - makes its kind of data known
from costmodel.inference import add_student
from costmodel.training import RunConfig, RunResult, run
from placer.base import Cell, StatusLine, Table, make_console, number
from placer.base.config import run_command, to_dataclass

_COLUMNS = {
    "RE": "relative_error",
    "Spearman pooled": "spearman_pooled",
    "per graph": "spearman",
    "pairs > 5%": "pair_accuracy_5",
    "top-5 regret": "top5_regret",
}


def main(config: DictConfig) -> None:
    """Train a model, print its scores and write its files."""
    settings = to_dataclass(RunConfig, config)
    console = make_console()
    try:
        with StatusLine("training", "the first epoch", quiet=console.is_terminal) as line:  # there, Lightning's bar
            result = run(
                settings, show_progress=console.is_terminal, on_epoch=line.note,
                finish=lambda model, train: add_student(model, train, settings.student, settings.seed),
            )  # fmt: skip
    except KeyboardInterrupt:
        sys.stderr.write("the same command goes on after the last finished epoch\n")
        raise
    show(console, result)
    console.print(f"written to {settings.output}, the model is {settings.model_file}")


def show(console: Console, result: RunResult) -> None:
    """Print what counts most; all metrics stand in the files."""
    rows: list[tuple[Cell, ...]] = []
    for part, evaluation in (("validation", result.validation), ("test", result.test)):
        if evaluation is not None:
            scores = evaluation.overall
            values = (number(getattr(scores, name), 4) for name in _COLUMNS.values())
            rows.append((part, scores.num_decisions, scores.num_graphs, *values))
    console.print(Table(("part", "decisions", "netlists", *_COLUMNS), rows).screen())
    console.print(f"{len(result.epochs)} epochs, validation loss {result.validation_loss:.5f}")
    if (told := result.model.origin.get("student")) is not None:
        console.print(
            f"the student orders neighbours as the model does with Spearman {number(told['spearman'], 3)} on "
            f"{told['judged_by']} unseen netlists, worst {number(told['worst'], 3)}"
        )


if __name__ == "__main__":
    run_command(main, "train")
