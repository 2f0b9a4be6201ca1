"""Mappers x graphs, the policy against list scheduling in equal time, fronts, and speeds."""
