"""Runs in MLflow: what is logged, that the model can be loaded there, and servers that fail."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from costmodel.dataset import Dataset
from costmodel.model import Model, Selection, open_labelled, open_model
from costmodel.train import main
from costmodel.training import run
from placer.base import InputError, git_revision
from placer.base.config import run_command
from placer.base.tracking import TrackingConfig, mlflow_run, open_tracker
from tests.costmodel.dataset.samples import small_fabric
from tests.costmodel.training.tiny import interrupt, overrides, settings

# MLflow and what it imports warn of themselves.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:::mlflow"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def tracked(folder: Path, *more: str) -> tuple[str, ...]:
    database, files = folder / "mlflow.db", folder / "artifacts"
    return (f"tracking.uri=sqlite:///{database}", f"tracking.artifacts={files}", *more)


def test_a_run_logs_everything_and_its_model_predicts(folder: Path) -> None:
    import mlflow

    from costmodel.model.logged_model import example_table, predict_table

    config = settings(folder, *tracked(folder, "split=graph"))
    result = run(config)
    client = mlflow.MlflowClient(config.tracking.uri)
    (found,) = client.search_runs([client.get_experiment_by_name("costmodel").experiment_id])
    data = Dataset.open(config.data)
    assert found.info.status == "FINISHED"
    parameters = found.data.params
    assert parameters["model.width"] == "8"
    assert parameters["dataset_hash"] == data.content_hash
    assert (parameters["seed"], parameters["git_revision"]) == ("0", git_revision())
    assert found.data.metrics["test_spearman"] == pytest.approx(result.test.overall.spearman)
    history = client.get_metric_history(found.info.run_id, "val_loss")
    assert [(point.step, point.value) for point in history] == [
        (row["epoch"], pytest.approx(row["val_loss"])) for row in result.epochs
    ]
    names = {item.path for item in client.list_artifacts(found.info.run_id)}
    assert names >= {"flow.pt", "best.ckpt", "config.yaml", "loss.png", "predictions.png"}

    logged = client.search_logged_models([found.info.experiment_id])[0]
    mlflow.set_tracking_uri(config.tracking.uri)
    served = mlflow.pyfunc.load_model(f"models:/{logged.model_id}")
    assert served.metadata.signature.outputs.input_names() == ["throughput", "sigma"]
    table = example_table(config.data, num_rows=3)
    answer = served.predict(table)
    labelled = open_labelled(config.data, config.cache)
    direct = result.model.predict(Selection(labelled, np.arange(3)))
    np.testing.assert_allclose(answer["throughput"], direct.throughput, rtol=1e-5)
    np.testing.assert_allclose(answer["sigma"], np.exp(direct.log_sigma), rtol=1e-5)
    with pytest.raises(InputError, match="row 0: netlist is no complete JSON"):
        predict_table(result.model, table.assign(netlist="{"))
    other = json.dumps(asdict(replace(small_fabric(), name="other")))
    with pytest.raises(InputError, match="row 0: fabric 'other' is not 'small'"):
        predict_table(result.model, table.assign(fabric=other))

    for uri in (f"models:/{logged.model_id}", f"runs:/{found.info.run_id}/flow.pt"):
        assert open_model(uri, config.tracking.uri).digest() == result.model.digest()
    with pytest.raises(InputError, match="cannot get model models:/m-none from MLflow at sqlite"):
        open_model("models:/m-none", config.tracking.uri)

    run(config)  # goes on with the same run
    assert len(client.search_runs([found.info.experiment_id])) == 1


def test_a_server_that_is_down_stops_the_run_before_it_begins(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run_command(main, "train", overrides(folder, "tracking.uri=http://127.0.0.1:9"))
    error = capsys.readouterr().err
    assert stop.value.code == 2
    assert error.startswith("error: cannot track the run at tracking.uri=http://127.0.0.1:9: ")
    assert error.endswith("switch tracking off with tracking.uri=null\n")
    assert error.count("\n") == 1
    assert not (folder / "out" / "checkpoints" / "last.ckpt").exists()


def test_a_server_that_dies_later_stops_nothing(
    folder: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(client: object, run_id: str, metrics: Sequence[object] = (), params: Sequence[object] = ()) -> None:
        if metrics:
            raise ConnectionError("server is gone")

    import mlflow

    config = settings(folder, *tracked(folder))
    monkeypatch.setattr(mlflow.MlflowClient, "log_batch", fail)
    with caplog.at_level(logging.WARNING, logger=mlflow_run.__name__):
        result = run(config)
    messages = [record.message for record in caplog.records if record.name == mlflow_run.__name__]
    assert messages == ["tracking ends here, the work goes on: server is gone"]
    assert len(result.epochs) == 2
    assert Model.load(config.model_file).origin == result.model.origin
    assert (config.output / "epochs.csv").exists()


def test_parameters_are_flat() -> None:
    assert mlflow_run._flat({"a": {"b": 1, "c": {"d": None}}, "e": "x"}) == {
        "a.b": 1, "a.c.d": None, "e": "x",
    }  # fmt: skip


def test_an_interrupted_run_is_marked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    config = settings(folder, *tracked(folder))
    monkeypatch.setattr(sys.modules[run.__module__], "fit", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(config)
    note = json.loads((config.output / "checkpoints" / "mlflow.json").read_text(encoding="utf-8"))
    client = mlflow.MlflowClient(config.tracking.uri)
    assert client.get_run(note["run_id"]).info.status == "KILLED"


@pytest.mark.parametrize("content", ["", "[1]", '{"run_id": 3}'])
def test_a_damaged_note_begins_a_new_run(content: str, tmp_path: Path) -> None:
    note = tmp_path / "mlflow.json"
    note.write_text(content)
    config = TrackingConfig(f"sqlite:///{tmp_path}/m.db", "e", tmp_path / "files")
    with open_tracker(config, "run", {"a": 1}, note):
        pass
    assert isinstance(json.loads(note.read_text())["run_id"], str)
