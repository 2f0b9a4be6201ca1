"""Constraints: what a file means, starts that meet it, and one clear line when none can."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placer.annealing import load_start, random_start
from placer.base import InputError
from placer.decision import allowed_sites, check, load_constraints, random_sites, require_known_units, site_name
from placer.decision.routing import route_turns, save_decision
from placer.fabric import SiteKind, load_fabric
from placer.netlist import Netlist
from tests.placer.hand_cases import compute, flow, memory, port
from tests.placer.lowered_cases import SMALL, netlist_of

COLUMNS = 8
FIRST_PORT = 64  # of the small fabric: tiles come first


def toy(num_compute: int = 3, num_memory: int = 3) -> Netlist:
    """Loads -> memories -> compute units: c0, c1, ...; m0, m1, ...; p0."""
    units = [compute(8, name=f"c{i}") for i in range(num_compute)]
    units += [memory(name=f"m{i}") for i in range(num_memory)]
    units.append(port(name="p0"))
    flows = [flow(num_compute + i, i % num_compute, tokens=8) for i in range(num_memory)]
    flows.append(flow(len(units) - 1, num_compute, tokens=8))
    return Netlist("toy", "hand", "small", tuple(units), tuple(flows))


def write(tmp_path: Path, **parts: Any) -> Path:
    path = tmp_path / "constraints.yaml"
    path.write_text(json.dumps({"schema": 1} | parts))
    return path


def mask_of(tmp_path: Path, netlist: Netlist, **parts: Any) -> np.ndarray[Any, Any]:
    constraints = load_constraints(write(tmp_path, **parts), SMALL)
    require_known_units(constraints, [netlist])
    return allowed_sites(SMALL, netlist, constraints)


def test_without_constraints_units_may_sit_on_all_sites_of_their_kind() -> None:
    netlist = toy()
    mask = allowed_sites(SMALL, netlist, None)
    for unit, allowed in zip(netlist.units, mask, strict=True):
        assert (allowed == (SMALL.topology.site_kind == unit.kind)).all()


def test_a_yaml_file_fixes_forbids_and_bounds(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        """
        schema: 1
        fixed:
          c0: {row: 3, column: 3}   # a compute tile
          p0: {port: right, row: 2}
          m0: 1                     # a site as in decision files
        forbidden: [{row: 0, column: 0}]
        regions:
          - {units: "c[12]", rows: [0, 1], columns: [0, 3]}
          - {op: buffer, columns: [0, 1]}
        """
    )
    netlist = toy()
    mask = allowed_sites(SMALL, netlist, load_constraints(path, SMALL))
    assert np.flatnonzero(mask[0]).tolist() == [3 * COLUMNS + 3]
    assert np.flatnonzero(mask[6]).tolist() == [FIRST_PORT + 8 + 2]
    assert np.flatnonzero(mask[3]).tolist() == [1]
    assert np.flatnonzero(mask[1]).tolist() == [2, COLUMNS + 1, COLUMNS + 3]
    assert (mask[1] == mask[2]).all()
    assert {int(site) % COLUMNS for site in np.flatnonzero(mask[4])} == {0, 1}


def test_the_name_of_every_site_leads_back_to_it(tmp_path: Path) -> None:
    names = [site_name(SMALL, site) for site in range(SMALL.topology.num_sites)]
    path = tmp_path / "c.yaml"
    path.write_text("schema: 1\nforbidden:\n" + "".join(f"- {name}\n" for name in names))
    assert load_constraints(path, SMALL).forbidden == frozenset(range(len(names)))
    assert len(set(names)) == len(names)


def test_constraints_about_other_netlists_are_passed_over(tmp_path: Path) -> None:
    constraints = load_constraints(write(tmp_path, fixed={"c0": 0}), SMALL)
    other = netlist_of("mlp", False)
    require_known_units(constraints, [other, toy()])
    assert (allowed_sites(SMALL, other, constraints) == allowed_sites(SMALL, other, None)).all()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"fixed": {"c0": 1}}, "unit 'c0' is fixed to {row: 0, column: 1}, a memory site"),
        ({"fixed": {"c0": 0, "c1": 0}}, "2 units (c0, c1) must share 1 places ({row: 0, column"),
        ({"fixed": {"c9": 0}}, "no unit 'c9' in toy; names are for example c0, c1"),
        ({"fixed": {"c0": 0}, "forbidden": [0]}, "no site is left for unit c0"),
        ({"regions": [{"units": "c*", "rows": [0, 0], "columns": [0, 3]}]}, "3 units (c0, c1, c2) must share 2 places"),
        ({"regions": [{"op": "softmax", "rows": [0, 1]}]}, "op='softmax', stage=None holds no unit"),
    ],
)
def test_impossible_constraints_are_named(tmp_path: Path, parts: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        mask_of(tmp_path, toy(), **parts)
    assert message in str(error.value)


def test_the_crowd_is_found_behind_others(tmp_path: Path) -> None:
    """Of five units, the three that share a region are named."""
    netlist = toy(num_compute=5)
    regions = [{"units": "c[012]", "rows": [0, 0], "columns": [0, 3]}]
    with pytest.raises(InputError, match=r"3 units \(c0, c1, c2\) must share 2 places"):
        mask_of(tmp_path, netlist, regions=regions)


def test_shared_sites_have_as_many_seats_as_they_hold_units(tmp_path: Path) -> None:
    """A memory unit holds up to max_buffers buffers."""
    most = SMALL.memory.max_buffers
    region = [{"units": "m*", "rows": [0, 0], "columns": [0, 1]}]
    mask = mask_of(tmp_path, toy(num_memory=most), regions=region)
    start = random_start(SMALL, toy(num_memory=most), mask, seed=0)
    assert set(start.sites[3 : 3 + most].tolist()) == {1}
    with pytest.raises(InputError, match=rf"{most + 1} units .* must share {most} places"):
        mask_of(tmp_path, toy(num_memory=most + 1), regions=region)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1", "the file is [1], needed key: value pairs"),
        ("schema: 2", "schema 2 is not known; this version reads 1"),
        ("fixed: {}", "schema None is not known"),
        ("{schema: 1, fixd: {}}", "unknown key 'fixd'; allowed: fixed, forbidden, regions, schema"),
        ("{schema: 1, fixed: [c0]}", "'fixed' is ['c0'], needed key: value pairs"),
        ("{schema: 1, fixed: {c0: 99}}", "unit 'c0': site 99; the fabric has sites 0 to 79"),
        ("{schema: 1, fixed: {c0: {row: 8, column: 0}}}", "is no site of fabric 'small'"),
        ("{schema: 1, fixed: {c0: {port: top, row: 0}}}", "{port: left or right, row: one with"),
        ("{schema: 1, fixed: {c0: 1, c0: 2}}", "key 'c0' stands twice"),
        ("{schema: 1, forbidden: 3}", "'forbidden' is 3, needed a list"),
        ("{schema: 1, regions: [{units: a}]}", "needs units, op or stage, and rows or columns"),
        ("{schema: 1, regions: [{op: a, rows: [3, 2]}]}", "0 <= first <= last <= 7"),
        ("{schema: 1, regions: [{op: a, rows: [0, 8]}]}", "rows must be [first, last]"),
        ("{schema: 1, regions: [{stage: a, rows: [0, 1]}]}", "stage must be an integer"),
        ("{schema: 1, regions: [{op: 3, rows: [0, 1]}]}", "units and op must be text"),
        ("{schema: 1, regions: [{colour: a}]}", "unknown key 'colour'"),
        ("{schema: 1", "is no valid YAML or JSON"),
        ("!!python/object:os.system {}", "is no valid YAML or JSON"),
    ],
)
def test_wrong_files_are_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        load_constraints(path, SMALL)
    assert str(error.value).startswith(f"constraints file {path}: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), columns=st.integers(4, 7), data=st.data())
def test_random_starts_meet_the_constraints(seed: int, columns: int, data: st.DataObject) -> None:
    """Laws: legal for the checker, within the mask, the same for the same seed."""
    netlist = netlist_of("gemm", False)
    rng = np.random.default_rng(seed)
    mask = allowed_sites(SMALL, netlist, None)
    column = SMALL.topology.site_switch % COLUMNS
    is_bound = rng.random(netlist.num_units) < data.draw(st.floats(0, 0.3))
    mask[is_bound] &= (column <= columns) | (SMALL.topology.site_kind == SiteKind.PORT)
    start = random_start(SMALL, netlist, mask, seed)
    assert mask[np.arange(netlist.num_units), start.sites].all()
    check(SMALL, netlist, route_turns(SMALL, netlist, start.sites[None], start.flow_class[None]))
    assert (random_start(SMALL, netlist, mask, seed).sites == start.sites).all()


def test_bytes_decide_when_seats_would_be_enough() -> None:
    """Buffers of 60, 60, 40, 40 in two memory units of 100 bytes: a large one with a small one."""
    fabric = load_fabric("small", ["memory.capacity_bytes=100"])
    toy_units = toy(num_memory=4)
    sizes = {"m0": 60, "m1": 40, "m2": 60, "m3": 40}
    units = tuple(replace(unit, bytes=sizes.get(unit.name, 0)) for unit in toy_units.units)
    netlist = replace(toy_units, units=units)
    mask = allowed_sites(fabric, netlist, None)
    mask[3:7, :] = False
    mask[3:7, [1, 3]] = True
    for seed in range(10):
        sites = random_start(fabric, netlist, mask, seed).sites
        assert {sites[3], sites[5]} == {sites[4], sites[6]} == {1, 3}
    too_large = tuple(replace(u, bytes=u.bytes + (u.name == "m1")) for u in units)
    with pytest.raises(InputError, match="within 100 bytes per memory unit"):
        random_start(fabric, replace(netlist, units=too_large), mask, seed=0)


def test_sites_are_shared_only_where_there_are_too_few() -> None:
    netlist = toy(num_memory=6)
    mask = allowed_sites(SMALL, netlist, None)
    mask[3:9, 16:] = False  # eight memory units are left
    for seed in range(5):
        sites = random_start(SMALL, netlist, mask, seed).sites
        assert len(set(sites[3:9].tolist())) == 6


def test_a_warm_start_keeps_sites_and_corners(tmp_path: Path) -> None:
    netlist = netlist_of("gemm", False)
    sites = random_sites(SMALL, netlist, 1, seed=5)
    classes = np.random.default_rng(0).integers(0, 2, (1, netlist.num_flows)).astype(np.int32)
    save_decision(tmp_path / "d.json", SMALL, netlist, route_turns(SMALL, netlist, sites, classes))
    mask = allowed_sites(SMALL, netlist, None)
    start = load_start(tmp_path / "d.json", SMALL, netlist, mask)
    assert (start.sites == sites[0]).all()
    assert (start.flow_class == classes[0]).all()
    mask[0, sites[0, 0]] = False
    with pytest.raises(InputError, match="which the constraints forbid"):
        load_start(tmp_path / "d.json", SMALL, netlist, mask)
    other = netlist_of("mlp", False)
    with pytest.raises(InputError, match=r"made for netlist .* fingerprint"):
        load_start(tmp_path / "d.json", SMALL, other, allowed_sites(SMALL, other, None))
