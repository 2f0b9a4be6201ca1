"""Several processes train as one: the same model but for rounding, also after one was lost."""

from __future__ import annotations

import multiprocessing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lightning import Callback

from costmodel.encoding import make_batch
from costmodel.model import Labelled, Model, Selection
from costmodel.train import main
from costmodel.training import LossConfig, TrainConfig, fit, processes
from costmodel.training.losses import RankLoss, losses, term_counts
from costmodel.training.processes import Place
from placer.base.config import run_command
from placer.base.workers import WorkerCrashError
from tests.costmodel.cases import network_of
from tests.costmodel.training.tiny import FLOW, TRAINER, overrides

CONFIG = TrainConfig(network=FLOW, trainer=replace(TRAINER, graphs_per_batch=3))


class Watch(Callback):
    """Losses of every epoch, and which processes there were."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.children = 0

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self.losses.append(float(trainer.callback_metrics["train_loss"]))
        self.losses.append(float(trainer.callback_metrics["val_loss"]))
        self.children = len(multiprocessing.active_children())


class KillPartner(Callback):
    """SIGKILL to the other process in the middle of the second epoch."""

    def on_train_batch_end(self, trainer: Any, *args: Any) -> None:
        if trainer.current_epoch == 1:
            for child in multiprocessing.active_children():
                child.kill()


def assert_close(one: Model, two: Model) -> None:
    weights, others = one.network.state_dict(), two.network.state_dict()
    for name in weights:
        torch.testing.assert_close(weights[name], others[name], rtol=1e-3, atol=1e-4)
    assert one.sigma_scale == pytest.approx(two.sigma_scale, rel=1e-3)
    assert one.origin == two.origin


@pytest.mark.parametrize("rank_loss", RankLoss)
def test_parts_of_a_batch_make_the_loss_of_the_whole(data: Labelled, rank_loss: RankLoss) -> None:
    """Means weighted by the number of their terms."""
    network, config = (network_of(FLOW, make_batch(data.graphs, np.arange(8))), LossConfig(rank=rank_loss))

    def parts(ids: list[int]) -> tuple[dict[str, float], dict[str, int]]:
        batch = make_batch(data.graphs, np.array(ids))
        with torch.no_grad():
            found = losses(network(batch), batch, config)
        return {name: float(v) for name, v in found.items()}, term_counts(batch, config)

    whole, num_whole = parts([0, 1, 2, 4, 5, 9, 10, 11])
    one, num_one = parts([0, 1, 2, 9, 10, 11])  # netlists 0 and 2
    two, num_two = parts([4, 5])  # netlist 1
    for name, value in whole.items():
        assert num_whole[name] == num_one[name] + num_two[name]
        weighted = one[name] * num_one[name] + two[name] * num_two[name]
        assert weighted / num_whole[name] == pytest.approx(value, rel=1e-5)


@pytest.mark.slow
def test_two_processes_train_like_one_and_go_on_when_one_is_lost(train: Selection, tmp_path: Path) -> None:
    alone, together = Watch(), Watch()
    one = fit(train, CONFIG, 1, tmp_path / "one", callbacks=[alone])
    two = fit(train, CONFIG, 1, tmp_path / "two", callbacks=[together], processes=2)
    assert_close(one, two)
    assert together.losses == pytest.approx(alone.losses, rel=1e-3)
    assert together.children == 1
    assert multiprocessing.active_children() == []
    with pytest.raises(WorkerCrashError, match=r"process 1 of 2 was lost: .*SIGKILL.* goes on"):
        fit(train, CONFIG, 1, tmp_path / "cut", callbacks=[KillPartner()], processes=2)
    assert_close(one, fit(train, CONFIG, 1, tmp_path / "cut", processes=2))


def never(place: Place) -> None:
    raise AssertionError("it was lost before")


def test_a_process_that_is_lost_before_they_meet_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    real = processes._wait_until_ready

    def kill(others: Any, store: Any) -> None:
        others.processes[0].kill()
        real(others, store)

    monkeypatch.setattr(processes, "_wait_until_ready", kill)
    lost = pytest.raises(WorkerCrashError, match=r"process 1 of 2 was lost: ended by SIGKILL;")
    with lost, processes.partners(2, never):
        pytest.fail("there is nobody to train with")


@pytest.mark.slow
def test_the_command_writes_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run_command(main, "train", overrides(folder, "processes=2"))
    out, err = capsys.readouterr()
    assert (stop.value.code, err) == (0, "")
    assert out.count("2 epochs, validation loss") == 1
    assert len((folder / "out/epochs.csv").read_text().splitlines()) == 3
    Model.load(folder / "out/flow.pt")
