"""One mapping game as a Gymnasium environment, for libraries that expect one.

`BatchEnv` plays many at once and is what this project trains with.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from placer.base import BoolArray
from placer.streaming.game import CLIP, BatchEnv, Features, Observation, Order
from placer.streaming.model import Mapping
from placer.streaming.search import UNLIMITED, Problem

Seen = dict[str, Any]  # arrays by name


class StreamingEnv(gym.Env[Seen, np.int64]):
    """An action is a tile; `action_masks` (the name that sb3-contrib asks for) has the legal ones.

    `info` of the last step has `cycles`, or None after a dead end.
    """

    def __init__(self, problem: Problem, order: Order = "tail") -> None:
        self._problem, self._order = problem, order
        tiles, nodes = problem.num_tiles, problem.num_nodes
        shapes = {"tiles": (tiles, Features.TILE), "nodes": (nodes, Features.NODE),
                  "state": (Features.STATE,)}  # fmt: skip
        box = gym.spaces.Box
        spaces = {name: box(-CLIP, CLIP, shape, np.float32) for name, shape in shapes.items()}
        self.action_space = gym.spaces.Discrete(tiles)
        self.observation_space = gym.spaces.Dict({**spaces, "node": box(0, nodes - 1, (1,), np.int64)})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Seen, dict[str, Any]]:
        super().reset(seed=seed)
        first = int(self.np_random.integers(1 << 31))
        self._env = BatchEnv([self._problem], [0], self._order, first)
        self._mask, seen = _split(self._env.reset())
        return seen, {}

    def step(self, action: np.int64) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        env = self._env
        self._mask, seen = _split(env.step(np.array([action])))
        reward = float(env.rewards[0])
        if env.is_alive[0] and not self._mask.any():  # any choice ends the game with the penalty
            _, seen = _split(env.step(np.array([-1])))
            reward += float(env.rewards[0])
        if env.is_alive[0]:
            return seen, reward, False, False, {}
        cycles = int(env.cycles[0])
        return seen, reward, True, False, {"cycles": cycles if cycles < UNLIMITED else None}

    def action_masks(self) -> BoolArray:
        return self._mask

    def mapping(self) -> Mapping | None:
        """Return what a finished game ended with."""
        return self._env.mapping(0)


def _split(observation: Observation) -> tuple[BoolArray, Seen]:
    seen = {name: getattr(observation, name)[0] for name in ("tiles", "nodes", "state")}
    return observation.mask[0], seen | {"node": observation.node}
