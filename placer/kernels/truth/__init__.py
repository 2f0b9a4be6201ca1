"""The wafer truth model: simulated throughput of a mapping, and the costs made of it."""

from placer.kernels.truth.simulation import (
    TRUTH_VERSION,
    FormulaCost,
    MappingCost,
    Resolution,
    Scores,
    SimulatorCost,
    WaferMeasurement,
    simulate_mapping,
    simulated_throughput,
)
from placer.kernels.truth.streams import ELEMENTS_PER_WAVELET, TILES_PER_OUTPUT, output_wavelets
