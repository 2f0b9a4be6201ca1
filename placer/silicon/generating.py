"""Traces made here, in the format of measured ones; for tests and first trials."""

from __future__ import annotations

from typing import Any

import numpy as np

from placer.fabric import Fabric


def random_trace(fabric: Fabric, seed: int, num_cores: int = 4, num_reads: int = 4) -> list[dict[str, Any]]:
    """Return events of random reads: two processors per core, a network each, barriers at the end.

    Times of barriers are those of a chip without contention at 20 bytes per cycle; nobody has
    measured them.
    """
    assert fabric.cores is not None
    rng = np.random.default_rng(seed)
    tiles = [(x, y) for y in range(fabric.rows) for x in range(fabric.columns)]
    cores = [tiles[k] for k in rng.permutation(len(tiles))[:num_cores]]
    events: list[dict[str, Any]] = []
    for x, y in cores:
        for processor, network in zip(("NCRISC", "BRISC"), fabric.cores.networks, strict=False):
            owner = {"proc": processor, "sx": x, "sy": y}
            time = 1_000_000 + int(rng.integers(0, 100))
            events.append({**owner, "zone": f"{processor}-KERNEL", "zone_phase": "begin", "timestamp": time})
            total = 0
            for _ in range(num_reads):
                time += int(rng.integers(100, 200))
                source_x, source_y = tiles[rng.integers(len(tiles))]
                num_bytes = int(rng.choice([512, 1024, 2048, 4096]))
                total += num_bytes
                read = {"dx": source_x, "dy": source_y, "num_bytes": num_bytes, "type": "READ"}
                events.append({**owner, "noc": network.name, **read, "timestamp": time})
            barrier = {"noc": network.name, "dx": -1, "dy": -1, "num_bytes": 0}
            for kind, later in (("START", 100), ("END", 300 + total // 20)):
                time += later
                events.append({**owner, **barrier, "type": f"READ_BARRIER_{kind}", "timestamp": time})
    return events
