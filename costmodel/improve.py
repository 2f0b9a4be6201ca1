"""Command: active learning. Search with the model, simulate what it likes, learn from it, repeat.

Settings are in conf/improve.yaml, the work is done by `costmodel.adaptation`.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import partial

from omegaconf import DictConfig

from costmodel.adaptation import ImproveConfig, improve, write_rounds
from costmodel.model import open_tracker
from placer.base import command_line, counting_bar, make_console, make_folder, require_folder, write_atomic
from placer.base.config import run_command, to_dataclass
from placer.show.html import report_page


def main(config: DictConfig) -> None:
    """Improve a model by active learning, write its files and print a table of the rounds."""
    settings = to_dataclass(ImproveConfig, config)
    output, command = settings.output, command_line("costmodel.improve")
    require_folder(output)
    make_folder(output)
    console = make_console()
    parameters = json.loads(json.dumps(asdict(settings), default=str))
    with open_tracker(settings.tracking, output.name, parameters, output / "mlflow.json") as run:
        rounds = improve(settings, run, partial(counting_bar, console))
        table = write_rounds(rounds, output, command)
        page = report_page(output / "rounds.md", "Active learning", command, asdict(settings))
        write_atomic(output / "rounds.html", page.to_html())
        run.log_files(sorted(output.glob("*.*")))
    console.print(table.screen())
    console.print(f"written to {output}; the model: {output / 'model.pt'}")


if __name__ == "__main__":
    run_command(main, "improve")
