"""Cost models that score decisions: the protocol, the expert's rules, the simulator, random."""

from placer.cost.choice import CostChoice, HeuristicChoice, RandomChoice, SimulatorChoice, file_hashes
from placer.cost.cost import (
    CostModel,
    PotentialCost,
    SimulatorCost,
    UncertainCost,
    ranking_model,
    sigma_of,
    simulated_throughput,
)
from placer.cost.rules import USUAL_SHARE, HeuristicCost, energies_of, energy_of
from placer.decision.routing import MAX_DOUBLINGS, Rules
