"""Training against a real MLflow server on this machine: SQLite behind it, files in a folder."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np
import pytest

from costmodel.dataset import Dataset
from costmodel.inference import LearnedCost
from costmodel.model import Model
from costmodel.training import run
from placer.base.tracking import mlflow_run as tracking
from tests.costmodel.training.tiny import settings

START_SECONDS = 240

# MLflow and what it imports warn of themselves.
pytestmark = [
    pytest.mark.server,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:::mlflow"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


class Server:
    """An MLflow server in a process group of its own."""

    def __init__(self, folder: Path, port: int = 0) -> None:
        if not port:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
        self.port = port
        self.uri = f"http://127.0.0.1:{port}"
        command = [
            sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port),
            "--workers", "1", "--backend-store-uri", f"sqlite:///{folder / 'server.db'}",
            "--artifacts-destination", str(folder / "artifacts"),
        ]  # fmt: skip
        environment = os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true"}
        self.artifacts, self._log = folder / "artifacts", folder / "server.log"
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=folder, env=environment, start_new_session=True
            )

    def wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.uri}/health", timeout=5):
                    return
            except (URLError, OSError):
                time.sleep(0.2)
        raise RuntimeError(f"the server did not start:\n{self._log.read_text()}")

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Takes long to start: one for all tests, the last of which kills it."""
    started = Server(tmp_path_factory.mktemp("server"))
    try:
        started.wait()
        yield started
    finally:
        started.kill()


def test_everything_arrives_and_the_model_comes_back(folder: Path, server: Server) -> None:
    import mlflow

    nowhere = folder / "artifacts"
    config = settings(folder, f"tracking.uri={server.uri}", f"tracking.artifacts={nowhere}", "split=graph")
    result = run(config)
    client = mlflow.MlflowClient(server.uri)
    (found,) = client.search_runs([client.get_experiment_by_name("costmodel").experiment_id])
    assert found.info.status == "FINISHED"
    assert found.data.params["model.width"] == "8"
    assert found.data.params["seed"] == "0"
    assert found.data.metrics["test_spearman"] == pytest.approx(result.test.overall.spearman)
    history = client.get_metric_history(found.info.run_id, "val_loss")
    assert [point.step for point in history] == [row["epoch"] for row in result.epochs]
    names = {item.path for item in client.list_artifacts(found.info.run_id)}
    assert names >= {"flow.pt", "best.ckpt", "config.yaml", "loss.png", "predictions.png"}
    assert not nowhere.exists()  # the server has the files
    assert list(server.artifacts.rglob("flow.pt"))

    samples = Dataset.open(config.data).samples(0)
    direct = LearnedCost.load(config.model_file).score(samples.netlist, samples.decisions)
    logged = client.search_logged_models([found.info.experiment_id])[0]
    for uri in (f"models:/{logged.model_id}", f"runs:/{found.info.run_id}/flow.pt"):
        cost = LearnedCost.load(uri, tracking=server.uri)
        np.testing.assert_array_equal(cost.score(samples.netlist, samples.decisions), direct)


def test_a_server_that_is_killed_costs_no_training(
    folder: Path, server: Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_module = import_module("costmodel.training.run")  # the room offers a function of this name
    fit = run_module.fit

    def kill_and_fit(*args: Any, **kwargs: Any) -> Model:
        server.kill()
        return fit(*args, **kwargs)

    config = settings(folder, f"tracking.uri={server.uri}")
    monkeypatch.setattr(run_module, "fit", kill_and_fit)
    with caplog.at_level(logging.WARNING, logger=tracking.__name__):
        result = run(config)
    messages = [record.message for record in caplog.records if record.name == tracking.__name__]
    assert len(messages) == 1
    assert messages[0].startswith("tracking ends here, the work goes on: ")
    assert Model.load(config.model_file).digest() == result.model.digest()
    assert (config.output / "checkpoints" / "last.ckpt").exists()
