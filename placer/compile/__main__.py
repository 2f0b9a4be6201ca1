"""Command: compile a whole network: cuts, layouts and placements that take the least time together."""

from __future__ import annotations

from dataclasses import asdict

from omegaconf import DictConfig

from placer.base import StatusLine, command_line, make_console, require_folder
from placer.base.config import run_command, to_dataclass
from placer.compile import CompileConfig, show_compiled, watch_on, write_page
from placer.pipeline import write_timelines


def main(config: DictConfig) -> None:
    """Compile a network, write it and print its time."""
    settings = to_dataclass(CompileConfig, config)
    require_folder(settings.output)
    console = make_console()
    with StatusLine("compiling", "the first plan is placed") as line:
        compiled = settings.compiled(watch_on(console, line))
        line.note("writing")
        compiled.save(settings.output)
        write_page(compiled, settings.output / "compiled.html", command_line("placer.compile"), asdict(settings))
        write_timelines(settings, [section.result for section in compiled.sections])
    show_compiled(compiled, console)
    console.print(f"written to {settings.output}")
    if compiled.is_interrupted:
        raise KeyboardInterrupt  # the result is safe; the exit code tells that more was asked for


if __name__ == "__main__":
    run_command(main, "compile")
