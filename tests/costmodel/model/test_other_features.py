"""A model of a fabric meets mappings to a wafer, or the other way round: one message everywhere."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from costmodel.adapt import main as adapt
from costmodel.inference import LearnedCost
from costmodel.model import Labelled, Model, Selection
from costmodel.training import LossConfig, TrainConfig, fit
from costmodel.wafer import WAFER_FEATURES, LearnedMappingCost
from placer.base import InputError
from placer.base.config import run_command
from tests.costmodel.cases import labelled
from tests.costmodel.inference.test_learned import SMALL, model_for
from tests.costmodel.training.tiny import TRAINER
from tests.costmodel.wafer.test_encode import model_of

NO_FABRIC = "the model was trained on mappings to a wafer, not on decisions on a fabric; "
NO_WAFER = "the model was trained on decisions on a fabric, not on mappings to a wafer; "


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Labelled:
    return labelled(tmp_path_factory.mktemp("data"), num_netlists=4, num_decisions=2)


@pytest.mark.parametrize("is_wafer", [False, True])
def test_predicting_and_tuning_refuse_a_dataset_of_the_other_kind(
    is_wafer: bool, data: Labelled, tmp_path: Path
) -> None:
    model = model_for(SMALL) if is_wafer else model_of()
    some = replace(data, features=WAFER_FEATURES) if is_wafer else data
    given, message = Selection(some, np.arange(len(some))), NO_WAFER if is_wafer else NO_FABRIC
    with pytest.raises(InputError, match=message):
        model.predict(given)
    learning = TrainConfig(model.config, LossConfig(), TRAINER)
    with pytest.raises(InputError, match=message):
        fit(given, learning, 0, tmp_path / "new", start=model)
    assert not (tmp_path / "new").exists()


def test_costs_of_placers_and_mappers_refuse_models_of_the_other_kind(tmp_path: Path) -> None:
    wafer, path = model_of(), tmp_path / "wafer.pt"
    wafer.save(path)
    with pytest.raises(InputError, match=NO_FABRIC):
        LearnedCost(SMALL, model_for(SMALL), wafer)
    with pytest.raises(InputError, match=NO_FABRIC):
        LearnedCost.load(path)
    with pytest.raises(InputError, match=NO_WAFER):
        LearnedMappingCost(model_for(SMALL))


def test_a_model_that_was_sent_to_another_process_is_still_of_its_kind() -> None:
    sent: Model = pickle.loads(pickle.dumps(model_of()))
    assert sent.digest() == model_of().digest()
    assert LearnedMappingCost(sent) is not None  # not refused


def test_adapting_ends_with_one_line(data: Labelled, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model_of().save(tmp_path / "wafer.pt")
    places = [f"data={data.folder}", f"cache={tmp_path / 'cache'}", f"output={tmp_path / 'out'}"]
    with pytest.raises(SystemExit) as stop:
        run_command(adapt, "adapt", [f"model_file={tmp_path / 'wafer.pt'}", *places])
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {NO_FABRIC}")
    assert len(error.splitlines()) == 1
