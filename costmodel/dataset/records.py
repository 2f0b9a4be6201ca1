"""What the generator makes of one netlist, before it is written and after it is read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from placer.decision import Decisions
from placer.fabric import Fabric
from placer.netlist import Netlist

ALL = "all"  # where the name of a family or a phase may stand
ALONE = -1  # segment of a netlist that shares it with no other


class Phase(Enum):
    """The part of a search that a decision comes from."""

    RANDOM = "random"  # a random legal placement
    HOT = "hot"  # an anneal, most moves accepted
    MID = "mid"
    COLD = "cold"  # an anneal, few moves accepted
    QUENCHED = "quenched"  # greedy descent
    POOL = "pool"  # the result of a short anneal as a placer makes it
    OPTIMAL = "optimal"  # around the best found with the simulator in the loop


@dataclass(frozen=True, slots=True)
class Labels:
    """Simulator results, one entry per decision."""

    cycles_per_sample: NDArray[np.float64]  # [num_decisions]
    first_sample_cycles: NDArray[np.int64]  # [num_decisions]
    cycles_simulated: NDArray[np.int64]  # [num_decisions]
    vector_hops: NDArray[np.int64]  # [num_decisions]
    unit_busy: NDArray[np.float32]  # [num_decisions, num_units] share of the time
    unit_starved: NDArray[np.float32]  # [num_decisions, num_units]
    unit_blocked: NDArray[np.float32]  # [num_decisions, num_units]
    unit_port_wait: NDArray[np.float32]  # [num_decisions, num_units]
    busiest_link: NDArray[np.float32]  # [num_decisions] utilisation of the busiest link
    fidelity: NDArray[np.float32]  # [num_decisions] 1; of a short label its samples over those of a full one


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a netlist comes from."""

    seed: tuple[int, ...]  # of the random generator of this netlist
    spec: dict[str, Any]  # the workload that was lowered, for example {"family": "mlp", ...}
    segment: int = ALONE  # netlists with the same number are plans of one part of a network
    samples: int = 1  # per input of the network, so plans of a segment can be compared


@dataclass(frozen=True, slots=True)
class NetlistSamples:
    """All samples of one netlist: the decisions with their labels and where they come from."""

    netlist_id: int  # position in the dataset
    origin: Origin
    fabric: Fabric  # that it was lowered for
    netlist: Netlist
    potential: float  # throughput that the best of a pool of short anneals reaches; 0: there was no pool
    decisions: Decisions
    labels: Labels
    phase: tuple[Phase, ...]  # [num_decisions]
    search: tuple[dict[str, Any], ...]  # [num_decisions] parameters of the search
    heuristic: NDArray[np.float64]  # [num_decisions] score of the heuristic cost model
    failures: tuple[str, ...]  # samples that were tried and gave no label, with the reason

    @property
    def throughput(self) -> NDArray[np.float64]:
        """Return the normalised throughput [num_decisions]: bound / cycles, in (0, 1]."""
        return self.netlist.bound_cycles / self.labels.cycles_per_sample
