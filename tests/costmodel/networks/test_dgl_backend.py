"""DGL works with the pinned torch, and only one module knows it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from costmodel.networks import dgl as load_dgl
from tests import ROOT

dgl = load_dgl()

EDGES = ([0, 1, 2, 2], [2, 2, 0, 3])  # node 1 has no incoming edge


@pytest.fixture
def graph() -> dgl.DGLGraph:
    return dgl.graph((torch.tensor(EDGES[0]), torch.tensor(EDGES[1])), num_nodes=4)


def test_message_passing_sums_the_features_of_the_senders(graph: dgl.DGLGraph) -> None:
    features = torch.arange(8.0).reshape(4, 2)
    graph.ndata["h"] = features
    graph.update_all(dgl.function.copy_u("h", "m"), dgl.function.sum("m", "out"))
    adjacency = torch.zeros(4, 4)
    adjacency[EDGES[1], EDGES[0]] = 1.0
    torch.testing.assert_close(graph.ndata["out"], adjacency @ features)


def test_edge_features_join_the_messages(graph: dgl.DGLGraph) -> None:
    graph.ndata["h"] = torch.tensor([1.0, 2.0, 3.0, 4.0])
    graph.edata["w"] = torch.tensor([10.0, 20.0, 30.0, 40.0])
    graph.update_all(dgl.function.u_mul_e("h", "w", "m"), dgl.function.max("m", "out"))
    torch.testing.assert_close(graph.ndata["out"], torch.tensor([90.0, 0.0, 40.0, 120.0]))


def test_readout_pools_each_graph_of_a_batch(graph: dgl.DGLGraph) -> None:
    other = dgl.graph(([0], [1]), num_nodes=2)
    graph.ndata["h"] = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    other.ndata["h"] = torch.tensor([[-5.0], [7.0]])
    batch = dgl.batch([graph, other])
    expected = {"sum": [10.0, 2.0], "mean": [2.5, 1.0], "max": [4.0, 7.0]}
    for op, values in expected.items():
        pooled = dgl.readout_nodes(batch, "h", op=op)
        torch.testing.assert_close(pooled, torch.tensor(values)[:, None])


def test_gradients_flow_back_along_the_edges(graph: dgl.DGLGraph) -> None:
    features = torch.ones(4, 1, requires_grad=True)
    graph.ndata["h"] = features
    graph.update_all(dgl.function.copy_u("h", "m"), dgl.function.sum("m", "out"))
    weights = torch.tensor([[1.0], [10.0], [100.0], [1000.0]])
    (weights * graph.ndata["out"]).sum().backward()
    # A node's gradient is the weight of everything it sends to.
    torch.testing.assert_close(features.grad, torch.tensor([[100.0], [100.0], [1001.0], [0.0]]))


@pytest.mark.slow
def test_import_is_silent_and_writes_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from costmodel.networks import dgl; dgl()"],
        cwd=ROOT,
        env={"HOME": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_no_other_module_imports_dgl() -> None:
    sources = [p for top in ("placer", "costmodel", "tests") for p in (ROOT / top).rglob("*.py")]
    assert [p.relative_to(ROOT).as_posix() for p in sources if _imports(p, "dgl")] == [
        "costmodel/networks/dgl_backend.py"
    ]


def _imports(path: Path, package: str) -> bool:
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.append(node.module or "")
    return any(name.split(".")[0] == package for name in names)
