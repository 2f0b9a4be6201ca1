"""Models without a network, in the same tables and folds: what a network must beat."""
