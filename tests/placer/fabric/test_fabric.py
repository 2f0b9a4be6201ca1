"""What follows from the values of a fabric, and values that no fabric can have."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from placer.base import InputError
from placer.fabric import SiteKind, fabric_of, load_fabric


@pytest.mark.parametrize(
    ("name", "macs", "vectors"), [("small", 3072, 16), ("plasticine", 6144, 32), ("large", 15360, 64)]
)
def test_rates_follow_from_counts(name: str, macs: int, vectors: int) -> None:
    fabric = load_fabric(name)
    assert fabric.peak_macs_per_cycle == macs == 96 * fabric.num_sites(SiteKind.COMPUTE)
    assert fabric.dram_vectors_per_cycle == vectors
    assert fabric.dram_bytes_per_cycle == 64 * vectors


def test_a_slower_burst_is_a_lower_rate() -> None:
    fabric = load_fabric("small", ["dram.burst_cycles=10", "dram.channels=5"])
    assert fabric.dram_vectors_per_cycle == 4.0


@pytest.mark.parametrize(
    ("field", "value"), [("clock_mhz", -1), ("clock_mhz", 100_001), ("switch_cycles", -1), ("switch_cycles", 10**9 + 1)]
)
def test_impossible_values_are_refused(field: str, value: int) -> None:
    with pytest.raises(InputError, match=f"{field}={value} is out of range; allowed 0 to "):
        replace(load_fabric("small"), **{field: value})  # type: ignore[arg-type]


def test_a_description_from_before_clock_and_switch_is_read() -> None:
    fabric = load_fabric("small")
    old = {key: value for key, value in asdict(fabric).items() if key not in ("clock_mhz", "switch_cycles")}
    assert fabric_of(old) == fabric
