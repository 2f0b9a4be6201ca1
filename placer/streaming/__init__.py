"""Instruction mapping on the Streaming Engine, a CGRA: which tile and which time slot runs what."""
