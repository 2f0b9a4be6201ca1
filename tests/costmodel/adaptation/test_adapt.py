"""Adapting: shares of netlists, rows, and the command from an old model to new ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from costmodel.adapt import main
from costmodel.adaptation import AdaptConfig, Adapted
from costmodel.adaptation.adapting import rows_of, some_netlists
from costmodel.inference import LearnedCost
from costmodel.model import Selection
from costmodel.networks import FlowConfig
from costmodel.networks.guha import GuhaConfig
from placer.base import InputError
from placer.base.config import compose_config, run_command, to_dataclass
from tests.costmodel.cases import labelled
from tests.costmodel.inference.test_learned import SMALL, model_for
from tests.costmodel.training.tiny import interrupt


def test_shares_are_whole_netlists_and_grow(tmp_path: Path) -> None:
    data = labelled(tmp_path)
    train = Selection(data, np.arange(len(data)))
    parts = [some_netlists(train, share, seed=3) for share in (0.01, 0.5, 1.0)]
    few, half, whole = (set(part.netlist.tolist()) for part in parts)
    assert len(few) == 2 and few < half < whole == set(data.netlist.tolist())
    for part in parts:
        assert len(part) == np.isin(data.netlist, part.netlist).sum()


def test_rows_tell_the_share_of_the_retrained_model() -> None:
    results = [
        Adapted("old", 0, 0, 0.4, 0.2, 0.5, 0.1, 0.0),
        Adapted("scratch_100", 0, 90, 0.7, 0.1, 0.9, 0.0, 10.0),
        Adapted("scratch_100", 1, 90, 0.9, 0.1, 0.9, 0.0, 20.0),
    ]
    assert rows_of(results) == [
        ["old", "0", "0.400", "50%", "0.200", "0.500", "0.100", "0"],
        ["scratch_100", "90", "0.800 ± 0.141", "100%", "0.100", "0.900", "0.000", "15"],
    ]
    assert rows_of(results[:1])[0][3] == ""


@pytest.mark.slow
def test_the_command_adapts_a_model_of_another_fabric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also after a Ctrl-C in its first training, which leaves what was finished."""
    data, model = labelled(tmp_path), model_for(SMALL)
    model.save(tmp_path / "same.pt")
    other = {**model.origin, "fabric": {**model.origin["fabric"], "name": "other"}}
    replace(model, origin=other).save(tmp_path / "old.pt")
    arguments = [
        f"data={data.folder}", f"cache={tmp_path / 'cache'}", f"output={tmp_path / 'out'}",
        "tuned=[0.3]", "student.steps=1", "scratch=[1.0]", "seeds=[0]", "trainer.max_epochs=1", "trainer.threads=1",
        "scratch_trainer.max_epochs=1", "scratch_trainer.threads=1", "rules=true",
    ]  # fmt: skip
    with monkeypatch.context() as patch, pytest.raises(SystemExit) as stop:
        patch.setattr("costmodel.adaptation.adapting.fit", interrupt)
        run_command(main, "adapt", [f"model_file={tmp_path / 'old.pt'}", *arguments])
    assert (stop.value.code, capsys.readouterr().err) == (130, "interrupted\n")
    assert len((tmp_path / "out" / "adapt.csv").read_text().splitlines()) == 3
    with pytest.raises(SystemExit) as stop:
        run_command(main, "adapt", [f"model_file={tmp_path / 'old.pt'}", *arguments])
    assert stop.value.code == 0
    table = (tmp_path / "out" / "adapt.csv").read_text().splitlines()
    names = ["model", "calibrated", "old", "tuned_30", "scratch_100"]
    assert [line.split(",")[0] for line in table] == names
    for name in names[2:]:
        cost = LearnedCost.load(tmp_path / "out" / f"{name}.pt")
        assert cost.fabric == SMALL
        network = cost.models[0].config
        assert isinstance(network, FlowConfig) and network.rules == (name != "old")
    assert (tmp_path / "out" / "adapt.png").stat().st_size > 1000
    assert 'src="data:image/png' in (tmp_path / "out" / "adapt.html").read_text(encoding="utf-8")
    with pytest.raises(SystemExit) as stop:
        run_command(main, "adapt", [f"model_file={tmp_path / 'same.pt'}", *arguments])
    assert stop.value.code == 2
    assert "give a dataset of another one" in capsys.readouterr().err


def test_rules_are_for_flow_networks(tmp_path: Path) -> None:
    config = compose_config("adapt", [f"model_file={tmp_path / 'guha.pt'}", "rules=true"])
    model = model_for(SMALL, config=GuhaConfig(width=8, rounds=1))
    with pytest.raises(InputError, match=r"rules=True: .*guha\.pt is no `flow` network"):
        to_dataclass(AdaptConfig, config).network(model)
