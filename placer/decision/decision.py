"""Decisions: where every unit sits and how every flow travels.

`Decisions` stacks many decisions of one netlist in flat arrays, so that routers, simulators and
cost models work on all of them without Python work per decision. One decision is a stack of one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from placer.base import IntArray


@dataclass(frozen=True, slots=True)
class Decisions:
    """A stack of PnR decisions of one netlist.

    The route of a flow is a tree of links: its nodes stand in `links[start:end]` with
    `start, end = route_start[d, f], route_start[d, f + 1]`, parents before children; the first
    node is the inject link of the source's site, the leaves are the eject links of the targets'
    sites. `parents` counts from the flow's first node, -1 for the root.
    """

    sites: IntArray  # [num_decisions, num_units] site of each unit
    channels: IntArray  # [num_decisions, num_flows] virtual channel of each flow
    route_start: NDArray[np.int64]  # [num_decisions, num_flows + 1] into links and parents
    links: IntArray  # [num_route_nodes]
    parents: IntArray  # [num_route_nodes]

    def __len__(self) -> int:
        return len(self.sites)

    def __getitem__(self, index: int) -> Decisions:
        """Return decision number `index` as a stack of one."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"decision {index} of {len(self)}")
        index %= len(self)
        starts = self.route_start[index]
        nodes = slice(int(starts[0]), int(starts[-1]))
        return Decisions(
            sites=self.sites[index : index + 1],
            channels=self.channels[index : index + 1],
            route_start=(starts - starts[0])[None, :],
            links=self.links[nodes],
            parents=self.parents[nodes],
        )

    def route(self, flow: int, index: int = 0) -> tuple[IntArray, IntArray]:
        """Return links and parents of one flow of decision number `index`."""
        nodes = slice(int(self.route_start[index, flow]), int(self.route_start[index, flow + 1]))
        return self.links[nodes], self.parents[nodes]

    @staticmethod
    def concatenate(stacks: Iterable[Decisions]) -> Decisions:
        """Return one stack made from several of the same netlist."""
        parts = list(stacks)
        offsets = np.cumsum([0] + [len(part.links) for part in parts])
        return Decisions(
            sites=np.concatenate([part.sites for part in parts]),
            channels=np.concatenate([part.channels for part in parts]),
            route_start=np.concatenate(
                [part.route_start + offset for part, offset in zip(parts, offsets, strict=False)]
            ),
            links=np.concatenate([part.links for part in parts]),
            parents=np.concatenate([part.parents for part in parts]),
        )
