"""Placements found with different cost models in the same time, compared in simulation."""
