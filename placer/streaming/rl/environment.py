"""The mapping game, many at once: place one instruction per step, an action is a tile.

An instruction takes the first free slot at or after its arrival. The reward of a step is
-(LB_after - LB_before) cycles with

    LB = max(bound of the problem, start_n + tail_n of what is placed,
             ceil((ready_p + ready_q + |x_p - x_q|) / 2) + tail_v)

where p and q are placed predecessors of an instruction v that is not. Over an episode it adds up to
-(cycles - bound). Where no tile is legal, or an illegal one is chosen, the episode ends with
-(depth + tiles) for each instruction that is left.

With `order=id` predecessors may come later. Start times are then estimates until all tiles are
chosen, and the decoder of `placer.streaming.decode` finds the slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from placer.annealing.random import rng_state
from placer.streaming.bounds import UNLIMITED, IntArray
from placer.streaming.mapping import Mapping
from placer.streaming.problem import Problem
from placer.streaming.rl.game import BoolArray, Episodes, reset_games, step_games
from placer.streaming.rl.observe import (
    NODE_FEATURES,
    STATE_FEATURES,
    TILE_FEATURES,
    Observation,
    observe_games,
)
from placer.streaming.rl.pack import make_boards, pack_problems

Order = Literal["level", "tail", "random", "id"]


class BatchEnv:
    """`reset`, then `step` until nobody `is_alive`; finished games ignore their actions."""

    def __init__(
        self,
        problems: Sequence[Problem],
        games: Sequence[int] | IntArray,  # [batch] which problem each game plays
        order: Order = "tail",
        seed: int = 0,
    ) -> None:
        self.problems = list(problems)
        self.pack = pack_problems(problems)
        self._order, self._rng = order, rng_state(seed)
        batch, num_nodes = len(games), self.pack.tail.shape[1]
        num_tiles = int(self.pack.num_tiles.max())
        self.boards = make_boards(self.pack, batch)
        self.episodes = Episodes(
            np.asarray(games, np.int64),
            np.zeros((batch, num_nodes), np.int64),
            np.zeros(batch, np.int64),
            np.zeros(batch, np.int64),
            np.zeros(batch, np.int64),
            np.zeros(batch, np.bool_),
            np.zeros(batch, np.int64),
        )
        self.rewards = np.zeros(batch, np.float32)
        self._scratch = np.zeros((3, max(num_nodes, num_tiles)), np.int64)
        self._noise = np.zeros(num_nodes)
        self._shape = (batch, num_nodes, num_tiles)

    @property
    def is_alive(self) -> BoolArray:
        return self.episodes.is_alive

    @property
    def cycles(self) -> IntArray:
        """[batch] of finished games; UNLIMITED: came to a dead end."""
        return self.episodes.cycles

    def reset(self) -> Observation:
        reset_games(
            self.pack, self.boards, self.episodes, self._rng, self._scratch, self._noise,
            ("level", "tail", "random", "id").index(self._order),
        )  # fmt: skip
        return self._observe()

    def step(self, actions: IntArray) -> Observation:
        """Take one step in every game; `rewards` then holds what each got."""
        step_games(
            self.pack, self.boards, self.episodes, actions, self.rewards, self._scratch,
            self._order == "id",
        )  # fmt: skip
        return self._observe()

    def copy_games(self, sources: IntArray) -> Observation:
        """Game k goes on where game `sources[k]`, of the same problem, is now."""
        for array in (*self.boards, *self.episodes):
            array[:] = array[sources]
        return self._observe()

    def mapping(self, game: int) -> Mapping | None:
        """What a finished game ended with; None: a dead end."""
        if self.cycles[game] >= UNLIMITED:
            return None
        problem = self.problems[int(self.episodes.problem[game])]
        size = problem.num_nodes
        tile, start = (a[game, :size].copy() for a in (self.boards.tile, self.boards.start))
        return Mapping(tile, start, problem.device.ii, problem.device.depth)

    def _observe(self) -> Observation:
        batch, num_nodes, num_tiles = self._shape
        seen = Observation(
            np.zeros(batch, np.int64),
            np.zeros((batch, num_tiles), np.bool_),
            np.zeros((batch, num_tiles, TILE_FEATURES), np.float32),
            np.zeros((batch, num_nodes, NODE_FEATURES), np.float32),
            np.zeros((batch, STATE_FEATURES), np.float32),
        )
        observe_games(
            self.pack, self.boards, self.episodes, seen, self._scratch, self._order == "id"
        )
        return seen
