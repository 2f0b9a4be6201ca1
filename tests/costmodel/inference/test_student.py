"""A student learns from its teacher, and a model brings it along."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from costmodel.dataset import Dataset
from costmodel.inference import LearnedCost, add_student
from costmodel.inference.student import draw_neighbours
from costmodel.model import Labelled, Model, Selection
from costmodel.networks import FlowConfig, FlowNetwork
from costmodel.networks.guha import GuhaConfig
from costmodel.training import Neighbours, StudentConfig, ranks, teach
from tests.costmodel.cases import batch_of, labelled, network_of, random_stack

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """With so little work more threads only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


CONFIG = StudentConfig(width=8, lane_width=8, steps=200, neighbours=6, moves=5, learning_rate=1e-2)
TEACHER = FlowConfig(width=12, lane_width=8, rounds=2)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Labelled:
    return labelled(tmp_path_factory.mktemp("student"), num_netlists=5)


@pytest.fixture(scope="module")
def teacher() -> FlowNetwork:
    network = network_of(TEACHER, batch_of(random_stack(0))).eval()
    assert isinstance(network, FlowNetwork)
    return network


@pytest.fixture(scope="module")
def neighbours(data: Labelled, teacher: FlowNetwork) -> Neighbours:
    return draw_neighbours(teacher, Dataset.open(data.folder), np.arange(4), CONFIG, 0)


def model_of(network: FlowNetwork, data: Labelled) -> Model:
    return Model(network.config, network, 1.0, {"fabric": asdict(data.fabric)})


def test_neighbours_come_in_groups_of_one_netlist(neighbours: Neighbours) -> None:
    assert set(neighbours.netlist) == set(range(4))
    groups = neighbours.groups(np.arange(4))
    assert sum(map(len, groups)) == len(neighbours.group) == len(neighbours.graphs)
    for ids in groups:
        assert 2 <= len(ids) <= CONFIG.neighbours
        assert len(set(neighbours.netlist[ids])) == len(set(neighbours.group[ids])) == 1
    assert len(groups) == 4 * CONFIG.walks * CONFIG.stops


def test_a_network_ranks_as_itself(teacher: FlowNetwork, neighbours: Neighbours) -> None:
    np.testing.assert_allclose(ranks(teacher, neighbours, np.arange(4)), 1.0, atol=0.05)


def test_a_student_learns_and_the_same_seed_gives_the_same_one(teacher: FlowNetwork, neighbours: Neighbours) -> None:
    taught, again = (teach(teacher, neighbours, np.arange(4), CONFIG, 3) for _ in range(2))
    for name, weights in taught.state_dict().items():
        assert weights.equal(again.state_dict()[name])
    untaught = teach(teacher, neighbours, np.arange(4), StudentConfig(8, 8, steps=1), 3)
    before, after = (ranks(student, neighbours, np.arange(4)).mean() for student in (untaught, taught))
    assert after > max(before, 0.3)


def test_a_model_gets_a_student_that_its_searches_ask(teacher: FlowNetwork, data: Labelled, tmp_path: Path) -> None:
    train = Selection(data, np.arange(len(data)))
    model = add_student(model_of(teacher, data), train, CONFIG, seed=0)
    assert model.student is not None and model.student.config.width == CONFIG.width
    told = model.origin["student"]
    assert told["judged_by"] == 1 and -1 <= told["worst"] <= told["spearman"] <= 1
    model.save(tmp_path / "model.pt")
    assert LearnedCost.load(tmp_path / "model.pt")._students
    assert not LearnedCost.load(tmp_path / "model.pt", student=False)._students
    assert not LearnedCost(data.fabric, model, model_of(teacher, data))._students  # one has none


def test_models_that_no_search_can_ask_get_none(data: Labelled) -> None:
    config = GuhaConfig(width=8, rounds=1)
    network = network_of(config, batch_of(random_stack(0)))
    model = Model(config, network, 1.0, {"fabric": asdict(data.fabric)})
    train = Selection(data, np.arange(len(data)))
    assert add_student(model, train, CONFIG, seed=0) is model
    assert add_student(model, train, StudentConfig(steps=0), seed=0) is model
