"""The mapping game that a policy plays, many games at once, in compiled code; no torch."""

from placer.streaming.game.environment import CLIP, BatchEnv, Features, Observation, Order, static_features
