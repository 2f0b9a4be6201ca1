"""Studies of the simulator, the placements and the annealer; each module is a command."""

from placer.study.local_search import improve
