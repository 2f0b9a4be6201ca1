"""Timelines beside the results of a run: asked for or not, and cut with a warning."""

from __future__ import annotations

import gzip
import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from placer.base.config import compose_config, to_dataclass
from placer.pipeline import SimulateConfig, simulate_sections, write_timelines
from placer.simulation.recording import write_timeline


def test_timelines_are_written_when_asked_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    overrides = ["workload=gemm", "workload.rows=32", "workload.width=32", "workload.columns=32", "timeline=2"]
    config = to_dataclass(SimulateConfig, compose_config("simulate", [*overrides, f"output={tmp_path}"]))
    results = simulate_sections(config, config.lowered().sections)
    write_timelines(replace(config, timeline=0), results)
    assert list(tmp_path.iterdir()) == []
    with caplog.at_level(logging.WARNING):
        write_timelines(config, results)
    (path,) = tmp_path.iterdir()
    assert path.name == "timeline.gemm-32x32x32.small.json.gz" and caplog.messages == []
    document = json.loads(gzip.decompress(path.read_bytes()))
    complete = [event["name"] for event in document["traceEvents"] if event["pid"] == 3 and event["ph"] == "i"]
    assert complete == ["sample 3 complete", "sample 4 complete"]
    cut = replace(write_timeline(path, config.fabric, results[0].section.netlist, results[0].decision, 2), is_cut=True)
    monkeypatch.setattr("placer.pipeline.report.write_timeline", lambda *args: cut)
    with caplog.at_level(logging.WARNING):
        write_timelines(config, results)
    assert caplog.messages[0].startswith(f"{path.name}: more to tell than 500000 spans, so it ends after")
