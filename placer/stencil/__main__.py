"""Command: map volumes to the fabric; print the score, write and draw the solution."""

from __future__ import annotations

from omegaconf import DictConfig

from placer.command import make_console
from placer.config import run_command, to_dataclass
from placer.files import require_folder
from placer.stencil.config import StencilConfig
from placer.stencil.mapper import map_volume, warm_up
from placer.stencil.report import MapProgress, show, write


def main(config: DictConfig) -> None:
    """Entry point: config -> problems -> solutions on disk and figures on screen."""
    settings = to_dataclass(StencilConfig, config)
    for name, _ in settings.jobs():
        require_folder(settings.solution_file(name).parent)
    console = make_console()
    with MapProgress(settings.time_limit) as progress:
        for name, problem in settings.loaded():
            warm_up()
            progress.begin(name)
            mapping = map_volume(problem, settings.time_limit, settings.seed, progress.on_step)
            path = write(settings, name, problem, mapping)
            show(name, mapping, console)
            console.print(f"written to {path}")


if __name__ == "__main__":
    run_command(main, "stencil")
