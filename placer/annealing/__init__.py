"""The annealing placer."""

from placer.annealing.annealer import (
    AnnealOptions,
    AnnealResult,
    AnnealStatus,
    MoveMix,
    Round,
    anneal,
)
from placer.annealing.schedule import Schedule
from placer.annealing.search import Search, SearchingCost, Start

__all__ = [
    "AnnealOptions",
    "AnnealResult",
    "AnnealStatus",
    "MoveMix",
    "Round",
    "Schedule",
    "Search",
    "SearchingCost",
    "Start",
    "anneal",
]
