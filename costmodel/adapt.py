"""Command: a model of one fabric learns another one from a share of its labels."""

from __future__ import annotations

from dataclasses import asdict

from omegaconf import DictConfig

import costmodel.wafer  # noqa: F401 - makes its kind of data known
from costmodel.adaptation import AdaptConfig, Adapted, adapt, write_adapted
from placer.base import command_line, make_console, make_folder, require_folder, write_atomic
from placer.base.config import run_command, to_dataclass
from placer.show.html import report_page


def main(config: DictConfig) -> None:
    """Adapt a model to another fabric, write the results and print their table."""
    settings = to_dataclass(AdaptConfig, config)
    output, command = settings.output, command_line("costmodel.adapt")
    require_folder(output)
    make_folder(output)
    console, results = make_console(), list[Adapted]()
    for result in adapt(settings, console.print):
        results.append(result)
        table = write_adapted(results, output, command)
    title = "A model learns another fabric"
    page = report_page(output / "adapt.md", title, command, asdict(settings))
    write_atomic(output / "adapt.html", page.to_html())
    console.print(table.screen())
    console.print(f"written to {output}")


if __name__ == "__main__":
    run_command(main, "adapt")
