"""The independent checker and scorer: it shares nothing with the mapper but the nouns."""

from placer.stencil.judge.scoring import IllegalSolutionError, Score, score, wires_norm
