"""A training run: what it reads, what it writes, and that it can be cut off at any time."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from costmodel.encoding import FABRIC_FEATURES
from costmodel.model import Model, labelled
from costmodel.networks import FlowConfig
from costmodel.networks.guha import GuhaConfig
from costmodel.train import main
from costmodel.training import LossConfig, RunConfig, TrainConfig, run
from costmodel.training.losses import RankLoss
from placer.base import InputError
from placer.base.config import CONF_DIR, choices, compose_config, run_command, to_dataclass
from tests.costmodel.training.tiny import overrides, settings

pytestmark = pytest.mark.slow

FILES = {
    "flow.pt", "config.yaml", "epochs.csv", "metrics.json", "loss.png", "predictions.png",
    "predictions.csv", "checkpoints",
}  # fmt: skip


def composed(*changes: str) -> RunConfig:
    return to_dataclass(RunConfig, compose_config("train", changes))


def metrics(output: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((output / "metrics.json").read_text(encoding="utf-8"))
    return result


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        run_command(main, "train", arguments)
    assert isinstance(stop.value.code, int)
    return stop.value.code, *capsys.readouterr()


def test_configuration_files_hold_the_defaults_of_the_code() -> None:
    assert composed().learning() == TrainConfig()
    mlp, guha = composed("model=mlp").learning(), composed("model=guha").learning()
    assert mlp == TrainConfig(network=FlowConfig(rounds=0))
    assert guha == TrainConfig(GuhaConfig(), LossConfig(rank=RankLoss.NONE, stalls=0))
    assert composed("model=guha", "loss=default").loss == LossConfig()


@pytest.mark.parametrize("group", ["model", "loss", "trainer"])
def test_every_choice_composes_and_describes_itself(group: str) -> None:
    for name in choices(group, CONF_DIR):
        config = composed(f"{group}={name}")
        assert to_dataclass(RunConfig, OmegaConf.create(config.describe())) == config


def test_a_run_with_a_split_writes_model_metrics_and_pictures(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, *overrides(folder, "split=graph", "fold=1"))
    assert (code, err) == (0, "")
    assert "validation" in out
    assert "test" in out
    output = folder / "out"
    assert {path.name for path in output.iterdir()} == FILES
    assert metrics(output)["test"]["num_decisions"] == 20
    with open(output / "epochs.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["0", "1"]
    assert metrics(output)["validation_loss"] == min(float(row["val_loss"]) for row in rows)
    with open(output / "predictions.csv", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 20
    assert Model.load(output / "flow.pt").origin["epochs"] == 2


def test_a_run_with_all_netlists_has_no_test_part(folder: Path) -> None:
    result = run(settings(folder, "trainer.max_epochs=1"))
    assert result.test is None
    assert metrics(folder / "out")["test"] is None


def test_the_written_configuration_repeats_the_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, *overrides(folder, "split=random", "seed=3"))[0] == 0
    written = str(folder / "out" / "config.yaml")
    code, _, err = call(capsys, "--config", written, f"output={folder / 'again'}")
    assert (code, err) == (0, "")
    first, second = metrics(folder / "out"), metrics(folder / "again")
    assert first.keys() == second.keys()
    for part in ("validation", "test"):
        assert first[part] == pytest.approx(second[part], abs=1e-6)
    assert first["validation_loss"] == pytest.approx(second["validation_loss"], abs=1e-6)


def test_a_run_that_is_given_again_changes_nothing(folder: Path) -> None:
    restless = ("trainer.patience=1", "trainer.max_epochs=12", "trainer.learning_rate=0.3")
    results = [run(settings(folder, "seed=1", *restless)) for _ in range(3)]
    assert len(results[0].epochs) < 12  # stopped early
    for again in results[1:]:
        assert again.epochs == results[0].epochs
        assert again.to_dict() == results[0].to_dict()
        assert again.model.origin == results[0].model.origin


def test_a_run_tunes_the_weights_of_another_model(folder: Path) -> None:
    first = settings(folder)
    model = run(first).model
    again = ("trainer.learning_rate=1e-9", f"start={first.model_file}", f"output={folder / 'tuned'}")
    tuned = run(settings(folder, *again)).model
    assert tuned.origin["start"] == model.digest()
    for name, weights in tuned.network.state_dict().items():
        np.testing.assert_allclose(weights, model.network.state_dict()[name], atol=1e-6)
    with pytest.raises(InputError, match=r"model\.width=12, but the model that training starts from has 8"):
        run(settings(folder, *again, "model.width=12", f"output={folder / 'wide'}"))


def test_a_run_goes_on_after_an_interrupt_and_a_kill(folder: Path) -> None:
    changes = overrides(folder, "split=graph", "trainer.max_epochs=40", "trainer.patience=99")
    output = folder / "out"
    interrupted = _stop_after(changes, output / "epochs.csv", 3, signal.SIGINT)
    assert interrupted.returncode == 130
    assert interrupted.stderr == ("the same command goes on after the last finished epoch\ninterrupted\n")
    assert _stop_after(changes, output / "epochs.csv", 8, signal.SIGKILL).returncode == -9
    assert not (output / "metrics.json").exists()
    config = to_dataclass(RunConfig, compose_config("train", changes))
    went_on = run(config)
    whole = run(settings(folder, *changes, f"output={folder / 'whole'}"))
    assert went_on.epochs == whole.epochs
    assert went_on.to_dict() == whole.to_dict()


def _stop_after(
    arguments: list[str], epochs: Path, number: int, stop: signal.Signals
) -> subprocess.CompletedProcess[str]:
    """Run the command, and send it a signal after some epochs."""
    command = [sys.executable, "-m", "costmodel.train", *arguments]
    process = subprocess.Popen(command, cwd=CONF_DIR.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None:
        if epochs.exists() and len(epochs.read_text(encoding="utf-8").splitlines()) > number:
            process.send_signal(stop)
            break
        time.sleep(0.01)
    return subprocess.CompletedProcess(command, process.wait(), *process.communicate())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["trainer.threads=0"], "trainer.threads=0 is out of range; allowed: 1 or more"),
        (["trainer.weight_decay=-1"], "trainer.weight_decay=-1.0 is out of range"),
        (["trainer.accelerator=foo"], "trainer.accelerator"),
        (["seed=-1"], "seed=-1 is out of range; allowed: 0 or more"),
        (["model=floe"], "unknown choice model=floe; did you mean 'flow'?"),
        (["model.kind=cnn"], "unknown network 'cnn'; known: flow, guha"),
        (["model.width=2"], "model.width=2; allowed 4 to 512"),
        (["split=graph", "fold=2"], "graph split: no fold 2; there are 2, from 0 on"),
        (["data=nowhere"], "dataset nowhere/netlists.parquet: there is no such file"),
        (["trainer.max_epochs=0"], "trainer.max_epochs=0 is out of range; allowed: 1 or more"),
        (["split=shape"], "split='shape' is no choice; allowed: all, family, graph, random"),
    ],
)
def test_wrong_settings_give_one_line_and_code_2(
    folder: Path, capsys: pytest.CaptureFixture[str], changes: list[str], message: str
) -> None:
    code, out, err = call(capsys, *overrides(folder, *changes))
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1
    assert not (folder / "out").exists()


def test_an_output_that_is_a_file_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "out").write_text("mine")
    code, _, err = call(capsys, *overrides(folder))
    assert code == 2
    assert "out is a file" in err


def test_checkpoints_of_another_run_are_refused_and_kept(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(settings(folder, "trainer.max_epochs=1"))
    kept = (folder / "out" / "metrics.json").read_bytes()
    for changes in (["trainer.max_epochs=1", "seed=9"], ["trainer.max_epochs=3"]):
        code, _, err = call(capsys, *overrides(folder, *changes))
        assert code == 2
        assert "holds checkpoints of a run with other data, settings or seed" in err
    monkeypatch.setattr(labelled, "FABRIC_FEATURES", replace(FABRIC_FEATURES, version=99))
    code, _, err = call(capsys, *overrides(folder, "trainer.max_epochs=1"))
    assert code == 2
    assert "holds checkpoints of a run with other data, settings or seed" in err
    assert (folder / "out" / "metrics.json").read_bytes() == kept


def test_the_command_teaches_a_student(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = overrides(folder, "student.steps=2", "student.neighbours=3", "student.moves=3")
    code, out, _ = call(capsys, *arguments, f"output={tmp_path / 'out'}")
    assert code == 0 and "the student orders neighbours" in out
    student = Model.load(tmp_path / "out" / "flow.pt").student
    assert student is not None and student.config.rounds == 1
