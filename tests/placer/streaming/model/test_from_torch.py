"""Programs made from PyTorch functions compute what the functions do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from placer.base import InputError
from placer.streaming.mappers import map_program
from placer.streaming.model import Device, MapOptions, evaluate, load_program, meaning_of, program_of


class Function(torch.nn.Module):
    """What `torch.export` asks for."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self._function(*inputs)


def norm(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.sqrt(x**2 + (1.0 - y) * 0.5 * torch.relu(y)) / (x + 2)


@pytest.mark.slow
def test_functions_become_programs_that_can_be_mapped(tmp_path: Path) -> None:
    given = torch.tensor(1.5), torch.tensor(0.25)
    torch.export.save(torch.export.export(Function(norm), given), tmp_path / "norm.pt2")
    program = load_program(tmp_path / "norm.pt2", is_trusted=True)
    meaning = meaning_of(program)
    inputs = {name: np.asarray(value.item()) for name, value in zip(meaning.made_up, given, strict=True)}
    result = evaluate(meaning, inputs)[program.num_nodes - 1]
    assert result == pytest.approx(norm(*given).item(), rel=1e-6)
    assert map_program(program, Device(), MapOptions("list", time_limit=0.1)).cycles > 0


@pytest.mark.slow
def test_what_no_tile_can_do_is_refused(tmp_path: Path) -> None:
    sums = torch.export.export(Function(lambda x: torch.cumsum(x, 0)), (torch.ones(3),))
    with pytest.raises(InputError, match="no tile can do this"):
        program_of(sums, "sums")
    nothing = torch.export.export(Function(lambda x: x), (torch.ones(3),))
    with pytest.raises(InputError, match="no node"):
        program_of(nothing, "nothing")
    (tmp_path / "no.pt2").write_bytes(b"no")
    for name in ("no.pt2", "missing.pt2"):
        with pytest.raises(InputError, match=f"graph file .*{name}: "):
            load_program(tmp_path / name, is_trusted=True)
