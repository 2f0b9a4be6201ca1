"""The benchmark: mappers on graphs, the policy against list scheduling, fronts and speeds."""
