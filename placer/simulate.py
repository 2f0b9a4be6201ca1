"""Command: lower a workload, place it, simulate it, and show where the time goes."""

from __future__ import annotations

from omegaconf import DictConfig

from placer.base import command_line, counting_bar, make_callable, make_console, require_folder
from placer.base.config import run_command, to_dataclass
from placer.pipeline import SimulateConfig, show_simulated, simulate_sections, write_plan, write_simulated
from placer.simulation import Status

make_callable(__name__)


def main(config: DictConfig) -> None:
    """Simulate a workload, write the files of its results and print them."""
    settings = to_dataclass(SimulateConfig, config)
    require_folder(settings.output)
    lowered = settings.lowered()
    with counting_bar("simulated sections") as on_progress:
        results = simulate_sections(settings, lowered.sections, on_progress)
    # First, so that a closed pipe cannot lose the results.
    write_plan(settings, lowered)
    write_simulated(settings, results, command_line("placer.simulate"))
    console = make_console()
    show_simulated(settings, results, console)
    console.print(f"written to {settings.output}")
    if any(result.measurement.status != Status.STEADY for result in results):
        console.print("warning: not every section reached a steady state", style="bold red")


if __name__ == "__main__":
    run_command(main, "simulate")
