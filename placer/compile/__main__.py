"""Command: compile a whole network: cuts, layouts and placements that take the least time together."""

from __future__ import annotations

from omegaconf import DictConfig

from placer.base import StatusLine, make_console, require_folder
from placer.base.config import run_command, to_dataclass
from placer.compile import CompileConfig, show_compiled, watch_on


def main(config: DictConfig) -> None:
    """Compile a network, write it and print its time."""
    settings = to_dataclass(CompileConfig, config)
    require_folder(settings.output)
    console = make_console()
    with StatusLine("compiling", "the plan by rules first") as line:
        compiled = settings.compiled(watch_on(console, line))
        line.note("writing")
        compiled.save(settings.output)
    show_compiled(compiled, console)
    console.print(f"written to {settings.output}")
    if compiled.is_interrupted:
        raise KeyboardInterrupt  # the result is safe; the exit code tells that more was asked for


if __name__ == "__main__":
    run_command(main, "compile")
