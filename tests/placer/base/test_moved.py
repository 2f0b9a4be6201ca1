"""Old names of modules still give what the rooms offer."""

from __future__ import annotations

from contextlib import nullcontext
from importlib import import_module

import pytest

from placer.base.moved import MOVED

# What README and docs imported before there were rooms, and settings named as targets.
TOLD = {
    "costmodel.calibration": ("CalibratedChoice",),
    "costmodel.dataset.loader": ("Dataset",),
    "costmodel.dataset.splits": ("SplitKind", "read_splits"),
    "costmodel.learned": ("LearnedChoice", "LearnedCost"),
    "costmodel.model": ("Model",),
    "placer.annealing": ("AnnealOptions", "Schedule"),
    "placer.annealing.constraints": ("allowed_sites",),
    "placer.annealing.multistart": ("search_starts",),
    "placer.annealing.problem": ("StartKind",),
    "placer.config": ("compose_config", "load_fabric"),
    "placer.cost_choice": ("HeuristicChoice", "RandomChoice", "SimulatorChoice"),
    "placer.graph_file": ("to_json",),
    "placer.html.page": ("Page", "Section", "Table", "picture_of"),
    "placer.importing": ("NetworkChoice", "import_network"),
    "placer.lowering": ("lower", "lower_sections"),
    "placer.placement": ("random_sites",),
    "placer.routing": ("RoutingMethod", "route"),
    "placer.simulation": ("simulate",),
    "placer.workloads": ("GraphBuilder", "MhaSpec", "build", "with_backward"),
}


@pytest.mark.parametrize("module", TOLD)
def test_names_that_were_told_of_still_work(module: str) -> None:
    with pytest.warns(DeprecationWarning) if module in MOVED else nullcontext():
        for name in TOLD[module]:
            assert getattr(import_module(module), name) is not None


@pytest.mark.parametrize("module", MOVED)
def test_a_name_that_never_was_is_not_there(module: str) -> None:
    with pytest.raises(AttributeError, match=f"{module}.* has no attribute 'nothing'"):
        _ = import_module(module).nothing
