"""Mapping by reinforcement learning: a policy places one instruction after the other.

Needs torch: whoever works without it imports this room inside a function.
"""

from placer.streaming.rl.policy import TRAINED_POLICY, Policy, PolicyConfig, load_policy
from placer.streaming.rl.ppo import PpoConfig
from placer.streaming.rl.sample import fine_tune, sample_mappings, sample_once
from placer.streaming.rl.train import POLICY_FILE, UPDATES_FILE, GraphConfig, TrainConfig, train, update_once
