"""The comparison: sums by hand, jobs that are not done twice, wrong input."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from costmodel.compare import CompareConfig, main
from costmodel.evaluation.comparison import Case, Models, PlacingMethod, Unseen, jobs_of, run_placings, write_comparison
from costmodel.evaluation.comparison import cases as cases_module
from costmodel.evaluation.comparison.methods import Placed, judge_limits
from costmodel.evaluation.comparison.report import HEADER, grouped, summary_rows
from costmodel.evaluation.comparison.run import JOBS_FOLDER, PlacingJob
from costmodel.model import shipped_file
from placer.base import InputError
from placer.base.config import compose_config, run_command, to_dataclass
from placer.base.workers import Workers, file_digest
from placer.fabric import load_fabric
from placer.pipeline import PlaceConfig
from placer.simulation import label_limits
from tests.costmodel.training.tiny import interrupt

pytestmark = pytest.mark.slow

SMALL = load_fabric("small")
UNSEEN = Unseen(("mlp",), 2, 10, 77)


def method(*overrides: str, **more: float) -> PlacingMethod:
    settings = to_dataclass(PlaceConfig, compose_config("place", list(overrides)))
    return PlacingMethod(settings, **more)


def cases() -> list[Case]:
    return list(UNSEEN.cases(SMALL))


def finished(case: Case, name: str, seed: int, throughput: float, predicted: float) -> dict[str, Any]:
    job = PlacingJob(case, name, method(), 1.0, seed)
    return job.row(Placed(throughput, predicted, throughput / 2, predicted, 1.0, 3, 0.02))


def rows_of(placements: list[dict[str, Any]]) -> list[dict[str, str]]:
    rows = summary_rows(pd.DataFrame(placements), "rules", "truth")
    return [dict(zip(HEADER, row, strict=True)) for row in rows]


def test_gains_share_and_error_by_hand() -> None:
    one, two = cases()
    two = replace(two, samples=7)
    rules, model, truth = rows_of(
        [
            *(finished(one, "rules", k, value, 1.0) for k, value in enumerate((0.4, 0.5, 0.8))),
            finished(two, "rules", 0, 0.5, 0.5),
            finished(one, "model", 0, 0.6, 0.66),
            finished(two, "model", 0, 0.5, 0.45),
            finished(one, "truth", 0, 0.72, 0.72),
            finished(two, "truth", 0, 0.5, 0.5),
        ]
    )  # fmt: skip
    assert (rules["netlists"], rules["seeds"], rules["throughput"]) == ("2", "3", "0.500")
    assert rules["spread over seeds"] == "40.0%", "mean of (0.8 - 0.4) / 0.5 and 0"
    assert model["over base"] == f"{np.sqrt(0.6 / 0.5) - 1:+.1%}"
    whole = (one.work / 0.5 + two.work / 0.5) / (one.work / 0.6 + two.work / 0.5)
    assert model["in sum"] == f"{whole - 1:+.1%}"
    assert model["worst netlist"] == "+0.0%" and model["RE of prediction"] == "0.100"
    assert model["share of the gap"] == f"{np.log(0.6 / 0.5) / np.log(0.72 / 0.5):.0%}"
    assert truth["share of the gap"] == "100%"
    assert truth["RE of favourites"] == "1.000", "twice the throughput of the favourites"
    assert truth["spread over seeds"] == "", "of one seed"


def test_a_share_of_no_gap_says_nothing() -> None:
    names = {"rules": 0.98, "model": 0.982, "truth": 0.985}
    case = cases()[0]
    rows = rows_of([finished(case, name, 0, value, 1.0) for name, value in names.items()])
    assert [row["share of the gap"] for row in rows] == ["", "", ""]


def test_the_judge_simulates_longer_than_any_search() -> None:
    for bound in (30, 5000):
        judge, search = judge_limits(bound), label_limits(bound)
        assert judge.warmup_samples > search.warmup_samples
        assert judge.window_samples > search.window_samples


def test_a_fabric_with_the_same_name_and_other_rates_is_another_job() -> None:
    other = load_fabric("small", ["link.hop_cycles=3"])
    netlist = cases()[0].netlist
    both = [Case("mlp", fabric, netlist) for fabric in (SMALL, other)]
    one, two = (PlacingJob(case, "rules", method(), 1.0, 0).origin() for case in both)
    assert one != two


def test_netlists_of_one_name_are_two() -> None:
    one, two = cases()
    two = replace(two, netlist=replace(two.netlist, name=one.name))
    (row,) = rows_of([finished(case, "rules", 0, 0.5, 0.5) for case in (one, two)])
    assert row["netlists"] == "2"


def test_groups_of_a_fabric_are_also_told_together() -> None:
    one, two = cases()
    done = [finished(case, "rules", 0, 0.5, 0.5) for case in (one, replace(two, group="mha"))]
    board = grouped(pd.DataFrame(done))
    assert [group for group, _ in board] == ["mlp", "mha", "all on small"]
    assert len(board["all on small", "rules"]) == 2


def test_without_a_base_nothing_is_told_against_it() -> None:
    (row,) = rows_of([finished(cases()[0], "model", 0, 0.6, 0.6)])
    assert row["over base"] == ""


def test_the_page_holds_tables_and_pictures(tmp_path: Path) -> None:
    done = [finished(cases()[0], name, 0, 0.6, 0.6) for name in ("rules", "model")]
    names = {"base": "rules", "limit": "truth", "twins": ("rules", "model"), "command": "python -m compare <x>"}
    write_comparison(pd.DataFrame(done), tmp_path, **names, config={"seed": 0})
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count('src="data:image/png;base64,') == 3, "what the model adds to the rules is one of them"
    assert "python -m compare &lt;x&gt;" in page
    assert all(re.search(rf'<th scope="col"[^>]*>{re.escape(name)}</th>', page) for name in HEADER)


def test_a_run_that_was_cut_off_places_only_what_is_missing(tmp_path: Path) -> None:
    methods = {"random": method("cost=random", "max_moves=1", time_factor=0), "rules": method()}
    jobs = jobs_of(cases()[:1], methods, 0.05, 2)
    assert [job.seed for job in jobs] == [0, 0, 1, 1]

    first = run_placings(jobs, tmp_path, Workers())
    assert first["throughput"].between(0, 1, inclusive="right").all()
    assert first["searches"][0] == 1
    files = sorted((tmp_path / JOBS_FOLDER).iterdir())
    assert len(files) == 4
    files[0].write_text("{")  # as if the disk had lost it
    seen: list[tuple[int, int]] = []
    again = run_placings(jobs, tmp_path, Workers(), lambda done, total: seen.append((done, total)))
    assert seen == [(3, 4), (4, 4)] and len(again) == 4
    assert json.loads(files[0].read_text())["origin"]["seed"] in (0, 1)


def test_ctrl_c_ends_it_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("placer.base.workers.jobs.run_tasks", interrupt)
    quick = [
        "methods=[heuristic]", "unseen.families=[mlp]", "unseen.netlists=1", "unseen.exclude=[]",
        "models.names=[]",
    ]  # fmt: skip
    with pytest.raises(SystemExit) as stop:
        run_command(main, "compare", [*quick, f"output={tmp_path}"])
    assert (stop.value.code, capsys.readouterr().err) == (130, "interrupted\n")


def test_another_model_file_is_another_job(tmp_path: Path) -> None:
    file = tmp_path / "model.pt"
    learned = method("cost=learned", f"cost.model_file={file}")
    job = PlacingJob(cases()[0], "flow", learned, 1.0, 0)
    with pytest.raises(InputError, match="model_file: cannot read"):
        job.origin()
    file.write_bytes(b"1")
    first = job.origin()
    file.write_bytes(b"2")
    assert job.origin() != first != replace(job, seed=1).origin()


def test_the_model_in_the_box_is_known_by_its_file() -> None:
    job = PlacingJob(cases()[0], "shipped", method("cost=learned"), 1.0, 0)
    assert job.origin()["files"] == {"shipped": file_digest(shipped_file())}


def test_netlists_of_a_dataset_are_not_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    few = Unseen(("mlp",), 3, 10, 77)
    first, *others = few.cases(SMALL)
    dataset = SimpleNamespace(fingerprints=(first.netlist.fingerprint,))
    monkeypatch.setattr(cases_module.Dataset, "open", lambda folder: dataset)
    few = replace(few, exclude=(Path("data"),))
    fingerprints = [case.netlist.fingerprint for case in few.cases(SMALL)]
    assert fingerprints[:2] == [case.netlist.fingerprint for case in others]
    assert len({*fingerprints, first.netlist.fingerprint}) == 4


def test_too_few_unseen_netlists_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    always = cases()[0].netlist
    monkeypatch.setattr(cases_module, "draw_netlist", lambda *_: always)
    with pytest.raises(InputError, match="only 1 of 20 random netlists of 'mlp'"):
        list(UNSEEN.cases(SMALL))


def test_sections_of_a_model_are_cases() -> None:
    found = list(Models(("bert_base",), 1, (False,), 16).cases(load_fabric("large")))
    assert found and all(case.group == "bert_base forward" and case.samples >= 1 for case in found)


def test_the_configuration_composes() -> None:
    settings = to_dataclass(CompareConfig, compose_config("compare", []))
    methods = settings.chosen(settings.methods)
    assert list(methods) == list(settings.methods) and methods["simulator"].time_factor == 20
    assert "flow_large" in settings.chosen(settings.model_methods)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("model_methods=[tea]", "unknown method 'tea'"),
        ("methods=[tea]", "unknown method 'tea'; allowed (recipes): random, heuristic"),
        ("unseen.families=[rnn]", "unseen.families[0]='rnn' is no choice"),
        ("models.names=[alexnet]", "models.names[0]='alexnet' is no choice"),
        ("seconds=0", "seconds=0"),
        ("unseen.exclude=[no/data]", "no/data"),
        ("recipes.flow.overrides=[cost=magic]", "magic"),
    ],
)
def test_wrong_input_is_explained(
    argument: str, message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    quick = ["unseen.netlists=1", "unseen.exclude=[]", "models.names=[]", f"output={tmp_path}"]
    with pytest.raises(SystemExit) as stop:
        run_command(main, "compare", [*quick, argument])
    assert stop.value.code == 2 and message in capsys.readouterr().err


@pytest.mark.parametrize("value", [float("nan"), "fast", None])
def test_a_damaged_value_is_computed_again(value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed = list[PlacingJob]()

    def run_tasks(_: object, tasks: list[PlacingJob], **__: object) -> list[tuple[int, Placed]]:
        computed.extend(tasks)
        return [(k, Placed(0.5, 0.5, 0.5, 0.5, 1.0, 1, 0.02)) for k in range(len(tasks))]

    monkeypatch.setattr("placer.base.workers.jobs.run_tasks", run_tasks)
    jobs = jobs_of(cases()[:1], {"rules": method()}, 1.0, 1)
    run_placings(jobs, tmp_path, Workers())
    (path,) = (tmp_path / JOBS_FOLDER).iterdir()
    document = json.loads(path.read_text())
    document["result"]["throughput"] = value
    path.write_text(json.dumps(document))
    found = run_placings(jobs, tmp_path, Workers())
    assert len(computed) == 2
    assert found["throughput"].tolist() == [0.5]
