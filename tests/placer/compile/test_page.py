"""The page of a compiled network and those of its sections."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from placer.base.config import compose_config, to_dataclass
from placer.compile import CompiledNetwork, CompiledSection, Progress, compiled_page, prediction_error, write_page
from placer.compile.page import groups_of
from placer.pipeline import SimulateConfig, simulate_sections, time_of

OVERRIDES = ["workload=mha", "workload.rows=32", "workload.width=32", "workload.heads=2"]
MAX_BYTES = 5_000_000


@pytest.fixture(scope="module")
def compiled() -> CompiledNetwork:
    """A network of several sections; the first was predicted 10% too high, nobody was asked about the others."""
    overrides = [*OVERRIDES, "fabric.columns=4", "fabric.rows=4"]
    config = to_dataclass(SimulateConfig, compose_config("simulate", overrides))
    lowered = config.lowered()
    results = simulate_sections(config, lowered.sections)
    assert len(results) > 1
    first = 1.1 * results[0].measurement.cycles_per_sample
    sections = [CompiledSection(result, first if not number else math.nan) for number, result in enumerate(results)]
    time = time_of(config.fabric, results, config.batch)
    history = (Progress(1.0, 2 * time.cycles_per_input), Progress(5.0, time.cycles_per_input))
    return CompiledNetwork(
        config.fabric, config.make_graph(), lowered.plan, tuple(sections), time, "rules", 0, 9.0, history
    )


def test_the_pages_tell_the_network(compiled: CompiledNetwork, tmp_path: Path) -> None:
    write_page(compiled, tmp_path / "page.html", "python -m placer.compile", {"batch": 32})
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    for heading in (
        "The whole time",
        "The cut",
        "Sections",
        "Predicted and simulated",
        "Course of the search",
        "Energy",
    ):
        assert f">{heading}</h2>" in text
    assert "+10.0%" in text and "nobody was asked" in text and "100.0% faster than the first" in text
    linked = re.findall(r'href="\./(page\.[^"]+\.html)"', text)
    assert len(linked) == len(compiled.sections)
    for name in linked:
        page = tmp_path / name
        assert ">Fabric</h2>" in page.read_text(encoding="utf-8") and page.stat().st_size < MAX_BYTES
    assert len(text) < MAX_BYTES


def test_every_compute_unit_is_in_a_group(compiled: CompiledNetwork) -> None:
    for section in compiled.sections:
        netlist = section.result.section.netlist
        groups = groups_of(netlist)
        assert sum(group.units for group in groups) == sum(unit.kind == 0 for unit in netlist.units)
        assert len({group.name for group in groups}) == len(groups)


def test_the_error_is_that_of_predicted_sections(compiled: CompiledNetwork) -> None:
    assert prediction_error(compiled) == pytest.approx(0.1)
    unasked = tuple(CompiledSection(section.result, math.nan) for section in compiled.sections)
    silent = replace(compiled, sections=unasked, history=())
    assert prediction_error(silent) is None
    text = compiled_page(silent, {}, "", {}).to_html()
    assert "Nothing was noted on the way" in text and "Mean error" not in text
