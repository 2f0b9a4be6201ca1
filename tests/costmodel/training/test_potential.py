"""A model learns what a good placement of a netlist reaches, from netlists alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from costmodel.dataset import SplitKind, make_splits, write_splits
from costmodel.inference import LearnedCost
from costmodel.model import Model, open_potentials
from costmodel.potentials import main
from costmodel.training import run
from placer.base import InputError
from placer.base.config import compose_config
from tests.costmodel.dataset.samples import small_fabric, write_dataset
from tests.costmodel.training.tiny import NETLISTS, metadata, settings, tiny_samples

pytestmark = pytest.mark.slow
POTENTIAL = ("potential.max_epochs=2", "potential.width=8", "potential.lane_width=8", "potential.rounds=1")


KNOWN = (*np.linspace(0.2, 0.9, NETLISTS - 1).tolist(), 0.0)  # all netlists but the last have a potential


def write_with_potentials(folder: Path, values: Sequence[float] = KNOWN) -> None:
    samples = [replace(tiny_samples(i), potential=value) for i, value in enumerate(values)]
    dataset = write_dataset(folder / "data", samples, metadata())
    write_splits(folder / "data", make_splits(dataset, num_folds=2))


def test_netlists_are_decisions_with_their_potential_as_the_label(tmp_path: Path) -> None:
    write_with_potentials(tmp_path)
    found = open_potentials(tmp_path / "data", tmp_path / "cache")
    assert found is not None
    assert found.ids.tolist() == list(range(NETLISTS - 1))
    assert found.throughput[0] == pytest.approx(0.2)
    assert np.exp(found.data.graphs.log_throughput[3]) == pytest.approx(found.throughput[3])
    assert np.isnan(found.data.graphs.log_throughput[-1])
    fold = found.data.splits.fold(SplitKind.GRAPH, 0)
    assert sorted([*fold.train, *fold.test]) == list(range(NETLISTS))


def test_a_run_teaches_it_and_the_file_keeps_it(tmp_path: Path) -> None:
    write_with_potentials(tmp_path)
    config = settings(tmp_path, *POTENTIAL)
    made = run(config).model
    assert made.origin["potential"]["num_netlists"] == NETLISTS - 1
    again = Model.load(config.model_file)
    assert again.potential is not None
    assert again.digest() == made.digest() != replace(made, potential=None).digest()
    netlists = [tiny_samples(i).netlist for i in range(3)]
    costs = [LearnedCost(small_fabric(), model) for model in (made, again)]
    said = [cost.potential(netlists) for cost in costs]
    np.testing.assert_array_equal(*said)
    assert ((said[0] > 0) & (said[0] <= 1)).all()
    sigma = costs[0].potential_with_uncertainty(netlists).log_sigma
    assert sigma is not None
    assert np.isfinite(sigma).all()


def test_the_command_teaches_a_trained_model_and_changes_nothing_else_of_it(tmp_path: Path) -> None:
    write_with_potentials(tmp_path)
    config = settings(tmp_path, *POTENTIAL)
    before = run(config).model
    common = [
        f"model_file={config.model_file}", f"data={config.data}", f"cache={config.cache}",
        *POTENTIAL, "potential.learning_rate=1e-9",
    ]  # fmt: skip
    for fresh in ("true", "false"):
        main(compose_config("potentials", [*common, f"fresh={fresh}", f"output={tmp_path / fresh}"]))
    fresh, tuned = (Model.load(tmp_path / name / "flow.pt") for name in ("true", "false"))
    assert replace(tuned, potential=None).digest() == replace(before, potential=None).digest()
    assert before.potential is not None and tuned.potential is not None and fresh.potential is not None
    known, kept, other = (m.potential.network.state_dict()["readout.mean.weight"] for m in (before, tuned, fresh))
    np.testing.assert_allclose(kept, known, atol=1e-5)
    assert not np.allclose(other, known, atol=1e-5)


def test_without_a_pool_it_is_left_out_and_not_guessed(tmp_path: Path) -> None:
    write_with_potentials(tmp_path, [0.0] * NETLISTS)
    config = settings(tmp_path, *POTENTIAL)
    model = run(config).model
    assert model.potential is None
    with pytest.raises(InputError, match="has no potentials"):
        places = [f"data={config.data}", f"cache={config.cache}", f"output={tmp_path / 'taught'}"]
        main(compose_config("potentials", [f"model_file={config.model_file}", *places]))
    with pytest.raises(InputError, match="knows decisions only"):
        LearnedCost(small_fabric(), model).potential([tiny_samples(0).netlist])
