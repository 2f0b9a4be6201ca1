"""Labelled PnR decisions: generation, storage, splits, report."""
