"""Command: search for better settings of training (conf/tune.yaml)."""

from __future__ import annotations

import json
from typing import Any

from omegaconf import DictConfig, OmegaConf

import costmodel.wafer  # noqa: F401 - makes its kind of data known
from costmodel.training import Outcome, RunConfig, RunResult, SearchConfig, Values, run, search
from placer.base import make_console, require_folder
from placer.base.config import run_command, to_dataclass


def main(config: DictConfig) -> None:
    """Search for better settings of training and print each trial and the best one."""
    base = OmegaConf.masked_copy(config, [str(key) for key in config if key != "search"])
    OmegaConf.resolve(base)
    settings = to_dataclass(RunConfig, base)
    options = to_dataclass(SearchConfig, config.search)
    trial_settings(base, 0, {setting.name: setting.least for setting in options.space}).learning()
    require_folder(settings.output)
    console = make_console()

    def train(number: int, values: Values) -> RunResult:
        return run(trial_settings(base, number, values), show_progress=console.is_terminal)

    def show(outcome: Outcome) -> None:
        console.print(f"trial {outcome.number + 1} of {options.trials}: {_line(options, outcome)}")

    origin = json.dumps(settings.describe(), sort_keys=True)
    outcomes = search(options, settings.seed, settings.output, origin, train, show)
    console.print(f"best: {_line(options, outcomes[0])}")


def trial_settings(base: DictConfig, number: int, values: Values) -> RunConfig:
    """Return the settings of one run. Raises InputError for a name that is not known."""
    changed = base.copy()
    output = f"{base.output}/trial_{number:03d}"
    changes: dict[str, Any] = values | {"output": output}
    for name, value in changes.items():
        OmegaConf.update(changed, name, value)
    return to_dataclass(RunConfig, changed)


def _line(options: SearchConfig, outcome: Outcome) -> str:
    """Return the score of a trial with the overrides that repeat it."""
    score = outcome.score if options.objective == "val_loss" else -outcome.score
    overrides = " ".join(f"{name}={value}" for name, value in outcome.values.items())
    return f"{options.objective} {score:.5f} with {overrides}"


if __name__ == "__main__":
    run_command(main, "tune")
