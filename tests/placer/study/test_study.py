"""Studies of how much placement matters: the hill climb and the spread command."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from placer.base.config import run_command
from placer.decision import check, random_sites
from placer.decision.routing import RoutingMethod, route
from placer.fabric import SiteKind, load_fabric
from placer.graph.workloads import FAMILIES
from placer.netlist import Netlist
from placer.netlist.lowering import draw_netlist
from placer.study import improve
from placer.study.spread import SpreadConfig, main, measure_spread

pytestmark = pytest.mark.slow

SMALL = load_fabric("small")
SAMPLE_CYCLES = 60  # short samples keep the simulations fast


@cache
def netlist_of(family: str) -> Netlist:
    return draw_netlist(SMALL, family, SAMPLE_CYCLES, seed=0, index=0)


def wire_length(netlist: Netlist, sites: NDArray[np.int32]) -> int:
    """Sum over all connections of tokens times distance in hops."""
    rows, columns = np.divmod(SMALL.topology.site_switch[sites], SMALL.columns)
    return sum(
        flow.tokens * int(abs(rows[flow.source] - rows[end]) + abs(columns[flow.source] - columns[end]))
        for flow in netlist.flows
        for end in flow.targets
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("family", FAMILIES)
def test_random_netlists_fill_the_fabric(family: str, seed: int) -> None:
    for index in range(2):
        netlist = draw_netlist(SMALL, family, 80, seed, index)
        fill = netlist.count(SiteKind.COMPUTE) / SMALL.num_sites(SiteKind.COMPUTE)
        assert 0.5 <= fill <= 0.95, netlist.name


@settings(max_examples=25)
@given(family=st.sampled_from(FAMILIES), seed=st.integers(0, 99), steps=st.integers(0, 400))
def test_the_climb_never_lengthens_wires_and_stays_legal(family: str, seed: int, steps: int) -> None:
    netlist = netlist_of(family)
    (sites,) = random_sites(SMALL, netlist, 1, seed)
    given_sites = sites.copy()
    improved = improve(SMALL, netlist, sites, steps, seed)
    assert wire_length(netlist, improved) <= wire_length(netlist, sites)
    check(SMALL, netlist, route(SMALL, netlist, improved[None]))
    np.testing.assert_array_equal(sites, given_sites)
    np.testing.assert_array_equal(improved, improve(SMALL, netlist, sites, steps, seed))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_climb_shortens_wires_much_in_many_steps(family: str) -> None:
    netlist = netlist_of(family)
    (sites,) = random_sites(SMALL, netlist, 1, seed=0)
    improved = improve(SMALL, netlist, sites, 5000, seed=0)
    assert wire_length(netlist, improved) < 0.8 * wire_length(netlist, sites)


@pytest.mark.parametrize("family", FAMILIES)
def test_placement_matters(family: str, tmp_path: Path) -> None:
    config = SpreadConfig(
        fabric=SMALL,
        families=[family],
        netlists=1,
        placements=24,
        sample_cycles=SAMPLE_CYCLES,
        routing=RoutingMethod.XY,
        seeds=[0],
        output=tmp_path,
    )
    result = measure_spread(config, family, seed=0, index=0)
    assert result.throughput.shape == (24,)
    assert ((result.throughput > 0) & (result.throughput <= 1)).all()
    assert result.spread == 1 - result.throughput.min() / result.throughput.max()
    assert result.spread > 0.2
    assert result.gain > 1


def run(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as stop:
        run_command(main, "spread", arguments)
    return stop.value.code


def test_the_command_writes_table_values_and_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ("netlists=1", "placements=6", "seeds=[0,1]", f"sample_cycles={SAMPLE_CYCLES}")
    assert run("families=[gemm,ffn]", *sizes, f"output={tmp_path}") == 0
    assert capsys.readouterr().err == ""
    assert {path.name for path in tmp_path.iterdir()} == {"spread.md", "spread.csv", "spread.png"}
    header, ruler, *rows = (tmp_path / "spread.md").read_text().splitlines()
    assert [row.split(" | ")[0] for row in rows] == ["| gemm", "| ffn"]
    assert len({line.count("|") for line in (header, ruler, *rows)}) == 1
    with open(tmp_path / "spread.csv", newline="") as file:
        values = list(csv.DictReader(file))
    assert [(value["family"], value["seed"]) for value in values] == [
        (family, seed) for family in ("gemm", "ffn") for seed in ("0", "1")
    ]
    for value in values:
        worst, median, best = (float(value[name]) for name in ("worst", "random_median", "best"))
        assert 0 < worst <= median <= best <= 1
        assert float(value["spread"]) == pytest.approx(1 - worst / best, abs=1e-3)
    assert (tmp_path / "spread.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("families=[gemm,rnn]", "families[1]='rnn' is no choice; allowed: ffn, gemm, mha, mlp"),
        ("families=gemm", "families='gemm' has the wrong type; expected list[str]"),
        ("netlists=0", "netlists=0 is out of range; allowed: 1 or more"),
        ("placements=3", "placements=3 is out of range; allowed: 4 or more"),
        ("seeds=[]", "seeds=[] is empty; allowed: one or more"),
        ("routing=foo", "routing='foo' is no choice; allowed: mixed, negotiated, xy, yx"),
    ],
)
def test_wrong_settings_give_one_line_and_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], argument: str, message: str
) -> None:
    assert run(f"output={tmp_path / 'out'}", argument) == 2
    assert capsys.readouterr() == ("", f"error: {message}\n")
    assert not (tmp_path / "out").exists()
