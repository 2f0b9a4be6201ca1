"""Short figures of quality: cheap, of fixed work and seeds, so that a change of one is a change of the code."""

from costmodel.quality.measure import MEASURES, Measured
