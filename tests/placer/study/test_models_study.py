"""The study of whole networks, on small stand-ins and from bad input."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from placer.base import DoesNotFitError, make_console
from placer.base.config import compose_config, run_command, to_dataclass
from placer.cost import Rules
from placer.fabric import Fabric
from placer.graph.workloads import NETWORKS, WorkloadConfig
from placer.netlist.lowering import Section, lower_sections
from placer.pipeline import SectionRun, SimulateConfig, network_time, run_of, simulate_sections
from placer.study import models
from placer.study.models import HEADER, ModelResult, ModelsConfig, labels_of, main, summary_row, workloads, write
from placer.study.section_job import SectionJob, place_section

CASE = (
    "workload=mha",
    "workload.rows=32",
    "workload.width=32",
    "workload.heads=2",
    "fabric.columns=4",
    "fabric.rows=4",
)


def small_config() -> SimulateConfig:
    return to_dataclass(SimulateConfig, compose_config("simulate", CASE))


def config_of(*overrides: str) -> ModelsConfig:
    return to_dataclass(ModelsConfig, compose_config("models", overrides))


@pytest.fixture(scope="module")
def runs() -> list[SectionRun]:
    config = small_config()
    return [run_of(config.fabric, result) for result in simulate_sections(config, config.lowered().sections)]


def test_sections_count_as_often_as_the_network_has_them(tmp_path: Path, runs: list[SectionRun]) -> None:
    fabric = small_config().fabric
    often = [replace(run, repeats=3) for run in runs]
    time = network_time(fabric, often, 8)
    result = ModelResult(WorkloadConfig("gpt2_xl", training=True), [0], [time])
    row = dict(zip(HEADER, summary_row(result), strict=True))
    assert (row["network"], row["layers"], row["pass"]) == ("gpt2_xl", "all", "training")
    assert row["sections"] == f"{len(runs)} ({3 * len(runs)})"
    assert row["cycles per input"] == f"{time.cycles_per_input:,.0f}"
    shares = [float(str(row[name]).rstrip("%")) for name in ("whole", "simulated", "full bound", "bound")]
    assert 0 < shares[0] < shares[1] <= shares[2] <= shares[3] < 100
    lowest = min(run.full_bound_cycles / run.cycles_per_sample for run in runs)
    assert str(row["lowest section"]).startswith(f"{lowest:.3f} (section ")

    models.write_time(tmp_path, result.stem, time, result.name)
    write(config_of(f"output={tmp_path}"), [result], ["resnet: does not fit"], "python")
    with open(tmp_path / "models.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    total = sum(float(line["cycles_per_input"]) for line in lines)
    assert total == pytest.approx(time.cycles_per_input, rel=1e-4)
    report = (tmp_path / "models.md").read_text()
    assert "resnet: does not fit" in report
    assert "(roofline.gpt2_xl.all.training.png)" in report
    assert (tmp_path / "models.html").read_text().count("<img") == 2


def test_what_was_not_measured_has_no_time(runs: list[SectionRun]) -> None:
    unknown = [runs[0], replace(runs[1], cycles_per_sample=float("nan"))]
    row = summary_row(ModelResult(WorkloadConfig("gpt2"), [0], [network_time(small_config().fabric, unknown, 8)]))
    assert row[HEADER.index("cycles per input")] == "nan"
    assert row[HEADER.index("lowest section")] == "nan (section 1)"


def test_several_seeds_are_a_mean_with_its_spread(tmp_path: Path, runs: list[SectionRun]) -> None:
    fabric = small_config().fabric
    slower = [replace(run, cycles_per_sample=1.5 * run.cycles_per_sample) for run in runs]
    times = [network_time(fabric, some, 8) for some in (runs, slower)]
    result = ModelResult(WorkloadConfig("gpt2", layers=1), [3, 5], times)
    row = dict(zip(HEADER, summary_row(result), strict=True))
    shares = [time.share_of_peak for time in times]
    assert row["whole"] == f"{sum(shares) / 2:.1%} ({shares[1]:.1%} to {shares[0]:.1%})"
    assert row["cycles per input"] == f"{sum(time.cycles_per_input for time in times) / 2:,.0f}"
    lowest = min(run.full_bound_cycles / run.cycles_per_sample for run in slower)
    assert str(row["lowest section"]).startswith(f"{lowest:.3f} (section ")

    (tmp_path / "out").mkdir()
    models.write_time(tmp_path / "out", result.stem, result.time, result.name)
    write(config_of(f"output={tmp_path / 'out'}", "seeds=[3,5]"), [result], [], "python", tmp_path / "copy")
    with open(tmp_path / "copy" / "models.csv", newline="") as file:
        assert [line["seed"] for line in csv.DictReader(file)] == ["3"] * len(runs) + ["5"] * len(runs)
    report = (tmp_path / "copy" / "models.md").read_text()
    assert "seeds 3, 5: means" in report
    for name in ("time.gpt2.1.forward.png", "roofline.gpt2.1.forward.png"):
        assert f"({name})" in report
        assert (tmp_path / "copy" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()


def labels(*overrides: str) -> list[tuple[str, ...]]:
    return [tuple(labels_of(workload)) for workload in workloads(config_of(*overrides))]


def test_all_combinations_are_measured() -> None:
    found = labels("models=null", "layers=[1,null]")
    assert len(set(found)) == len(found) == 4 * (len(NETWORKS) - 1) + 2
    assert ("resnet50", "all", "forward") in found
    assert ("resnet50", "1", "forward") not in found


def test_decoding_adds_rows_of_decoders() -> None:
    found = labels("models=[bert_large,llama3_8b]", "decode=[false,true]")
    ways = [("bert_large", "forward"), ("bert_large", "training")]
    ways += [("llama3_8b", "forward"), ("llama3_8b", "training"), ("llama3_8b", "decode")]
    assert found == [(name, "1", way) for name, way in ways]
    assert labels("decode=[true]") == [("llama3_8b", "1", "decode")]


def test_a_sequence_is_of_language_models() -> None:
    found = workloads(config_of("models=[gpt2,llama3_8b,vit_large]", "decode=[false,true]", "sequence=64"))
    assert {(w.family, w.decode): w.sequence for w in found} == {
        ("gpt2", False): 64, ("llama3_8b", False): 64, ("llama3_8b", True): None, ("vit_large", False): None,
    }  # fmt: skip


def make_job(seconds: float = 0.2) -> SectionJob:
    config = small_config()
    return SectionJob(config.fabric, config.lowered().sections[0], Rules(flow=1.6), seconds, (0, 0))


def test_a_section_is_placed_better_than_at_random(runs: list[SectionRun]) -> None:
    placed = place_section(make_job())
    assert placed.is_steady
    assert placed.cycles_per_sample <= runs[0].cycles_per_sample
    changed = {"cycles_per_sample", "first_sample_cycles", "limit", "is_steady", "link_bytes"}
    assert all(getattr(placed, n) == getattr(runs[0], n) for n in SectionRun.__slots__ if n not in changed)


def test_what_a_section_depends_on_is_its_origin() -> None:
    job = make_job()
    others = [
        replace(job, seconds=1.0),
        replace(job, seed=(0, 1)),
        replace(job, rules=Rules()),
        replace(job, fabric=replace(job.fabric, switch_cycles=1)),
        replace(job, section=replace(job.section, repeats=2)),
    ]
    origins = [job.origin(), *(other.origin() for other in others)]
    assert job.origin() == make_job().origin()
    assert all(origins.count(origin) == 1 for origin in origins)


def time_file(workload: WorkloadConfig) -> str:
    return f"time.{'.'.join(labels_of(workload))}.csv"


@pytest.mark.slow
def test_a_network_is_measured_once_and_kept(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lower_some(fabric: Fabric, graph: Any, batch: int) -> tuple[Section, ...]:
        if graph.family == "gpt2":
            raise DoesNotFitError("anything", 2, 1, "use less")
        small = small_config()
        return lower_sections(small.fabric, small.make_graph(), small.fill)

    monkeypatch.setattr(models, "lower_sections", lower_some)
    command = ["models=[bert_base,gpt2,resnet50]", "layers=[null]", "training=[false,true]", "seconds=0.2", "workers=2"]
    command += ["fabric=small", "fabric.columns=4", "fabric.rows=4", f"output={tmp_path}"]
    with pytest.raises(SystemExit) as stop:
        run_command(main, "models", command)
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert "gpt2 forward: does not fit: anything" in out
    report = (tmp_path / "models.md").read_text()
    assert "Left out: gpt2 training: does not fit: anything" in report
    assert "Left out: resnet50 training: op 'pool': training of average_pool is not supported" in report
    assert "\n| resnet50 | all | forward | " in report
    first = (tmp_path / "models.csv").read_bytes()
    assert (tmp_path / "time.bert_base.all.forward.png").is_file()
    config = config_of(*command)
    monkeypatch.setattr(models, "place_section", lambda job: pytest.fail("must not run"))
    measured = [workload for workload in workloads(config) if (tmp_path / time_file(workload)).is_file()]
    assert len(measured) == 3
    again = [models.measure_model(config, w, models.sections_of(config, w), make_console()) for w in measured]
    assert models.section_table(again).csv().encode() == first


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("models=[lenet]", "models[0]='lenet' is no choice; did you mean 'resnet50'? allowed: bert_base"),
        ("layers=[99]", "bert_large: layers=99; allowed 1 to 24"),
        ("seeds=[]", "seeds=[] is empty; allowed: one or more"),
        ("decode=[true] models=[bert_large]", "decode=[True]: only these decode: llama3_8b, mixtral_8x7b"),
    ],
)
def test_wrong_settings_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, override: str, message: str
) -> None:
    with pytest.raises(SystemExit) as stop:
        run_command(main, "models", [*override.split(), f"output={tmp_path / 'out'}"])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
