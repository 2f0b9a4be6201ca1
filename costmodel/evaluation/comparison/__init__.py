"""Placements found with different cost models in the same time, compared in simulation."""

from costmodel.evaluation.comparison.cases import Case, Models, Unseen
from costmodel.evaluation.comparison.methods import PlacingMethod
from costmodel.evaluation.comparison.report import write_comparison
from costmodel.evaluation.comparison.run import jobs_of, run_placings
