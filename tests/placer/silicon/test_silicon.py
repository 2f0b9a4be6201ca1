"""Traces: read, refused in words, replayed by every model; measured ones where they are at hand."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placer.base import InputError
from placer.base.config import run_command
from placer.fabric import load_fabric
from placer.replay import main
from placer.silicon import MODELS, compare, load_traces, random_trace, read_trace, score_of
from placer.simulation import Read, What
from tests import ROOT

WORMHOLE = load_fabric("wormhole")
TRACES = "shared/data/wormhole"  # beside the project, never in it
MEASURED = next((folder / TRACES for folder in ROOT.parents if (folder / TRACES).is_dir()), ROOT / "none")
Events = list[dict[str, Any]]


def write(folder: Path, events: Events, name: str = "made") -> Path:
    path = folder / f"{name}.json"
    path.write_text(json.dumps(events), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def events() -> Events:
    return random_trace(WORMHOLE, seed=1)


def run(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as stop:
        run_command(main, "replay", [str(argument) for argument in arguments])
    assert isinstance(stop.value.code, int)
    return stop.value.code


def test_a_trace_becomes_scripts(tmp_path: Path, events: Events) -> None:
    trace = read_trace(write(tmp_path, events), WORMHOLE)
    assert trace.name == "made"
    assert trace.measured == max(e["timestamp"] for e in events) - min(e["timestamp"] for e in events)
    assert trace.num_bytes == sum(e.get("num_bytes", 0) for e in events)
    assert len(trace.scripts) == 8
    (script,) = [s for s, p in zip(trace.scripts, trace.processors, strict=True)
                 if (s.core, p) == ((events[0]["sx"], events[0]["sy"]), "NCRISC")]  # fmt: skip
    whats = [step.what for step in script.steps]
    assert whats[0] == What.MARK and whats[-1] == What.WAIT
    first = next(e for e in events if e.get("type") == "READ")
    assert whats[1] == Read(0, (first["dx"], first["dy"]), first["num_bytes"])
    assert script.steps[1].gap == first["timestamp"] - events[0]["timestamp"]


def test_the_order_of_events_in_the_file_does_not_matter(tmp_path: Path, events: Events) -> None:
    one = read_trace(write(tmp_path, events), WORMHOLE)
    other = read_trace(write(tmp_path, events[::-1], "other"), WORMHOLE)
    assert sorted(s.steps for s in one.scripts) == sorted(s.steps for s in other.scripts)


def test_models_are_ordered_as_what_they_leave_out(tmp_path: Path) -> None:
    for seed in range(4):
        trace = read_trace(write(tmp_path, random_trace(WORMHOLE, seed, num_cores=12)), WORMHOLE)
        predicted = compare(WORMHOLE, trace).predicted
        assert predicted["no contention"] <= predicted["rules"]
        assert predicted["no contention"] <= predicted["fluid"] + 1
        assert predicted["no contention"] * 0.97 <= predicted["cycle-level engine"]


def test_one_source_that_many_read_from_is_what_all_models_but_one_see(tmp_path: Path) -> None:
    # 8 cores read 16 KB each from one core over one network: 131,072 bytes through a gate of 28.1 bytes per cycle.
    made: Events = []
    for row in (1, 2, 3, 4, 5, 7, 8, 9):
        owner = {"proc": "NCRISC", "sx": 3, "sy": row, "noc": "NOC_0"}
        for k in range(4):
            read = {"dx": 1, "dy": 1, "num_bytes": 4096, "type": "READ", "timestamp": 100 * k}
            made.append({**owner, **read})
        for kind, time in (("START", 400), ("END", 5000)):
            made.append(
                {**owner, "dx": -1, "dy": -1, "num_bytes": 0, "type": f"READ_BARRIER_{kind}", "timestamp": time}
            )
    predicted = compare(WORMHOLE, read_trace(write(tmp_path, made), WORMHOLE)).predicted
    least = 131_072 / 28.1
    assert predicted["no contention"] < 0.3 * least
    for model in MODELS[1:]:
        assert least < predicted[model] < 1.15 * least, model


@pytest.mark.slow
def test_the_command_writes_table_picture_and_page(tmp_path: Path, events: Events) -> None:
    traces, output = tmp_path / "traces", tmp_path / "out"
    traces.mkdir()
    for seed in range(3):
        write(traces, random_trace(WORMHOLE, seed), f"{'DRAM_' * (seed == 2)}made_{seed}")
    assert run(f"traces={traces}", "fabric=wormhole", f"output={output}") == 0
    rows = list(csv.reader((output / "replay.csv").read_text(encoding="utf-8").splitlines()))
    assert rows[0] == ["trace", "measured", "predicted"]
    assert [row[0] for row in rows[1:]] == ["DRAM_made_2", "made_0", "made_1"]
    for name, measured, predicted in rows[1:]:
        trace = read_trace(traces / f"{name}.json", WORMHOLE)
        assert int(measured) == trace.measured
        assert int(predicted) == compare(WORMHOLE, trace).predicted["cycle-level engine"]
    page = (output / "replay.html").read_text(encoding="utf-8")
    assert "Busiest links" in page and "NOC_1" in page
    assert (output / "replay_links.png").stat().st_size > 10_000


def edited(change: Callable[[Events], object]) -> Callable[[Events], str]:
    def apply(events: Events) -> str:
        copy = json.loads(json.dumps(events))
        change(copy)
        return json.dumps(copy)

    return apply


def _first(events: Events, kind: str) -> dict[str, Any]:
    return next(event for event in events if event.get("type") == kind)


def _only_barriers(events: Events) -> None:
    events[:] = [event for event in events if event.get("type") != "READ"]


def _late_empty_barrier(events: Events) -> None:
    owner = {"proc": "BRISC", "sx": 0, "sy": 2, "noc": "NOC_1", "dx": -1, "dy": -1, "num_bytes": 0}
    for kind, time in (("START", 1_000_100), ("END", 1_003_000)):
        events.append({**owner, "type": f"READ_BARRIER_{kind}", "timestamp": time})


BAD: dict[str, tuple[Callable[[Events], str], str]] = {
    "truncated": (lambda events: json.dumps(events)[:-200], "is no complete JSON"),
    "network": (edited(lambda e: _first(e, "READ").update(noc="NOC_7")), "unknown network 'NOC_7'; allowed: NOC_0"),
    "outside": (edited(lambda e: _first(e, "READ").update(dx=10)), "core (10, "),
    "reader": (edited(lambda e: e[0].update(sy=-1)), "outside of the grid of 10 x 12"),
    "no reads": (edited(_only_barriers), "no reads"),
    "long empty barrier": (edited(_late_empty_barrier), "barrier without reads"),
    "no end": (edited(lambda e: e.remove(_first(e, "READ_BARRIER_END"))), "at a barrier"),
    "no start": (edited(lambda e: e.remove(_first(e, "READ_BARRIER_START"))), "ends no barrier"),
    "type": (edited(lambda e: _first(e, "READ").update(type="WRITE")), "type 'WRITE' is not replayed"),
    "bytes": (edited(lambda e: _first(e, "READ").update(num_bytes=0)), "num_bytes=0"),
    "time": (edited(lambda e: e[0].update(timestamp="soon")), "timestamp='soon'"),
    "object": (lambda _: "{}", "holds no list of events"),
    "empty": (lambda _: "[]", "holds 0 events"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_traces_are_refused_in_one_line(
    case: str, tmp_path: Path, events: Events, capsys: pytest.CaptureFixture[str]
) -> None:
    make, message = BAD[case]
    (tmp_path / "bad.json").write_text(make(events), encoding="utf-8")
    assert run(f"traces={tmp_path}", f"output={tmp_path / 'out'}") == 2
    error = capsys.readouterr().err
    assert message in error and "bad.json" in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_other_wrong_input_is_refused(tmp_path: Path, events: Events, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"traces={tmp_path}") == 2
    assert "there is no *.json in it" in capsys.readouterr().err
    assert run(f"traces={tmp_path / 'none'}") == 2
    assert "is no folder" in capsys.readouterr().err
    write(tmp_path, events)
    assert run(f"traces={tmp_path}", "fabric=small", f"output={tmp_path / 'out'}") == 2
    assert "use fabric=wormhole" in capsys.readouterr().err
    assert run(f"traces={tmp_path}", "picture=maed", f"output={tmp_path / 'out'}") == 2
    assert "no such trace" in capsys.readouterr().err


def test_an_empty_barrier_is_no_error(tmp_path: Path, events: Events) -> None:
    # Processors with nothing to read do this on the chip.
    owner = {"proc": "BRISC", "sx": 0, "sy": 2, "noc": "NOC_1", "dx": -1, "dy": -1, "num_bytes": 0}
    more = [{**owner, "type": f"READ_BARRIER_{k}", "timestamp": 1_000_100 + t} for k, t in (("START", 0), ("END", 84))]
    assert len(read_trace(write(tmp_path, [*events, *more]), WORMHOLE).scripts) == 9


@pytest.mark.skipif(not MEASURED.is_dir(), reason="the measured traces are not at hand")
def test_measured_traces_are_predicted() -> None:
    with pytest.raises(InputError):
        load_traces(MEASURED, load_fabric("small"))
    compared = [compare(WORMHOLE, trace) for trace in load_traces(MEASURED, WORMHOLE)]
    for is_dram, most, least_rank in ((False, 0.03, 0.985), (True, 0.08, 0.97)):
        group = [one for one in compared if one.trace.is_dram == is_dram]
        engine, fluid = score_of(group), score_of(group, "fluid")
        assert engine.mean_error <= most and engine.spearman >= least_rank
        assert engine.mean_error < fluid.mean_error
        for half in (group[::2], group[1::2]):  # constants were fitted on the first
            assert score_of(half).mean_error <= most
