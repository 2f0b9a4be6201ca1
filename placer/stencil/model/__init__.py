"""The nouns: problems and solutions, their files, and where problems come from."""

from placer.stencil.model.files import problem_text, read_problem, read_solution, solution_text
from placer.stencil.model.generate import INPUTS, ball
from placer.stencil.model.problem import (
    EMPTY_LEVEL,
    TILE_POINTS,
    Objective,
    ObjectiveName,
    Problem,
    Solution,
    WeightedSum,
    contest_score,
    make_objective,
    sampling_unit,
)
from placer.stencil.model.surface import read_surface, surface_problem
