"""The study of real models, on a small stand-in and from bad input."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from placer.base.config import compose_config, run_command, to_dataclass
from placer.graph.workloads import WorkloadConfig
from placer.pipeline import SimulateConfig, simulate_sections
from placer.study.models import HEADER, ModelResult, ModelsConfig, main, measure_model, summary_row, workloads, write

SECTIONS = ("workload.rows=32", "workload.width=32", "workload.heads=2")


def test_sections_count_as_often_as_the_model_has_them(tmp_path: Path) -> None:
    overrides = ["workload=mha", *SECTIONS, "fabric.columns=4", "fabric.rows=4"]
    sections = simulate_sections(to_dataclass(SimulateConfig, compose_config("simulate", overrides)))
    result = ModelResult(WorkloadConfig("gpt2_xl", training=True), sections)
    row = dict(zip(HEADER, summary_row(result), strict=True))
    assert (row["model"], row["layers"], row["pass"]) == ("gpt2_xl", "48", "training")
    num_all = sum(s.section.repeats for s in sections)
    assert len(sections) > 1
    assert row["sections"] == row["steady"] == f"{len(sections)} ({num_all})"
    write(tmp_path, [result])
    with open(tmp_path / "models.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    total = sum(int(line["repeats"]) * int(line["samples"]) * float(line["cycles_per_sample"]) for line in lines)
    assert float(row["cycles per input"].replace(",", "")) == pytest.approx(total, rel=1e-3)
    assert {line["status"] for line in lines} == {"steady"}
    assert len((tmp_path / "models.md").read_text().splitlines()) == 3


def test_all_combinations_are_measured() -> None:
    config = to_dataclass(ModelsConfig, compose_config("models"))
    found = [(w.family, w.layers, w.training) for w in workloads(config)]
    assert len(set(found)) == len(found) == 8


@pytest.mark.slow
def test_a_layer_of_a_model_becomes_steady() -> None:
    config = to_dataclass(ModelsConfig, compose_config("models"))
    row = summary_row(measure_model(config, WorkloadConfig("bert_base", layers=1, sequence=64)))
    assert row[HEADER.index("sections")] == row[HEADER.index("steady")]


def test_an_unknown_model_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as stop:
        run_command(main, "models", ["models=[lenet]", f"output={tmp_path / 'out'}"])
    assert stop.value.code == 2
    assert "models[0]='lenet' is no choice; allowed: bert_base" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
