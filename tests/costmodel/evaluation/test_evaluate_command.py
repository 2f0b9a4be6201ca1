"""The command: its configuration, its report, and one clear line for what is wrong."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from costmodel import evaluate
from costmodel.dataset.splits import SPLITS_FILE
from costmodel.evaluate import EvaluateConfig
from costmodel.evaluation import REPORT_FILE, Baseline
from costmodel.evaluation.jobs import JOBS_FOLDER
from costmodel.evaluation.report import PREDICTIONS_FILE
from placer.base.config import compose_config, run_command, to_dataclass
from tests.costmodel.evaluation.cases import NUM_DECISIONS, NUM_FOLDS, NUM_NETLISTS, make_dataset, run_inline


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dataset(tmp_path_factory.mktemp("command") / "data")


@pytest.fixture(autouse=True)
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placer.base.workers.jobs.run_tasks", run_inline)


def _arguments(dataset: Path, folder: Path, *more: str) -> list[str]:
    return [
        f"data={dataset}",
        f"cache={dataset.parent / 'cache'}",
        f"output={folder / 'out'}",
        "methods=[heuristic,calibrated]",
        "ablations=[]",
        "seeds.transfer=[]",
        "seeds.graph=[0,1]",
        *more,
    ]


def _run(arguments: list[str]) -> int:
    with pytest.raises(SystemExit) as stop:
        run_command(evaluate.main, "evaluate", arguments)
    assert isinstance(stop.value.code, int)
    return stop.value.code


def _settings(*overrides: str) -> EvaluateConfig:
    return to_dataclass(EvaluateConfig, compose_config("evaluate", overrides))


def test_the_configuration_composes() -> None:
    settings = _settings()
    methods = settings.chosen(("heuristic", "calibrated", "boosting"))
    assert [method.config for method in methods.values()] == list(Baseline)
    bases = {recipe.base for recipe in settings.recipes.values()} - {None}
    assert bases <= settings.recipes.keys()
    assert set(settings.methods) | set(settings.ablations) <= settings.recipes.keys()


@pytest.mark.slow
def test_report_of_a_whole_run(dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    published = tmp_path / "published"
    assert _run(_arguments(dataset, tmp_path, f"publish={published}")) == 0
    out = tmp_path / "out"
    text = (out / REPORT_FILE).read_text()
    assert (out / "report.html").read_text(encoding="utf-8").count('src="data:image/png') == 4
    for part in ("python -m costmodel.evaluate", "graph [0, 1]", "By graph", "Leave one family"):
        assert part in text
    with open(out / "scores.csv") as file:
        rows = list(csv.DictReader(file))
    whole = [row for row in rows if row["fold"] == row["family"] == "all"]
    assert [(row["split"], row["method"], row["seed"]) for row in whole] == [
        ("graph", "heuristic", "0"), ("graph", "calibrated", "0"),
        ("graph", "heuristic", "1"), ("graph", "calibrated", "1"),
        ("family", "heuristic", "0"), ("family", "calibrated", "0"),
        ("random", "heuristic", "0"), ("random", "calibrated", "0"),
    ]  # fmt: skip
    assert {row["num_decisions"] for row in whole} == {str(NUM_NETLISTS * NUM_DECISIONS)}
    names = {path.name for path in published.iterdir()}
    private = {JOBS_FOLDER, PREDICTIONS_FILE, "report.html"}
    assert names == {path.name for path in out.iterdir()} - private
    assert "per-graph Spearman best `" in capsys.readouterr().out


@pytest.mark.slow
def test_a_second_run_writes_the_same_files(dataset: Path, tmp_path: Path) -> None:
    contents = []
    for _ in range(2):
        assert _run(_arguments(dataset, tmp_path, "seeds.family=[]", "seeds.random=[]")) == 0
        files = sorted(path for path in (tmp_path / "out").rglob("*") if path.is_file())
        contents.append({path.name: path.read_bytes() for path in files})
    assert contents[0] == contents[1]
    assert len(list((tmp_path / "out" / JOBS_FOLDER).glob("*.json"))) == 2 * 2 * NUM_FOLDS


@pytest.mark.slow
def test_absent_transfers_are_left_out_with_the_command_that_makes_them(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = tmp_path / "absent"
    absents = [f"transfers.{fabric}={absent}" for fabric in ("large", "small_v2")]
    arguments = _arguments(dataset, tmp_path, "max_folds=1", *absents, "seeds.transfer=[0]")
    assert _run(arguments) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f'make dataset ARGS="fabric=large size=transfer seed=1 output={absent}"' in told


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("methods=[heuristik]", "unknown method 'heuristik'; allowed (recipes): heuristic, cal"),
        ("methods=[]", "methods=[]; name one or more"),
        ("recipes.heuristic.model=tree", "unknown model 'tree'; allowed: heuristic, calibrated"),
        ("+recipes.heuristic.overrides=['a=1']", "model 'heuristic' knows no overrides; seen 'a=1'"),
        ("ablations=[calibrated]", "ablation 'calibrated' is compared with None, which is not"),
        ("seeds.graph=[-1]", "seeds.graph=[-1]; allowed: different ones from 0 on"),
        ("data=nowhere", "dataset nowhere/netlists.parquet: there is no such file; run make dataset"),
    ],
)
def test_wrong_input_gives_one_line_and_code_2(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], argument: str, message: str
) -> None:
    assert _run(_arguments(dataset, tmp_path, argument)) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {message}") and error.count("\n") == 1


@pytest.mark.slow
def test_a_dataset_without_splits_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make_dataset(tmp_path / "data")
    (folder / SPLITS_FILE).unlink()
    assert _run(_arguments(folder, tmp_path)) == 2
    assert "make the splits again" in capsys.readouterr().err
