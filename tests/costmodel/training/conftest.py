"""One dataset for all tests of training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from costmodel.model import Labelled, Selection
from tests.costmodel.cases import labelled
from tests.costmodel.training.tiny import write_tiny


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Only to be read."""
    folder = tmp_path_factory.mktemp("tiny") / "data"
    write_tiny(folder)
    return folder


@pytest.fixture
def folder(tiny_data: Path, tmp_path: Path) -> Path:
    """With the dataset in `data`."""
    (tmp_path / "data").symlink_to(tiny_data, target_is_directory=True)
    return tmp_path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Labelled:
    return labelled(tmp_path_factory.mktemp("data"), num_netlists=8, num_decisions=4)


@pytest.fixture(scope="module")
def train(data: Labelled) -> Selection:
    return Selection(data, np.arange(len(data)))
