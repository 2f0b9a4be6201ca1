"""Settings for the tests of the instruction mapper."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """The networks are small: more threads only wait for each other."""
    torch.set_num_threads(1)
