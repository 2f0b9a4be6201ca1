"""Trained `flow` networks as compiled code, without DGL (docs/inference.md)."""
