"""Programs made from PyTorch functions compute what the functions do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from placer.errors import InputError
from placer.streaming.device import Device
from placer.streaming.from_torch import program_of
from placer.streaming.mappers import map_program
from placer.streaming.options import MapOptions
from placer.streaming.values import evaluate, meaning_of


@pytest.mark.slow
def test_functions_become_programs_that_can_be_mapped() -> None:
    def norm(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.sqrt(x**2 + (1.0 - y) * 0.5 * torch.relu(y)) / (x + 2)

    given = torch.tensor(1.5), torch.tensor(0.25)
    program = program_of(norm, given, "norm")
    inputs = {
        name: np.asarray(value.item())
        for name, value in zip(meaning_of(program).made_up, given, strict=True)
    }
    assert evaluate(meaning_of(program), inputs)[program.num_nodes - 1] == pytest.approx(
        norm(*given).item(), rel=1e-6
    )
    assert map_program(program, Device(), MapOptions("list", time_limit=0.1)).cycles > 0
    with pytest.raises(InputError, match="no tile can do this"):
        program_of(lambda x: torch.cumsum(x, 0), (torch.ones(3),), "sums")
