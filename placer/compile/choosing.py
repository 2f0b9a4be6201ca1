"""What a round does: recipes that are drawn, and plans that are placed."""

from __future__ import annotations

import math

import numpy as np

from placer.compile.book import Book, Entry, Kind
from placer.compile.draft import Draft
from placer.netlist.lowering import Recipe

PLACE_JOBS = 8  # of a round
FIRST_RECIPES = 6  # drawn for every kind at first,
RECIPES = 48  # and for all kinds together in each round
RECIPES_PER_JOB = 8
PARENTS = 3  # best plans of a kind that new recipes are changes of
MOST_CHANGES = 3  # of a recipe in one draw
CROWDING = 0.7  # of an expected improvement that is left for each other job of the same kind in a round
START_SECONDS = 0.5  # that a placement takes at least,
SECONDS = 4e-6  # and for each pair of a unit and a flow

Drawn = tuple[Kind, tuple[Recipe, ...]]
Chosen = tuple[Kind, Entry, float]  # what to place, and the period above which it is of no use


def new_recipes(book: Book, draft: Draft, seed: int, is_first: bool, has_layouts: bool) -> list[Drawn]:
    """Draw recipes: some for every kind at first, then in proportion to the time that a kind takes."""
    shares = _shares(book, draft)
    drawn = []
    for kind in book.kinds:
        count = FIRST_RECIPES if is_first else math.ceil(RECIPES * shares[kind.number])
        recipes = _draw(book, kind, count if has_layouts else int(is_first), seed)
        drawn += [(kind, recipes[k : k + RECIPES_PER_JOB]) for k in range(0, len(recipes), RECIPES_PER_JOB)]
    return drawn


def _shares(book: Book, draft: Draft) -> dict[int, float]:
    """Return the share of the time that each kind has on the best way; 0 for those that are not on it."""
    kinds = {kind.number: kind for kind in book.kinds}
    cycles = dict.fromkeys(kinds, 0.0)
    for place in draft.path:
        kind = kinds[book.places[place].kind]
        cycles[kind.number] += book.cycles(book.believed(kind, book.promising(kind)[0]))
    total = sum(cycles.values())
    return {number: value / total for number, value in cycles.items()}


def _draw(book: Book, kind: Kind, count: int, seed: int) -> tuple[Recipe, ...]:
    """Draw changes of the best recipes of a kind; the first one is that of the rules."""
    recipes = []
    parents = [entry.candidate.recipe for entry in book.promising(kind)[:PARENTS]] or [kind.usual]
    for _ in range(count):
        rng = np.random.default_rng([seed, kind.number, kind.num_asked])
        parent = parents[int(rng.integers(len(parents)))]
        changes = int(rng.integers(1, MOST_CHANGES + 1))
        recipes.append(kind.segment.vary(parent, rng, changes) if kind.num_asked else kind.usual)
        kind.num_asked += 1
    return tuple(recipes)


def choose(book: Book, draft: Draft, best_cycles: float) -> list[Chosen]:
    """Choose what to place: the largest expected improvement of the network per second."""
    found = []
    for kind in book.kinds:
        through = min(
            cycles for cycles, place in zip(draft.through, book.places, strict=True) if place.kind == kind.number
        )
        if not math.isfinite(through):
            continue
        number = len(kind.places)
        now = book.cycles(book.believed(kind, book.promising(kind)[0]))
        room = now + (best_cycles - through) / number  # cycles that a plan must stay below
        gains = sorted(((*_improvement(book, kind, entry, room), entry) for entry in kind.entries), key=lambda g: -g[0])
        found += [
            (CROWDING**rank * gain * number, kind, entry, limit) for rank, (gain, limit, entry) in enumerate(gains)
        ]
    found.sort(key=lambda one: -one[0])
    return [(kind, entry, limit) for gain, kind, entry, limit in found[:PLACE_JOBS] if gain > 0]


def _improvement(book: Book, kind: Kind, entry: Entry, room: float) -> tuple[float, float]:
    """Return the expected cycles below `room` per second of one more placement, and the period that reaches it."""
    run = book.believed(kind, entry)
    cycles = book.cycles(run)
    if entry.periods:  # another anneal of the same plan
        expected, deviation = cycles * float(np.mean(entry.periods)) / min(entry.periods), cycles * book.spread
    else:
        expected, deviation = cycles, cycles * book.error(kind, entry)[1]
    distance = (room - expected) / deviation
    density = math.exp(-(distance**2) / 2) / math.sqrt(2 * math.pi)
    below = (1 + math.erf(distance / math.sqrt(2))) / 2
    seconds = START_SECONDS + SECONDS * entry.candidate.units * entry.candidate.flows
    return deviation * (distance * below + density) / seconds, run.cycles_per_sample * room / cycles
