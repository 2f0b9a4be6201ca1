"""Command: place a workload by simulated annealing, and simulate what came out."""

from __future__ import annotations

from dataclasses import asdict

from omegaconf import DictConfig

from placer.base import command_line, make_callable, make_console, require_folder
from placer.base.config import run_command, to_dataclass
from placer.base.tracking import open_tracker
from placer.pipeline import (
    PlaceConfig,
    SearchProgress,
    place_sections,
    placed_metrics,
    run_name,
    show_placed,
    write_placed,
    write_plan,
    written_files,
)

make_callable(__name__)


def main(config: DictConfig) -> None:
    """Place a workload, write the files of its placements and print the results."""
    settings = to_dataclass(PlaceConfig, config)
    require_folder(settings.output)
    lowered = settings.lowered()
    with open_tracker(settings.tracking, run_name(settings, lowered), asdict(settings)) as tracker:
        with SearchProgress(settings.to_options(len(lowered.sections)), settings.starts) as progress:
            placed = place_sections(settings, lowered.sections, progress)
            progress.note("writing decisions, pictures and pages")
            # First, so that a closed pipe cannot lose the results.
            write_plan(settings, lowered)
            write_placed(settings, placed, command_line("placer.place"))
        tracker.log_metrics(placed_metrics(settings, placed))
        tracker.log_files(written_files(settings, lowered))
        console = make_console()
        show_placed(settings, placed, console)
        console.print(f"written to {settings.output}")
        ending = placed[-1].search.ending
        if ending is not None or placed[-1].is_last:
            # The results are safe; the exit code tells that they are not final.
            raise ending or KeyboardInterrupt


if __name__ == "__main__":
    run_command(main, "place")
