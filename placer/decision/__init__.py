"""A placement and a route per flow: what it is, whether it is legal, where units may sit."""

from placer.decision.check import check
from placer.decision.constraints import allowed_sites, load_constraints, require_known_units, site_name
from placer.decision.decision import Decisions
from placer.decision.placement import random_sites, seats_of, spread
