"""How good are models on decisions that they have not seen? Jobs, metrics and a report."""
