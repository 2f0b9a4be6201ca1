"""Stencil mapper: cut a volume with a map of desired resolution into tiles, place them on a wafer.

Rooms, each of which may import those before it: `model` (nouns and files), `judge` (the independent
checker), `search` (the mapper), `show` (pictures, page, tables). Rules, formulas and method are in
docs/stencil.md.
"""
