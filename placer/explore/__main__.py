"""Command: sweep settings of a fabric for one network, and draw throughput against area."""

from __future__ import annotations

from omegaconf import DictConfig

from placer.base import command_line, counting_bar, make_console, require_folder
from placer.base.config import run_command, to_dataclass
from placer.explore import ExploreConfig, explore, front_table, write_explored


def main(config: DictConfig) -> None:
    """Explore the sweep, write what was found and print the front."""
    settings = to_dataclass(ExploreConfig, config)
    require_folder(settings.output)
    console = make_console()
    with counting_bar("fabrics") as on_progress:
        found = explore(settings, on_progress)
    write_explored(settings, found, command_line("placer.explore"))
    console.print(front_table(found).screen())
    num = sum(one.time is not None for one in found.fabrics)
    console.print(f"{len(found.fabrics)} fabrics expected, {num} of them placed and simulated")
    console.print(f"written to {settings.output}")


if __name__ == "__main__":
    run_command(main, "explore")
