"""Command: judge a trained model on datasets that it has never seen (conf/judge.yaml)."""

from __future__ import annotations

from omegaconf import DictConfig

from costmodel.evaluation import JudgeConfig, judge
from placer.base import command_line, make_console, require_folder, write_report
from placer.base.config import run_command, to_dataclass


def main(config: DictConfig) -> None:
    """Judge the model, write its tables and print them."""
    settings, console = to_dataclass(JudgeConfig, config), make_console()
    for folder in (settings.output, settings.publish):
        if folder is not None:
            require_folder(folder)
    tables = judge(settings).tables()
    title, command = "A trained model on datasets that it has never seen", command_line("costmodel.judge")
    write_report(settings.output, "judge.md", title, command, tables, settings.publish)
    for table in tables:
        console.print(table.screen())
    console.print(f"written to {settings.output / 'judge.md'}")


if __name__ == "__main__":
    run_command(main, "judge")
