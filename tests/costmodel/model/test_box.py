"""The model in the box: it is there, whole, and a changed byte is noticed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from costmodel.inference import LearnedCost
from costmodel.model import SHIPPED, Model, open_model, put_into_box, shipped_file
from costmodel.ship import main
from placer.base import InputError
from placer.base.config import run_command
from placer.fabric import load_fabric
from tests.costmodel.cases import random_stack
from tests.costmodel.inference.test_learned import SMALL, model_for


def test_what_was_put_there_is_found(tmp_path: Path) -> None:
    put_into_box(b"weights", tmp_path)
    assert shipped_file(tmp_path).read_bytes() == b"weights"
    put_into_box(b"others", tmp_path)
    assert shipped_file(tmp_path).read_bytes() == b"others"


@pytest.mark.parametrize("damage", ["changed", "cut", "gone", "no index", "another kind"])
def test_a_damaged_box_is_refused(tmp_path: Path, damage: str) -> None:
    put_into_box(b"weights", tmp_path)
    model, index = shipped_file(tmp_path), tmp_path / "shipped.json"
    match damage:
        case "changed":
            model.write_bytes(b"weightz")
        case "cut":
            model.write_bytes(b"weig")
        case "gone":
            model.unlink()
        case "no index":
            index.unlink()
        case "another kind":
            index.write_text(json.dumps({"kind": "else", "schema": 1}))
    with pytest.raises(InputError, match=r"the model in the box.*install the package again"):
        shipped_file(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["small", "large", "plasticine"])
def test_the_model_in_the_box_knows_every_fabric(name: str) -> None:
    """Scores, potentials and their uncertainty, with no training."""
    fabric = load_fabric(name, ["link.hop_cycles=3"])
    _, netlist, decisions = random_stack(3, fabric)
    cost = LearnedCost.load(fabric=fabric)
    for said in (cost.score(netlist, decisions), cost.potential([netlist])):
        assert ((said > 0) & (said <= 1)).all()
    sigma = cost.predict_with_uncertainty(netlist, decisions).log_sigma
    assert sigma is not None
    assert np.isfinite(sigma).all()


def test_the_model_in_the_box_is_small_and_has_a_student() -> None:
    assert shipped_file().stat().st_size < 1_500_000
    model = open_model(SHIPPED)
    assert model.student is not None
    assert model.potential is not None
    assert model.origin["fabric"]["count"] > 100


def test_only_models_of_many_fabrics_are_shipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = shipped_file().read_bytes()
    model_for(SMALL).save(tmp_path / "flow.pt")
    for path, message in ((tmp_path / "flow.pt", "trained on one fabric"), (tmp_path / "none.pt", "no model")):
        with pytest.raises(SystemExit) as ending:
            run_command(main, "ship", [f"model_file={path}"])
        assert ending.value.code == 2
        assert message in capsys.readouterr().err
    assert shipped_file().read_bytes() == before


def test_the_network_for_netlists_alone_may_be_that_of_another_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    boxed = open_model(SHIPPED)
    replace(boxed, potential=None).save(tmp_path / "bare.pt")
    monkeypatch.setattr("costmodel.ship.put_into_box", (tmp_path / "box.pt").write_bytes)
    with pytest.raises(SystemExit) as ending:
        run_command(main, "ship", [f"model_file={tmp_path / 'bare.pt'}", "potential_of=shipped"])
    assert ending.value.code == 0
    assert Model.load(tmp_path / "box.pt").digest() == boxed.digest()
    with pytest.raises(SystemExit):
        run_command(main, "ship", [f"model_file={shipped_file()}", f"potential_of={tmp_path / 'bare.pt'}"])
    assert "has no network for netlists alone" in capsys.readouterr().err
