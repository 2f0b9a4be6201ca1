"""Layouts by different costs: the mapper with a learned cost, tables, and going on."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel.wafer import LearnedMappingCost
from costmodel.wafer.compare import SUMMARY, main, summary
from costmodel.wafer.compare_jobs import Job, Method, Result
from placer.base.config import run_command
from placer.base.workers import jobs
from placer.kernels.__main__ import main as map_kernels
from placer.kernels.model import format_kgraph, generate, table_of
from placer.kernels.sizing import Problem
from placer.kernels.truth import simulate_mapping
from tests.costmodel.wafer.test_encode import model_of
from tests.placer.kernels.cases import written_wafers


def run(command: Any, name: str, *arguments: str) -> int:
    with pytest.raises(SystemExit) as exit_info:
        run_command(command, name, arguments)
    return int(exit_info.value.code or 0)


def result_of(throughput: float, aspect: float, rate: float | None) -> Result:
    return Result(throughput, 1 / throughput, 100.0, 1.0, 5.0, 2, aspect, 1.0, 0.5, "kernels", rate, [[1]])


def job_of(preset: str, method: Method) -> Job:
    return Job(generate(preset), "resnet", method, Path("none.pt"), 1.0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[[100, 100]], [[100, 100], [80, 60]]])
def test_every_wafer_is_mapped_by_the_learned_cost(
    sizes: list[list[int]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = model_of()
    model.save(tmp_path / "flow.pt")
    chosen = ["preset=tiny_convs", "time_limit=1", "cost=learned", f"model={tmp_path / 'flow.pt'}"]
    output = tmp_path / "layout.txt"
    assert run(map_kernels, "kernels", *chosen, f"wafer_sizes={sizes}", f"output={output}") == 0
    cost, cycles = LearnedMappingCost(model), []
    for part, layout, throughput in written_wafers(generate("tiny_convs"), output.with_suffix(".json")):
        problem, table = Problem(part), table_of(layout)[None]
        predicted = cost.score(problem, table).throughput[0]
        assert throughput["predicted"] == pytest.approx(predicted, rel=1e-4)
        measured = simulate_mapping(problem, layout)
        assert throughput["simulated"] == pytest.approx(measured.throughput)
        cycles.append(measured.cycles_per_sample)
    assert len(cycles) == len(sizes)
    if len(sizes) > 1:
        assert f"simulated: {max(cycles):,.0f} cycles per sample" in capsys.readouterr().out


@pytest.mark.slow
def test_layouts_are_compared_and_only_what_is_damaged_is_made_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for family in ("resnet", "resnet_convs"):
        (tmp_path / f"models/family_{family}").mkdir(parents=True)
        model_of().save(tmp_path / f"models/family_{family}/flow.pt")
    (tmp_path / "Z.kgraph").write_text(format_kgraph(generate("tiny_convs")))
    monkeypatch.setattr(jobs, "run_tasks", in_this_process)
    chosen = [
        f"models={tmp_path / 'models'}", f"folder={tmp_path}", "presets=[[tiny,resnet]]",
        "letters=[[Z,resnet_convs],[missing,resnet]]", "families=[]", "seconds=0.2",
        "methods=[contest,learned,simulator]", "floorplans=tiny", f"output={tmp_path / 'out'}",
        f"publish={tmp_path / 'docs'}",
    ]  # fmt: skip
    assert run(main, "wafer_compare", *chosen) == 0
    text = capsys.readouterr().out
    assert "6 searches, 0 of them done before" in text
    assert "6 of 6: " in text
    with open(tmp_path / "out/comparison.csv") as file:
        rows = list(csv.DictReader(file))
    assert [(row["graph"], row["method"]) for row in rows] == [
        (graph, method) for graph in ("Z", "tiny") for method in ("contest", "learned", "simulator")
    ]
    assert (tmp_path / "out/floorplans.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "out/comparison.html").read_text(encoding="utf-8")
    assert page.count("<table>") == 2 and page.count('src="data:image/png') == 1
    for name in ("comparison.csv", "comparison.md", "floorplans.png"):
        assert (tmp_path / "docs" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()

    path = next((tmp_path / "out/jobs").glob("*.json"))
    document = json.loads(path.read_text())
    document["result"]["throughput"] *= 2
    path.write_text(json.dumps(document))
    assert run(main, "wafer_compare", *chosen) == 0
    assert "6 searches, 5 of them done before" in capsys.readouterr().out


def in_this_process(function: Any, tasks: list[Any], **_: object) -> Any:
    yield from enumerate(map(function, tasks))


def test_the_summary_tells_gains_shares_and_shapes() -> None:
    results = [
        (job_of("tiny", "contest"), result_of(0.2, 9.0, None)),
        (job_of("tiny", "learned"), result_of(0.3, 4.0, 5000.0)),
        (job_of("tiny", "simulator"), result_of(0.4, 8.0, 90.0)),
        (job_of("tiny_convs", "contest"), result_of(0.5, 2.0, None)),
        (job_of("tiny_convs", "learned"), result_of(0.5, 3.0, 4000.0)),
        (job_of("tiny_convs", "simulator"), result_of(0.5, 2.0, 80.0)),
    ]
    rows = [dict(zip(SUMMARY, row, strict=True)) for row in summary(results, ["contest", "learned", "simulator"]).rows]
    learned = rows[1]
    assert learned["median gain"] == "+25.0%"
    assert (learned["least gain"], learned["most"]) == ("+0.0%", "+50.0%")
    assert (learned["of simulator's"], learned["least share"]) == ("88%", "75%")
    assert (learned["squarer"], learned["scores/s"]) == ("1", "4,000")
    assert rows[0]["scores/s"] == "-"
    assert summary(results[:2], ["contest", "learned"]).rows[1][6:8] == ["-", "-"]


def test_damaged_values_are_not_taken_for_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, result = job_of("tiny", "contest"), result_of(0.2, 9.0, None)
    monkeypatch.setattr(jobs, "run_tasks", in_this_process)
    computed = list[Job]()

    def compute(job: Job) -> Result:
        computed.append(job)
        return result

    def is_there(job: Job) -> bool:
        computed.clear()
        found = jobs.run_jobs(
            [job], compute, tmp_path,
            decode=lambda values: Result(**values),
        )  # fmt: skip
        assert found == [result]
        return not computed

    assert not is_there(job)
    assert is_there(job)
    (path,) = tmp_path.iterdir()
    whole = json.loads(path.read_text())
    assert not is_there(job_of("tiny", "formula"))
    for name, value in whole["result"].items():
        for wrong in (None, "0.5", -1.0, np.inf, [[2]]):
            if wrong != value:
                path.write_text(json.dumps(whole | {"result": whole["result"] | {name: wrong}}))
                assert not is_there(job), (name, wrong)
    for text in ("", "[]", "{}", json.dumps(whole)[:-9], json.dumps(whole | {"origin": {}})):
        path.write_text(text)
        assert not is_there(job), text


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("methods=[learned]", "the first must be contest"),
        ("presets=[[tiny]]", "write [name, family]"),
        ("families=[none]", "unknown family 'none'; allowed: resnet"),
        ("seconds=0", "seconds=0.0; allowed above 0"),
        ("families=[]", "nothing to compare"),
        ("presets=[[tiny,unet]]", "costmodel.wafer.evaluate families=[unet]"),
    ],
)
def test_wrong_settings_end_with_code_2(
    argument: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    none = ["presets=[]", "letters=[]", "families=[]", f"models={tmp_path}"]
    output = f"output={tmp_path / 'out'}"
    assert run(main, "wafer_compare", *none, output, argument) == 2
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert message in error
