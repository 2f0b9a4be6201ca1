"""Trained `flow` networks as compiled code, without DGL (docs/inference.md)."""

from costmodel.inference.full import Room, open_pass, predict_all, predict_encoded
from costmodel.inference.learned import LearnedChoice, LearnedCost
from costmodel.inference.rounds import tell_units
from costmodel.inference.search import LearnedSearch
from costmodel.inference.student import add_student
