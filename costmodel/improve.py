"""Command: active learning. Search with the model, simulate what it likes, learn from it, repeat.

Settings are in conf/improve.yaml, the work is done by `costmodel.adaptation`.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from omegaconf import DictConfig

from costmodel.adaptation import ImproveConfig, improve, write_rounds
from placer.base import command_line, counting_bar, make_console, make_folder, require_folder, write_atomic
from placer.base.config import run_command, to_dataclass
from placer.base.tracking import open_tracker
from placer.show.html import report_page


def main(config: DictConfig) -> None:
    """Improve a model by active learning, write its files and print a table of the rounds."""
    settings = to_dataclass(ImproveConfig, config)
    output, command = settings.output, command_line("costmodel.improve")
    require_folder(output)
    make_folder(output)
    console = make_console()
    name = f"{settings.model_file.stem} on {settings.data.name}, {settings.rounds} rounds, seed {settings.seed}"
    parameters = json.loads(json.dumps(asdict(settings), default=str))
    with open_tracker(settings.tracking, name, parameters, output / "mlflow.json") as run:
        rounds = improve(settings, run, counting_bar)
        table = write_rounds(rounds, output, command)
        page = report_page(output / "rounds.md", "Active learning", command, asdict(settings))
        write_atomic(output / "rounds.html", page.to_html())
        run.log_files(sorted(output.glob("*.*")))
    console.print(table.screen())
    console.print(f"written to {output}; the model: {output / 'model.pt'}")


if __name__ == "__main__":
    run_command(main, "improve")
