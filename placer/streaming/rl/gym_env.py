"""One mapping game as a Gymnasium environment, for libraries that expect one.

`BatchEnv` plays many at once and is what this project trains with.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from placer.streaming.bounds import UNLIMITED
from placer.streaming.mapping import Mapping
from placer.streaming.problem import Problem
from placer.streaming.rl.environment import BatchEnv, Order
from placer.streaming.rl.game import BoolArray
from placer.streaming.rl.observe import (
    CLIP,
    NODE_FEATURES,
    STATE_FEATURES,
    TILE_FEATURES,
    Observation,
)

Seen = dict[str, Any]  # arrays by name


class StreamingEnv(gym.Env[Seen, np.int64]):
    """An action is a tile; `action_masks` (the name that sb3-contrib asks for) has the legal ones.

    `info` of the last step has `cycles`, or None after a dead end.
    """

    def __init__(self, problem: Problem, order: Order = "tail") -> None:
        self._problem, self._order = problem, order
        tiles, nodes = problem.num_tiles, problem.num_nodes
        self.action_space = gym.spaces.Discrete(tiles)
        self.observation_space = gym.spaces.Dict(
            {
                "tiles": gym.spaces.Box(-CLIP, CLIP, (tiles, TILE_FEATURES), np.float32),
                "nodes": gym.spaces.Box(-CLIP, CLIP, (nodes, NODE_FEATURES), np.float32),
                "state": gym.spaces.Box(-CLIP, CLIP, (STATE_FEATURES,), np.float32),
                "node": gym.spaces.Box(0, nodes - 1, (1,), np.int64),
            }
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        super().reset(seed=seed)
        first = int(self.np_random.integers(1 << 31))
        self._env = BatchEnv([self._problem], [0], self._order, first)
        self._mask, seen = _split(self._env.reset())
        return seen, {}

    def step(self, action: np.int64) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        self._mask, seen = _split(self._env.step(np.array([action])))
        if not self._env.is_alive[0] or self._mask.any():
            return self._result(seen, float(self._env.rewards[0]))
        # No tile is legal: any choice ends the game with the penalty.
        earned = float(self._env.rewards[0])
        _, seen = _split(self._env.step(np.array([-1])))
        return self._result(seen, earned + float(self._env.rewards[0]))

    def _result(self, seen: Seen, reward: float) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        if self._env.is_alive[0]:
            return seen, reward, False, False, {}
        cycles = int(self._env.cycles[0])
        return seen, reward, True, False, {"cycles": cycles if cycles < UNLIMITED else None}

    def action_masks(self) -> BoolArray:
        return self._mask

    def mapping(self) -> Mapping | None:
        """What a finished game ended with."""
        return self._env.mapping(0)


def _split(observation: Observation) -> tuple[BoolArray, Seen]:
    seen = {name: getattr(observation, name)[0] for name in ("tiles", "nodes", "state")}
    return observation.mask[0], seen | {"node": observation.node}
