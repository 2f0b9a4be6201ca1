"""`guha`: the published network (Algorithm 1 of the learned cost model for PnR), as an anchor."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from costmodel.encoding import MAX_STAGE, OPS, Batch
from costmodel.networks.dgl_backend import dgl
from costmodel.networks.output import Output, Readout
from costmodel.networks.relations import mean, relation
from placer.base import InputError
from placer.fabric import SiteKind

NUM_TYPES = len(SiteKind) + 1  # the last: switches
EDGE_FEATURES = 3  # is it between switches, flows that use it (log), mean length of their routes
SWITCH_OP, SWITCH_STAGE = len(OPS), MAX_STAGE + 1


@dataclass(frozen=True, slots=True)
class GuhaConfig:
    """Size of the network, and the parts whose worth the paper measured."""

    width: int = 64
    rounds: int = 3
    embedding: int = 16  # width of the learned embeddings of operation and stage, each
    node_embedding: bool = True
    edge_embedding: bool = True

    def __post_init__(self) -> None:
        for name, least, most in (("width", 4, 512), ("rounds", 1, 16), ("embedding", 1, 256)):
            if not least <= getattr(self, name) <= most:
                raise InputError(f"model.{name}={getattr(self, name)}; allowed {least} to {most}")


class Fusion(nn.Module):
    """One layer of Algorithm 1: s_v and h_v of `GuhaNetwork`.

    In: h [num_nodes, num_inputs], means of x_e [num_nodes, EDGE_FEATURES]. Out: [num_nodes, width].
    """

    def __init__(self, num_inputs: int, width: int) -> None:
        super().__init__()
        self.edge = nn.Linear(EDGE_FEATURES + num_inputs, width)
        self.node = nn.Linear(num_inputs + width, width)

    def forward(self, h: Tensor, incident: Tensor, neighbours: object) -> Tensor:
        near = torch.cat((incident, mean(neighbours, h)), dim=1)
        result: Tensor = self.node(torch.cat((h, torch.relu(self.edge(near))), dim=1))
        return result


class GuhaNetwork(nn.Module):
    """Predicts log(throughput) of decisions from the units, switches and links that they use.

    Nodes are the used units and switches, edges the used links. With x_v = [type, operation, stage]
    (one-hot, learned, learned) and fixed edge features x_e,

        h_v^0 = x_v
        s_v^k = max(0, W_E^k [mean of x_e over edges of v, mean of h_u^(k-1) over its neighbours])
        h_v^k = W_V^k [h_v^(k-1), s_v^k],                                        k = 1 .. K
        h_G   = mean of h_v^K over all nodes

    and a 3-layer MLP with ReLU gives the throughput. The paper names MAX as the pooling after W_E
    without saying over what; after both means only one vector is left, so it is read as the
    rectifier. In: a `Batch`. Out: `Output` with [num_decisions] predictions, and no stalls.
    """

    def __init__(self, config: GuhaConfig) -> None:
        super().__init__()
        self.config = config
        self.op = nn.Embedding(len(OPS) + 1, config.embedding)
        self.stage = nn.Embedding(MAX_STAGE + 2, config.embedding)
        widths = [NUM_TYPES + 2 * config.embedding] + [config.width] * config.rounds
        self.layers = nn.ModuleList(Fusion(a, config.width) for a in widths[:-1])
        self.readout = Readout(config.width, config.width)

    def forward(self, batch: Batch) -> Output:
        neighbours, edges_at, edge_rows = self._graph(batch)
        incident = mean(edges_at, edge_rows)
        h = self._nodes(batch)
        for layer in self.layers:
            h = layer(h, incident, neighbours)
        unit, switch = h[: len(batch.unit)], h[len(batch.unit) :]
        sums = dgl().ops.segment_reduce(batch.num_units, unit, "sum")
        sums = sums + dgl().ops.segment_reduce(batch.num_switches, switch, "sum")
        pooled = sums / (batch.num_units + batch.num_switches)[:, None]
        log_throughput, log_sigma, _ = self.readout(pooled)
        return Output(log_throughput, log_sigma, None)

    def _nodes(self, batch: Batch) -> Tensor:
        """Return x_v of all units, then of all switches."""
        num_switches = int(batch.num_switches.sum())
        kinds = batch.unit[:, : len(SiteKind)]  # the first facts of a unit
        types = torch.zeros(len(kinds) + num_switches, NUM_TYPES, device=kinds.device)
        types[: len(kinds), : len(SiteKind)] = kinds
        types[len(kinds) :, -1] = 1
        op = nn.functional.pad(batch.unit_op, (0, num_switches), value=SWITCH_OP)
        stage = nn.functional.pad(batch.unit_stage, (0, num_switches), value=SWITCH_STAGE)
        learned = torch.cat((self.op(op), self.stage(stage)), dim=1)
        if not self.config.node_embedding:
            learned = torch.zeros_like(learned)
        return torch.cat((types, learned), dim=1)

    def _graph(self, batch: Batch) -> tuple[object, object, Tensor]:
        """Return neighbours of nodes, edges at nodes, and x_e; an edge counts at both its nodes."""
        num_units = len(batch.unit)
        num_nodes = num_units + int(batch.num_switches.sum())
        is_mesh = (batch.link_from >= 0) & (batch.link_to >= 0)
        flows = batch.link_flows[is_mesh].float()
        mesh_rows = torch.stack((torch.ones_like(flows), torch.log(flows), batch.link_hops[is_mesh] / flows / 8), dim=1)
        rows = torch.cat((mesh_rows, mesh_rows.new_zeros(num_units, EDGE_FEATURES)))
        if not self.config.edge_embedding:
            rows = torch.zeros_like(rows)
        units = torch.arange(num_units, device=rows.device)
        first = torch.cat((num_units + batch.link_from[is_mesh], units))
        second = torch.cat((num_units + batch.link_to[is_mesh], num_units + batch.unit_switch))
        edges = torch.arange(len(first), device=rows.device)
        nodes = torch.cat((first, second))
        neighbours = relation(torch.cat((second, first)), nodes, num_nodes, num_nodes)
        return neighbours, relation(edges.repeat(2), nodes, len(first), num_nodes), rows
