"""The policy: a graph network and attention over all instructions score any number of tiles.

    h       = GNN(static features; messages along and against edges)    once per episode
    q       = W [h_current, state]
    a_j     = softmax_j(q . (K h_j + K' d_j))      d_j: what changes (placed, where, when)
    c       = [h_current, state, sum_j a_j (V h_j + V' d_j)]
    logit_x = MLP(features of tile x, |x - sum_j a_j position_j|, c)    the same for every tile
    value   = MLP(c, max over legal tiles of the hidden layer)    minus the cycles still to lose

Source: "global graph attention" of arXiv 2205.13675, section 3.6, with the faults that
docs/streaming.md lists put right. Files of policies and of training runs hold tensors and plain
values, and are read without running code.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from placer.base import InputError, read_archive, write_atomic
from placer.streaming.game import Features, Observation, static_features
from placer.streaming.model import require_within
from placer.streaming.search import Problem

Rows = list[dict[str, float]]  # metrics of each update of a training run

TRAINED_POLICY = Path(__file__).parent / "policy.pt"  # comes with the project
SCHEMA_VERSION = 2  # 1: tiles had no feature "illegal"
_NOT_AS_EXPECTED = (
    RuntimeError, ValueError, KeyError, TypeError, AttributeError, IndexError, AssertionError,
)  # fmt: skip
_POSITION = 1  # column of the node features with the relative tile
_TILE_POSITION = 8  # column of the tile features with the same
_NEVER = -1e9  # logit of what must not be chosen


@dataclass(frozen=True, slots=True)
class PolicyConfig:
    """Shape of the network."""

    encoder: Literal["mlp", "gnn", "attention"] = "attention"  # each adds to the one before
    width: int = 48  # of node embeddings
    layers: int = 3  # of the graph network
    heads: int = 4  # of the attention
    hidden: int = 64  # of the scoring network

    def __post_init__(self) -> None:
        require_within(self, ("width", 1, 1024), ("layers", 0, 64), ("heads", 1, 64),
                       ("hidden", 2, 1024))  # fmt: skip
        if self.width % self.heads:
            raise InputError(f"policy: heads={self.heads} do not divide width={self.width}")


class Graphs(NamedTuple):
    """Static side of several problems, padded."""

    features: Tensor  # [graphs, nodes, Features.STATIC]
    before: Tensor  # [graphs, nodes, nodes] row n: mean over predecessors of n
    after: Tensor  # [graphs, nodes, nodes] row n: mean over successors of n
    is_node: Tensor  # [graphs, nodes]


class Seen(NamedTuple):
    """Observations as tensors, with the graph that each belongs to."""

    graph: Tensor  # [batch] in rising order
    node: Tensor  # [batch]
    mask: Tensor  # [batch, tiles]
    tiles: Tensor  # [batch, tiles, Features.TILE]
    nodes: Tensor  # [batch, nodes, Features.NODE]
    state: Tensor  # [batch, Features.STATE]


def graphs_of(problems: Sequence[Problem]) -> Graphs:
    size = max(problem.num_nodes for problem in problems)
    features = np.zeros((len(problems), size, Features.STATIC), np.float32)
    before = np.zeros((len(problems), size, size), np.float32)
    is_node = np.zeros((len(problems), size), np.bool_)
    after = np.zeros_like(before)
    for k, problem in enumerate(problems):
        features[k, : problem.num_nodes] = static_features(problem)
        is_node[k, : problem.num_nodes] = True
        for start, end in problem.program.edges:
            before[k, end, start] = after[k, start, end] = 1.0
    for matrix in (before, after):
        matrix /= np.maximum(matrix.sum(axis=2, keepdims=True), 1.0)
    return Graphs(*(torch.from_numpy(a) for a in (features, before, after, is_node)))


def seen_of(graph: np.ndarray, observation: Observation) -> Seen:
    return Seen(torch.from_numpy(graph), *(torch.from_numpy(part) for part in observation))


class Policy(nn.Module):
    """Call `embed` once for a set of graphs, then `forward` for each batch of observations."""

    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        self.config = config
        width, heads, hidden = config.width, config.heads, config.hidden
        self.enter = nn.Linear(Features.STATIC, width)
        layers = 0 if config.encoder == "mlp" else config.layers
        self.messages = nn.ModuleList(nn.Linear(3 * width, width) for _ in range(layers))
        context = width + Features.STATE
        positions = 0
        if config.encoder == "attention":
            self.query = nn.Linear(context, width)
            self.key = nn.Linear(width, width, bias=False)
            self.key_now = nn.Linear(Features.NODE, width, bias=False)
            self.value_of = nn.Linear(width, width, bias=False)
            self.value_now = nn.Linear(Features.NODE, width, bias=False)
            context += width
            positions = heads
        elif config.encoder == "gnn":
            context += width  # mean of all embeddings
        self.context = nn.Linear(context, hidden)
        self.tile = nn.Linear(Features.TILE + positions, hidden, bias=False)
        self.score = nn.Sequential(nn.Linear(hidden, hidden // 2), nn.ReLU(), nn.Linear(hidden // 2, 1))
        self.worth = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.greedy = nn.Linear(Features.TILE, 1, bias=False)
        with torch.no_grad():  # begins close to list scheduling: earlier starts are likelier
            self.greedy.weight.zero_()
            self.greedy.weight[0, 0] = -1.0

    def embed(self, graphs: Graphs) -> Tensor:
        """Return node embeddings [graphs, nodes, width], zero for padding."""
        nodes = torch.relu(self.enter(graphs.features))
        for layer in self.messages:
            inputs = torch.cat([nodes, graphs.before @ nodes, graphs.after @ nodes], dim=2)
            nodes = nodes + torch.relu(layer(inputs))
        return nodes * graphs.is_node[..., None]

    def forward(self, embedded: Tensor, is_node: Tensor, seen: Seen) -> tuple[Tensor, Tensor]:
        """Return logits [batch, tiles], for legal tiles alone, and values [batch] in cycles."""
        size = embedded.shape[1]
        own = embedded.flatten(0, 1).index_select(0, seen.graph * size + seen.node)
        parts = [own, seen.state]
        tiles = seen.tiles
        if self.config.encoder == "attention":
            summary, positions = self._attend(embedded, is_node, seen, torch.cat(parts, dim=1))
            parts.append(summary)
            apart = tiles[..., _TILE_POSITION, None] - positions[:, None, :]
            tiles = torch.cat([tiles, apart.abs()], dim=2)
        elif self.config.encoder == "gnn":
            means = embedded.sum(dim=1) / is_node.sum(dim=1, keepdim=True)
            parts.append(means.index_select(0, seen.graph))
        context = self.context(torch.cat(parts, dim=1))
        hidden = self.tile(tiles) + context[:, None]
        hidden = torch.relu(hidden.masked_fill_(~seen.mask[..., None], 0.0))
        logits = (self.score(hidden) + self.greedy(seen.tiles))[..., 0]
        best = hidden.max(dim=1).values
        value = self.worth(torch.cat([torch.relu(context), best], dim=1))[:, 0]
        return logits.masked_fill(~seen.mask, _NEVER), value

    def _attend(self, embedded: Tensor, is_node: Tensor, seen: Seen, asking: Tensor) -> tuple[Tensor, Tensor]:
        """Return a summary [batch, width] of the instructions, and mean positions [batch, heads].

        What changes enters keys and values linearly, so it is added after the products with the
        embeddings, which are made once per graph; observations of one graph go through them
        together.
        """
        heads = self.config.heads
        batch, num_graphs = len(seen.graph), len(embedded)
        if (seen.graph[1:] < seen.graph[:-1]).any():
            raise ValueError("observations must be sorted by graph")
        counts = torch.bincount(seen.graph, minlength=num_graphs).tolist()
        query = self.query(asking).view(batch, heads, -1)
        per_head = query.shape[2]
        keys = self.key(embedded).unflatten(2, (heads, per_head))  # [graphs, nodes, heads, ...]
        values = self.value_of(embedded).unflatten(2, (heads, per_head))
        weight = self.key_now.weight.view(heads, per_head, Features.NODE)
        asked_now = torch.einsum("bhd,hdf->bhf", query, weight) @ seen.nodes.mT
        shares, summaries = [], []
        for k, (asked, now) in enumerate(zip(torch.split(query, counts), torch.split(asked_now, counts), strict=True)):
            scores = torch.einsum("bhd,nhd->bhn", asked, keys[k]) + now
            scores = (scores / per_head**0.5).masked_fill(~is_node[k], _NEVER)
            shares.append(torch.softmax(scores, dim=2))
            summaries.append(torch.einsum("bhn,nhd->bhd", shares[-1], values[k]))
        now = torch.cat(shares) @ seen.nodes  # [batch, heads, Features.NODE]
        weight = self.value_now.weight.view(heads, per_head, Features.NODE)
        summary = torch.cat(summaries) + torch.einsum("bhf,hdf->bhd", now, weight)
        return summary.flatten(1), now[..., _POSITION]


def save_policy(path: Path, policy: Policy, settings: dict[str, Any]) -> None:
    """Write the weights, and the settings of the run that made them."""
    weights = {name: tensor.half() for name, tensor in policy.state_dict().items()}
    _write(path, settings=settings, weights=weights)


def load_policy(path: Path) -> Policy:
    """Read a policy. Raises InputError when the file is no policy of this version."""
    document = _read(path)
    try:
        policy = Policy(PolicyConfig(**document["settings"]["policy"]))
        policy.load_state_dict({k: v.float() for k, v in document["weights"].items()})
    except _NOT_AS_EXPECTED as error:
        raise InputError(
            f"policy file {path} does not hold a policy of today ({type(error).__name__}); "
            "train one with python -m costmodel.train_mapper"
        ) from error
    return policy.eval()


def save_checkpoint(path: Path, settings: dict[str, Any], rows: Rows, policy: Policy, optimizer: Optimizer) -> None:
    """Write all that a run needs to go on; `rows` are the metrics of the updates so far."""
    weights, state = policy.state_dict(), optimizer.state_dict()
    _write(path, settings=settings, rows=rows, weights=weights, optimizer=state)


def read_checkpoint(path: Path, policy: Policy, optimizer: Optimizer) -> tuple[dict[str, Any], Rows]:
    """Fill policy and optimizer; return the settings of the run and its metrics so far."""
    document = _read(path)
    try:
        policy.load_state_dict(document["weights"])
        optimizer.load_state_dict(document["optimizer"])
        return document["settings"], document["rows"]
    except _NOT_AS_EXPECTED as error:
        raise InputError(f"{path} is of another network; choose another output folder") from error


def _write(path: Path, **document: Any) -> None:
    buffer = io.BytesIO()
    torch.save({"schema": SCHEMA_VERSION, **document}, buffer)
    write_atomic(path, buffer.getvalue())


def _read(path: Path) -> dict[str, Any]:
    try:
        document = read_archive(path, "train it again")
    except InputError as error:
        raise InputError(f"policy file: {error}") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA_VERSION:
        raise InputError(f"policy file {path}: this version reads schema {SCHEMA_VERSION}")
    return document
