"""Searches for a mapping: one pass, annealing, evolution, constraint programming."""

from placer.streaming.search.bounds import UNLIMITED, Bounds, Tables
from placer.streaming.search.construct import (
    ILLEGAL,
    Board,
    clear,
    cycles_of,
    is_open,
    list_schedule,
    make_board,
    place,
    random_mapping,
    start_at,
)
from placer.streaming.search.exact import improve_mapping, repair, solve
from placer.streaming.search.plans import FAILED, Plan, anneal, decode, evolve
from placer.streaming.search.problem import Problem, make_problem
from placer.streaming.search.slots import anneal_slots
