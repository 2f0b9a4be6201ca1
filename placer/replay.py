"""Command: replay traces of a chip whose cores read from each other, and compare with measured times."""

from __future__ import annotations

from omegaconf import DictConfig

from placer.base import command_line, counting_bar, make_console, require_folder
from placer.base.config import run_command, to_dataclass
from placer.silicon import Compared, ReplayConfig, compare, load_traces, show_replay, write_replay


def main(config: DictConfig) -> None:
    """Replay all traces of a folder, write what was predicted and print errors."""
    settings = to_dataclass(ReplayConfig, config)
    require_folder(settings.output)
    traces = load_traces(settings.traces, settings.fabric)
    compared: list[Compared] = []
    with counting_bar("replayed traces") as on_progress:
        for trace in traces:
            on_progress(len(compared), len(traces))
            compared.append(compare(settings.fabric, trace))
    write_replay(settings, compared, command_line("placer.replay"))
    console = make_console()
    show_replay(settings, compared, console)
    console.print(f"written to {settings.output}")


if __name__ == "__main__":
    run_command(main, "replay")
