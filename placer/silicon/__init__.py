"""Traces of real chips: read, replayed, compared with what was measured and with simpler models."""

from placer.silicon.comparing import MODELS, Compared, Score, compare, score_of
from placer.silicon.generating import random_trace
from placer.silicon.report import ReplayConfig, show_replay, write_replay
from placer.silicon.trace import Trace, load_traces, read_trace
