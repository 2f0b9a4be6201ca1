"""Maps a graph of deep-learning kernels to a wafer: the shape of every kernel, and its place.

graph -> performance tables -> engine -> layout -> checker and score. See docs/kernels.md.
"""
