"""Random fabrics: legal, reproducible, of all sizes and mixes, and never a preset."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest

from placer.base import InputError
from placer.fabric import HELD_OUT, HELD_OUT_SEED, Fabric, SiteKind, draw, draw_fabric, load_fabric

MANY = [draw_fabric(0, index) for index in range(150)]


def test_sizes_mixes_and_constants_are_spread() -> None:
    columns, rows = (np.array([getattr(f, name) for f in MANY]) for name in ("columns", "rows"))
    assert (columns.min(), columns.max()) == (6, 24) and (rows.min(), rows.max()) == (6, 20)
    assert (columns > 1.5 * rows).any() and (rows > 1.5 * columns).any()
    shares = [f.num_sites(SiteKind.COMPUTE) / (f.columns * f.rows) for f in MANY]
    assert min(shares) < 0.36 and max(shares) > 0.64
    for group, name in (("link", "hop_cycles"), ("compute", "window_vectors"), ("memory", "strided_read_cycles")):
        assert len({getattr(getattr(f, group), name) for f in MANY}) > 3
    assert len({f.op_spec("softmax") for f in MANY}) > 20


def test_what_is_drawn_depends_on_seed_and_index_alone() -> None:
    assert [draw_fabric(0, index) for index in (7, 3)] == [MANY[7], MANY[3]]
    assert draw_fabric(1, 3) != MANY[3]
    assert MANY[3].name == "random_0_3"
    with pytest.raises(InputError, match="index=-1"):
        draw_fabric(0, -1)


def test_fabrics_that_are_held_out_are_drawn_for_no_other_seed() -> None:
    held_out = [asdict(replace(draw_fabric(HELD_OUT_SEED, index), name="")) for index in range(HELD_OUT)]
    assert not [f.name for f in MANY if asdict(replace(f, name="")) in held_out]


def test_a_preset_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([*(replace(load_fabric(name), name="random") for name in draw.PRESETS), MANY[0]])

    def given(name: str, rng: np.random.Generator) -> Fabric:
        return next(drawn)

    monkeypatch.setattr(draw, "_draw", given)
    assert draw_fabric(0, 0) == MANY[0]


def test_tiles_alternate_as_the_fabric_says() -> None:
    fabric = replace(load_fabric("small"), compute_tiles=2, memory_tiles=1)
    kinds = fabric.topology.site_kind[:64].reshape(8, 8)
    assert kinds[0].tolist() == [0, 0, 1, 0, 0, 1, 0, 0] and kinds[:, 1].tolist() == [0, 1, 0, 0, 1, 0, 0, 1]
    with pytest.raises(InputError, match="memory_tiles=0"):
        replace(fabric, memory_tiles=0)
