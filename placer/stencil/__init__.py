"""Stencil mapper: cut a volume with a map of desired resolution into tiles, place them on a wafer.

Rules, formulas and method are in docs/stencil.md.
"""
