"""Training: the same for the same seed, also after a cut; and it learns."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from lightning import Callback, LightningModule, Trainer

from costmodel.encoding import make_batch
from costmodel.model import Labelled, Model, Selection, split_validation
from costmodel.networks import NetworkConfig
from costmodel.networks.guha import GuhaConfig
from costmodel.training import LossConfig, TrainConfig, fit
from costmodel.training.fit import LAST_CHECKPOINT, claim
from costmodel.training.losses import RankLoss, losses
from placer.base import InputError
from tests.costmodel.cases import network_of
from tests.costmodel.training.tiny import FLOW, TRAINER

GUHA = GuhaConfig(width=8, rounds=1, embedding=4)
CONFIG = TrainConfig(network=FLOW, trainer=TRAINER)


@pytest.fixture(scope="module")
def whole_run(train: Selection, tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A run that nothing disturbs."""
    return fit(train, CONFIG, 1, tmp_path_factory.mktemp("whole"))


def assert_same(one: Model, two: Model) -> None:
    assert (one.config, one.sigma_scale, one.origin) == (two.config, two.sigma_scale, two.origin)
    weights, others = one.network.state_dict(), two.network.state_dict()
    assert weights.keys() == others.keys()
    for name in weights:
        assert torch.equal(weights[name], others[name]), name


@pytest.mark.slow
def test_the_seed_decides_everything(whole_run: Model, train: Selection, tmp_path: Path) -> None:
    torch.manual_seed(99)
    np.random.seed(99)  # noqa: NPY002  nobody may read it
    assert_same(whole_run, fit(train, CONFIG, 1, tmp_path / "again"))
    other = fit(train, CONFIG, 2, tmp_path / "other").network.state_dict()
    weights = whole_run.network.state_dict()
    assert any(not torch.equal(weights[name], other[name]) for name in weights)


class CutOff(Callback):
    """Stops a run like a crash, in the middle of an epoch or before its first step."""

    def __init__(self, epoch: int, batch: int) -> None:
        self.epoch, self.batch = epoch, batch

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if (trainer.current_epoch, batch_idx) == (self.epoch, self.batch):
            raise RuntimeError("cut off")


@pytest.mark.slow
@pytest.mark.parametrize(("epoch", "batch"), [(0, 1), (1, 0), (2, 1)])
def test_a_run_that_was_cut_off_goes_on(
    whole_run: Model, train: Selection, tmp_path: Path, epoch: int, batch: int
) -> None:
    with pytest.raises(RuntimeError, match="cut off"):
        fit(train, CONFIG, 1, tmp_path, callbacks=[CutOff(epoch, batch)])
    assert (tmp_path / LAST_CHECKPOINT).exists() == (epoch > 0)
    assert_same(whole_run, fit(train, CONFIG, 1, tmp_path))
    # And once more, with nothing left to do.
    assert_same(whole_run, fit(train, CONFIG, 1, tmp_path))


def test_a_trained_model_says_where_it_comes_from(whole_run: Model, data: Labelled) -> None:
    origin = whole_run.origin
    assert origin["dataset"] == data.content_hash
    assert origin["fabric"]["name"] == "small"
    assert (origin["seed"], origin["epochs"]) == (1, 3)
    assert origin["num_train"] + origin["num_validation"] == len(data)
    assert origin["network"]["kind"] == "flow"
    assert origin["loss"]["rank"] == "pairwise"
    prediction = whole_run.predict(Selection(data, np.arange(len(data))))
    assert ((prediction.throughput > 0) & (prediction.throughput < 1)).all()
    assert 0 < whole_run.sigma_scale < np.inf


@pytest.mark.parametrize("network", [FLOW, replace(FLOW, rounds=0, stalls=False), GUHA])
@pytest.mark.parametrize("rank", RankLoss)
@pytest.mark.slow
def test_every_network_trains_with_every_loss(
    train: Selection, tmp_path: Path, network: NetworkConfig, rank: RankLoss
) -> None:
    config = TrainConfig(network, LossConfig(rank=rank), replace(TRAINER, max_epochs=1))
    model = fit(train, config, 0, tmp_path)
    assert model.config == network
    assert np.isfinite(model.predict(train).throughput).all()


@pytest.mark.parametrize(
    ("config", "seed"),
    [
        (CONFIG, 2),
        (replace(CONFIG, network=GUHA), 1),
        (replace(CONFIG, loss=LossConfig(tau=0.1)), 1),
        (replace(CONFIG, trainer=replace(TRAINER, max_epochs=4)), 1),
    ],
)
def test_a_folder_of_another_run_is_refused(train: Selection, tmp_path: Path, config: TrainConfig, seed: int) -> None:
    with pytest.raises(RuntimeError, match="cut off"):
        fit(train, CONFIG, 1, tmp_path, callbacks=[CutOff(1, 0)])
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(InputError, match=r"checkpoints of a run with other data, settings or seed"):
        fit(train, config, seed, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_as_many_other_decisions_are_another_run(train: Selection, tmp_path: Path) -> None:
    """Else the fold that is tested would have been trained with."""
    first, second = (Selection(train.data, ids) for ids in (train.ids[:-4], train.ids[4:]))
    assert len(first) == len(second)
    claim(first, CONFIG, 1, tmp_path)
    (tmp_path / LAST_CHECKPOINT).touch()
    claim(first, CONFIG, 1, tmp_path)
    with pytest.raises(InputError, match="checkpoints of a run with other data"):
        claim(second, CONFIG, 1, tmp_path)


@pytest.mark.slow
def test_tuning_begins_with_the_weights_of_a_model(train: Selection, whole_run: Model, tmp_path: Path) -> None:
    """Without a step worth mentioning the model stays as it was."""
    still = replace(CONFIG, trainer=replace(TRAINER, max_epochs=1, learning_rate=1e-9))
    tuned = fit(train, still, 1, tmp_path, start=whole_run)
    before, after = whole_run.predict(train), tuned.predict(train)
    np.testing.assert_allclose(before.throughput, after.throughput, rtol=1e-4)
    assert tuned.origin["start"] == whole_run.digest() != tuned.digest()
    with pytest.raises(InputError, match="checkpoints of a run with other data"):
        claim(train, still, 1, tmp_path)  # the same from the beginning is another run


def test_a_damaged_checkpoint_is_refused(train: Selection, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="cut off"):
        fit(train, CONFIG, 1, tmp_path, callbacks=[CutOff(1, 0)])
    last = tmp_path / LAST_CHECKPOINT
    last.write_bytes(last.read_bytes()[:1000])
    with pytest.raises(InputError, match=r"last\.ckpt is no file of tensors, or damaged; remove it to start anew"):
        fit(train, CONFIG, 1, tmp_path)
    assert last.stat().st_size == 1000


@settings(max_examples=30)
@given(st.integers(0, 1000), st.floats(0.01, 0.99), st.sets(st.integers(0, 31), min_size=9))
def test_validation_is_apart_and_keeps_equal_netlists_together(
    data: Labelled, seed: int, share: float, ids: set[int]
) -> None:
    selection = Selection(data, np.array(sorted(ids)))
    learn, validate = split_validation(selection, share, seed)
    assert len(learn) and len(validate)
    assert sorted([*learn.ids, *validate.ids]) == sorted(ids)
    assert not set(data.group[learn.ids]) & set(data.group[validate.ids])
    again = split_validation(selection, share, seed)
    assert again[0].ids.tolist() == learn.ids.tolist()


def test_the_share_of_validation_counts_netlists(train: Selection) -> None:
    # 8 netlists, two of them equal: 7 groups.
    counts = [
        len(np.unique(train.data.group[split_validation(train, share, 0)[1].ids])) for share in (0.01, 0.3, 0.5, 0.99)
    ]
    assert counts == [1, 2, 4, 6]


def test_too_few_netlists_are_refused(data: Labelled, tmp_path: Path) -> None:
    equal = np.flatnonzero(data.netlist >= 6)
    for ids, number in ((equal, 1), (np.arange(3), 1), (np.arange(0), 0)):
        with pytest.raises(InputError, match=rf"{len(ids)} decisions of {number} different"):
            fit(Selection(data, ids), CONFIG, 0, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"max_epochs": 0},
        {"patience": 0},
        {"graphs_per_batch": 0},
        {"decisions_per_graph": 0},
        {"validation_share": 1.0},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
    ],
)
def test_settings_that_make_no_sense_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(changes))}="):
        replace(TRAINER, **changes)


class Diverge(Callback):
    """Weights as after far too large steps."""

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        with torch.no_grad():
            for weights in pl_module.parameters():
                weights.fill_(torch.inf)


def test_training_that_diverges_is_stopped(train: Selection, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"training diverged: .* try a lower"):
        fit(train, CONFIG, 1, tmp_path, callbacks=[Diverge()])


@pytest.mark.parametrize(("network", "share"), [(FLOW, 0.02), (GUHA, 0.15)])
@pytest.mark.slow
def test_a_network_learns_a_few_decisions_by_heart(data: Labelled, network: NetworkConfig, share: float) -> None:
    batch = make_batch(data.graphs, np.arange(16))
    learner = network_of(replace(network, width=16), batch)
    optimiser = torch.optim.AdamW(learner.parameters(), lr=1e-2)
    history = []
    for _ in range(200):
        parts = losses(learner(batch), batch, LossConfig())
        optimiser.zero_grad()
        torch.stack(list(parts.values())).sum().backward()
        optimiser.step()
        history.append(parts["regression"].item())
    assert history[-1] < share * history[0]
