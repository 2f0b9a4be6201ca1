"""Command: judge a trained model on datasets that it has never seen (conf/judge.yaml)."""

from __future__ import annotations

import datetime

from omegaconf import DictConfig

from costmodel.evaluation import JudgeConfig, judge
from placer.base import command_line, git_revision, make_console, require_folder, write_figures, write_report
from placer.base.config import run_command, to_dataclass

FIGURES_FILE = "figures.json"


def main(config: DictConfig) -> None:
    """Judge the model, write its tables and print them."""
    settings, console = to_dataclass(JudgeConfig, config), make_console()
    for folder in (settings.output, settings.publish):
        if folder is not None:
            require_folder(folder)
    found = judge(settings)
    tables = found.tables()
    title, command = "A trained model on datasets that it has never seen", command_line("costmodel.judge")
    write_report(settings.output, "judge.md", title, command, tables, settings.publish)
    today = datetime.date.today().isoformat()
    write_figures(settings.output / FIGURES_FILE, found.figures(command, git_revision(), today))
    for table in tables:
        console.print(table.screen())
    console.print(f"written to {settings.output / 'judge.md'}")


if __name__ == "__main__":
    run_command(main, "judge")
