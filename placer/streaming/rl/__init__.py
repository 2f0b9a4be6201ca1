"""Mapping by reinforcement learning: a policy places one instruction after the other."""
