"""Models are found in files and in MLflow, or it is told why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from costmodel.model import open_model
from placer.base import InputError
from placer.fabric import load_fabric
from tests.costmodel.inference.test_learned import model_for


def test_a_file(tmp_path: Path) -> None:
    model = model_for(load_fabric("small"))
    model.save(tmp_path / "flow.pt")
    assert open_model(tmp_path / "flow.pt").digest() == model.digest()
    with pytest.raises(InputError, match=r"no model .*other\.pt; make one with `make model`"):
        open_model(tmp_path / "other.pt")


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    with pytest.raises(InputError, match=r"model models:/m-1: there is no database .*mlflow\.db"):
        open_model("models:/m-1", f"sqlite:///{database}")
    assert not database.exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:::mlflow")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("uri", ["models:/m-1", "runs:/1/flow.pt"])
def test_a_server_that_does_not_answer(uri: str) -> None:
    with pytest.raises(InputError, match=rf"cannot get model {uri} from MLflow at http://127"):
        open_model(uri, "http://127.0.0.1:9")
