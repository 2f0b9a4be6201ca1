"""Active learning: rounds add labels, the dataset grows, the model goes on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from costmodel.adaptation import ImproveConfig
from costmodel.adaptation.active import Round, repeat_new, rows_of
from costmodel.dataset import Dataset, extend_dataset
from costmodel.improve import main
from costmodel.model import Model
from placer.base.config import compose_config, run_command, to_dataclass
from tests.costmodel.cases import labelled
from tests.costmodel.inference.test_learned import SMALL, model_for
from tests.costmodel.training.tiny import interrupt

pytestmark = pytest.mark.slow


def test_regret_is_told_against_the_best_of_all_rounds() -> None:
    results = [
        Round(0, 0, np.array([0.9, 0.5]), np.array([0.6, 0.5]), np.array([0.7, 0.5])),
        Round(1, 8, np.array([0.8, 0.5]), np.array([0.8, 0.5]), np.array([0.8, 0.5])),
    ]
    rows = rows_of(results)
    assert rows[0] == ["0", "0", "0.250", "0.550", "0.600", "12.5%"]
    assert rows[1][1] == "8" and rows[1][-1] == "0.0%"


def test_new_labels_are_repeated_until_they_are_a_share() -> None:
    netlist = np.repeat([0, 1, 2, 3], [4, 4, 4, 2])
    ids = repeat_new(netlist, 3, 1 / 3)
    assert ids.tolist() == [*range(12), *[12] * 3, *[13] * 3], "6 of 18"
    assert repeat_new(netlist, 3, 0.01).tolist() == list(range(14)), "each once at least"


def test_an_extended_dataset_holds_both(tmp_path: Path) -> None:
    data = labelled(tmp_path)
    base = Dataset.open(data.folder)
    more = [base.samples(2), base.samples(0)]
    extend_dataset(base, more, tmp_path / "longer")
    longer = Dataset.open(tmp_path / "longer")
    assert longer.num_netlists == base.num_netlists + 2
    last = longer.samples(longer.num_netlists - 1)
    np.testing.assert_array_equal(last.throughput, base.samples(0).throughput)
    assert longer.content_hash != base.content_hash


def arguments_of(tmp_path: Path) -> list[str]:
    """Of the smallest run there is."""
    data = labelled(tmp_path)
    assert data.fabric == SMALL
    model_for(SMALL).save(tmp_path / "first.pt")
    return [
        f"model_file={tmp_path / 'first.pt'}", f"data={data.folder}", f"cache={tmp_path / 'cache'}",
        "unseen.families=[mlp]", "unseen.netlists=2", "unseen.sample_cycles=10", "rounds=1",
        "search.pool=2", "search.max_moves=20", "search.labels=3", "trainer.max_epochs=1",
        "trainer.threads=1", "student.steps=1", f"output={tmp_path / 'out'}", "tracking.uri=null", "workers=1",
    ]  # fmt: skip


def run(*arguments: str) -> object:
    with pytest.raises(SystemExit) as stop:
        run_command(main, "improve", arguments)
    return stop.value.code


def test_ctrl_c_ends_it_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("placer.base.workers.jobs.run_tasks", interrupt)
    assert run(*arguments_of(tmp_path)) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_round_writes_models_table_and_curve(tmp_path: Path) -> None:
    assert run(*arguments_of(tmp_path)) == 0
    table = (tmp_path / "out" / "rounds.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in table] == ["round", "0", "1"]
    grown = Dataset.open(tmp_path / "out" / "round_0" / "data")
    assert grown.num_netlists == 8 + 2
    assert Model.load(tmp_path / "out" / "model.pt").origin["start"] == model_for(SMALL).digest()
    assert (tmp_path / "out" / "regret.png").stat().st_size > 1000
    assert 'src="data:image/png' in (tmp_path / "out" / "rounds.html").read_text(encoding="utf-8")


def test_the_configuration_composes() -> None:
    settings = to_dataclass(ImproveConfig, compose_config("improve", []))
    assert settings.trainer.max_epochs == 4


def test_wrong_input_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run_command(main, "improve", ["rounds=0"])
    assert stop.value.code == 2 and "rounds=0" in capsys.readouterr().err
