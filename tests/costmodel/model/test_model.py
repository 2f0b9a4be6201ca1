"""The model file: the same predictions again, or a clear refusal."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
import torch

from costmodel.encoding import FEATURE_VERSION, GraphSet
from costmodel.model import Model
from costmodel.model import model as model_module
from costmodel.networks import FlowConfig, FlowNetwork, NetworkConfig, Pooling, build_network
from costmodel.networks.guha import GuhaConfig
from placer.base import InputError
from tests.costmodel.cases import batch_of, graphs_of, network_of, random_stack

FLOW = FlowConfig(width=8, lane_width=8, rounds=1, pooling=Pooling.MAX)
GUHA = GuhaConfig(width=8, rounds=1, embedding=4, edge_embedding=False)


def model_of(config: NetworkConfig) -> Model:
    network = network_of(config, batch_of(random_stack(0)), seed=1)
    return Model(config, network, 1.25, {"seed": 1, "fabric": {"name": "small"}})


@pytest.fixture(scope="module")
def graphs() -> GraphSet:
    return graphs_of(random_stack(seed) for seed in range(3))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    model_of(FLOW).save(tmp_path / "model.pt")
    return tmp_path / "model.pt"


@pytest.mark.parametrize("config", [FLOW, GUHA])
def test_a_model_predicts_the_same_after_a_round_trip(config: NetworkConfig, graphs: GraphSet, tmp_path: Path) -> None:
    model = model_of(config)
    model.save(tmp_path / "model.pt")
    again = Model.load(tmp_path / "model.pt")
    assert (again.config, again.sigma_scale, again.origin) == (config, 1.25, model.origin)
    ids = np.arange(len(graphs))
    one, two = model.predict_graphs(graphs, ids), again.predict_graphs(graphs, ids)
    np.testing.assert_array_equal(one.throughput, two.throughput)
    assert one.log_sigma is not None and two.log_sigma is not None
    np.testing.assert_array_equal(one.log_sigma, two.log_sigma)
    assert ((one.throughput > 0) & (one.throughput < 1)).all()


def test_a_student_is_part_of_the_file_and_of_its_hash(tmp_path: Path) -> None:
    model, small = model_of(FLOW), FlowConfig(width=4, lane_width=4, rounds=1, stalls=False)
    student = network_of(small, batch_of(random_stack(0)), seed=2)
    assert isinstance(student, FlowNetwork)
    taught = replace(model, student=student)
    assert taught.digest() != model.digest()
    taught.save(tmp_path / "model.pt")
    again = Model.load(tmp_path / "model.pt")
    assert again.student is not None and again.student.config == small
    assert again.digest() == taught.digest()
    next(student.parameters()).data[:] = np.inf
    taught.save(tmp_path / "model.pt")
    with pytest.raises(InputError, match="some weights are not finite"):
        Model.load(tmp_path / "model.pt")


def test_a_student_of_another_kind_is_refused(path: Path) -> None:
    document = torch.load(path, weights_only=True)
    guha = model_of(GUHA)
    guha.save(path)
    other = torch.load(path, weights_only=True)
    torch.save(document | {"student": other["network"], "student_weights": other["weights"]}, path)
    with pytest.raises(InputError, match="its student is no `flow` network"):
        Model.load(path)
    torch.save(document | {"student": document["network"]}, path)
    with pytest.raises(InputError, match="is not complete"):
        Model.load(path)


def test_sigma_is_scaled(graphs: GraphSet) -> None:
    model = model_of(FLOW)
    one = model.predict_graphs(graphs, np.arange(3))
    two = replace(model, sigma_scale=2 * model.sigma_scale).predict_graphs(graphs, np.arange(3))
    assert one.log_sigma is not None and two.log_sigma is not None
    np.testing.assert_allclose(np.exp(two.log_sigma - one.log_sigma), 2)
    np.testing.assert_array_equal(one.throughput, two.throughput)


def test_batches_do_not_show(graphs: GraphSet, monkeypatch: pytest.MonkeyPatch) -> None:
    model, ids = model_of(FLOW), np.arange(len(graphs))[::-1].copy()
    whole = model.predict_graphs(graphs, ids).throughput
    monkeypatch.setattr(model_module, "BATCH_SIZE", 4)
    np.testing.assert_allclose(model.predict_graphs(graphs, ids).throughput, whole, rtol=1e-5)
    assert len(model.predict_graphs(graphs, ids[:0]).throughput) == 0


@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.7, 0.999])
def test_a_cut_file_is_refused(path: Path, share: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(InputError, match=r"is no file of tensors, or damaged; train it again"):
        Model.load(path)


def test_a_file_with_one_changed_byte_is_refused(path: Path) -> None:
    with ZipFile(path) as archive:  # the largest entry is a weight
        weight = max(archive.infolist(), key=lambda entry: entry.file_size)
        inside = archive.read(weight)
    content = bytearray(path.read_bytes())
    content[content.index(inside) + len(inside) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"is no file of tensors, or damaged; train it again"):
        Model.load(path)


@pytest.mark.parametrize("content", [b"hello\n", b"{}", b"\x80\x02}q\x00.", bytes(300), b"PK\x03\x04"])
def test_a_foreign_file_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"is no (model|file of tensors)"):
        Model.load(path)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*: No such file"):
        Model.load(tmp_path / "none.pt")
    with pytest.raises(InputError, match=r"cannot read .*: Is a directory"):
        Model.load(tmp_path)


@pytest.mark.parametrize("document", [[1, 2], {"weights": {}}, {"kind": "other"}, torch.zeros(3)])
def test_another_torch_file_is_refused(path: Path, document: object) -> None:
    torch.save(document, path)
    with pytest.raises(InputError, match=r"model .*: is no model of this program"):
        Model.load(path)


def _without_weight(document: dict[str, Any]) -> None:
    document["weights"].pop(next(iter(document["weights"])))


CHANGES: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda d: d.update(schema=99), "version of its schema is 99, this program reads"),
    (lambda d: d.pop("schema"), "version of its schema is None"),
    (
        lambda d: d.update(features=FEATURE_VERSION + 1),
        rf"features is {FEATURE_VERSION + 1}, .* {FEATURE_VERSION} and wafer 1; train it again",
    ),
    (lambda d: d.pop("weights"), "is not complete .*weights"),
    (_without_weight, "is not complete .*Missing key"),
    (lambda d: d.update(weights=3), "is not complete"),
    (lambda d: d.update(network="{}"), "unknown network None"),
    (lambda d: d.update(network="[]"), "is not complete"),
    (lambda d: d.update(network="{"), "is not complete"),
    (lambda d: d.update(sigma_scale="wide"), "is not complete"),
    (lambda d: d.update(sigma_scale=float("nan")), "sigma_scale=nan"),
    (lambda d: d.update(sigma_scale=-1.0), "sigma_scale=-1"),
    (lambda d: d.update(origin="[1]"), "origin="),
    (lambda d: d.update(origin="{}"), "origin="),
]


@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_a_model_of_another_version_or_with_gaps_is_refused(
    path: Path, change: Callable[[dict[str, Any]], object], message: str
) -> None:
    document = torch.load(path, weights_only=True)
    change(document)
    torch.save(document, path)
    with pytest.raises(InputError, match=rf"(?s)model .*model\.pt: .*{message}"):
        Model.load(path)


def test_weights_of_another_size_are_refused(path: Path) -> None:
    document = torch.load(path, weights_only=True)
    document["weights"] = build_network(replace(FLOW, width=12), seed=0).state_dict()
    torch.save(document, path)
    with pytest.raises(InputError, match="is not complete"):
        Model.load(path)


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder),)


@pytest.mark.parametrize("is_archive", [True, False])
def test_code_in_a_file_does_not_run(path: Path, tmp_path: Path, is_archive: bool) -> None:
    document = torch.load(path, weights_only=True)
    document["origin"] = Trap(tmp_path / "sprung")
    if is_archive:
        torch.save(document, path)
    else:
        path.write_bytes(pickle.dumps(document["origin"]))
    with pytest.raises(InputError, match=r"is no file of tensors, or damaged; train it again"):
        Model.load(path)
    assert not (tmp_path / "sprung").exists()


def test_a_failed_save_keeps_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    before = path.read_bytes()
    monkeypatch.setattr("placer.base.files.os.replace", fail)
    with pytest.raises(OSError, match="No space left"):
        model_of(GUHA).save(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_weights_that_are_no_numbers_are_refused(graphs: GraphSet, tmp_path: Path) -> None:
    model = model_of(replace(FLOW, pooling=Pooling.MEAN))
    with torch.no_grad():
        next(model.network.parameters()).fill_(torch.nan)
    with pytest.raises(InputError, match="a prediction that is not finite; train it again"):
        model.predict_graphs(graphs, np.arange(2))
    model.save(tmp_path / "model.pt")
    with pytest.raises(InputError, match="some weights are not finite"):
        Model.load(tmp_path / "model.pt")
