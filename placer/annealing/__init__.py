"""The annealing placer: a task, a strategy, and walks through placements (loop.py)."""

from placer.annealing.annealer import AnnealOptions, AnnealResult, AnnealStatus, MoveMix, Round, anneal
from placer.annealing.board import Board, State
from placer.annealing.finalists import Elite
from placer.annealing.loop import Start, Walk, anneal_moves, note_best
from placer.annealing.moves import Change, Refusal
from placer.annealing.multistart import (
    MultiStartResult,
    StartJob,
    StartResult,
    fit_schedule,
    search_once,
    search_starts,
)
from placer.annealing.replay import Snapshot
from placer.annealing.rerouting import FinalRouting, reroute
from placer.annealing.schedule import Schedule
from placer.annealing.search import (
    BatchedSearch,
    CompiledSearch,
    Counts,
    Search,
    SearchingCost,
    propose_candidates,
    take_candidate,
)
from placer.annealing.starts import load_start, random_start, start_of
from placer.annealing.task import StartKind, Strategy, Task
