"""`python -m placer.place`: what it prints and writes, and one clear line for wrong input."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel.base import Calibration, save_calibration
from placer.annealing import AnnealOptions, MoveMix, Round, Schedule, Task
from placer.base import FloatArray, InputError
from placer.base.config import compose_config, run_command, to_dataclass
from placer.cost import Rules
from placer.cost.cost import RandomCost
from placer.decision import Decisions
from placer.decision.routing import load_decision
from placer.fabric import Fabric
from placer.netlist import Netlist
from placer.pipeline import PlaceConfig, SearchProgress, placing
from placer.pipeline.placing import Judged, affordable_steps
from placer.pipeline.report import RESULT_SCHEMA
from placer.place import main
from placer.show import draw_curve
from placer.simulation import label_limits, simulate
from tests import ROOT

pytestmark = pytest.mark.slow

# A small product: quick to lower, place, simulate and draw.
GEMM = ("workload=gemm", "workload.rows=32", "workload.width=32", "workload.columns=32")
NAME = "gemm-32x32x32"
STEM = f"{NAME}.small"
QUICK = "effort=0.02"


@dataclass(frozen=True, slots=True)
class Run:
    """How a run of the command ended."""

    code: int
    out: str
    err: str


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Run:
    with pytest.raises(SystemExit) as stop:
        run_command(main, "place", [str(argument) for argument in arguments])
    assert isinstance(stop.value.code, int)
    return Run(stop.value.code, *capsys.readouterr())


def config_of(*overrides: str) -> PlaceConfig:
    return to_dataclass(PlaceConfig, compose_config("place", overrides))


def read_result(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / "result.small.json").read_text(encoding="utf-8"))
    return result


@pytest.fixture(scope="module")
def good_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Output folder of a good run, made once; `printed.txt` beside it has what it printed."""
    folder = tmp_path_factory.mktemp("good") / "new" / "folder"
    printed = io.StringIO()
    with pytest.raises(SystemExit) as stop, redirect_stdout(printed):
        run_command(main, "place", [*GEMM, QUICK, "seed=3", f"output={folder}"])
    assert stop.value.code == 0
    (folder.parent / "printed.txt").write_text(printed.getvalue())
    return folder


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of the time of a small run."""
    monkeypatch.setattr("placer.pipeline.report.draw_placement", lambda *args, **kwargs: None)
    monkeypatch.setattr("placer.pipeline.report.draw_curve", lambda *args, **kwargs: None)
    monkeypatch.setattr("placer.pipeline.report.write_time", lambda *args: None)


def test_the_configuration_has_the_defaults_of_the_library() -> None:
    config = config_of()
    assert (config.moves, config.schedule, config.rules) == (MoveMix(), Schedule(), Rules())
    assert config.to_options() == AnnealOptions()


def test_slow_cost_models_bring_their_own_limits() -> None:
    config = config_of("cost=simulator")
    options = config.to_options()
    assert (config.start.value, options.start_temperature) == ("heuristic", 0.003)
    assert options.max_moves == 1000
    assert config_of("cost=simulator", "max_moves=null").max_moves is None
    assert config_of("cost=simulator", "start=random").start.value == "random"


def test_waiting_starts_share_the_time_limit() -> None:
    config = config_of("starts=5", "workers=2", "time_limit=30")
    assert config.to_options().time_limit == 10


def test_it_writes_all_files(good_run: Path) -> None:
    pictures = {f"{STEM}{part}.{kind}" for part in ("", ".curve") for kind in ("png", "svg")}
    pictures |= {f"{name}.small.{kind}" for name in ("time", "roofline", "energy") for kind in ("png", "svg")}
    others = {
        "time.small.csv",
        "plan.small.json",
        f"{STEM}.decision.json",
        f"{STEM}.curve.csv",
        "result.small.json",
        f"{STEM}.html",
    }
    assert {path.name for path in good_run.iterdir()} == pictures | others
    assert (good_run / f"{STEM}.curve.png").read_bytes().startswith(b"\x89PNG")
    assert "temperature" in (good_run / f"{STEM}.curve.svg").read_text(encoding="utf-8")


def test_the_result_tells_start_and_end(good_run: Path) -> None:
    result = read_result(good_run)
    (section,) = result["sections"]
    assert (result["schema"], result["seed"], result["cost"]) == (RESULT_SCHEMA, 3, "rules")
    assert (section["status"], section["result"]["simulation"]) == ("cooled", "steady")
    assert section["energy"] == section["result"]["energy"] < section["start"]["energy"]
    assert section["result"]["throughput"] > section["start"]["throughput"]
    tried = sum(section["accepted"].values()) + sum(section["refused"].values())
    assert section["moves"] == tried
    assert result["cycles_per_input"] == section["time"]["cycles_per_input"]
    assert sum(section["time"][part] for part in ("bound", "data", "congestion")) == pytest.approx(
        section["result"]["cycles_per_sample"]
    )
    assert 0 < result["share_of_peak"] < 1
    assert result["config"]["effort"] == 0.02
    assert result["config"]["fabric"]["name"] == "small"


def test_the_decision_has_the_throughput_that_was_told(good_run: Path) -> None:
    config = config_of(*GEMM)
    (section,) = config.lowered().sections
    netlist = section.netlist
    decision = load_decision(good_run / f"{STEM}.decision.json", config.fabric, netlist)
    measured = simulate(config.fabric, netlist, decision, label_limits(netlist.bound_cycles))[0]
    assert measured.throughput == read_result(good_run)["sections"][0]["result"]["throughput"]


def test_the_curve_falls(good_run: Path) -> None:
    with (good_run / f"{STEM}.curve.csv").open() as file:
        rows = list(csv.DictReader(file))
    best = np.array([float(row["best_energy"]) for row in rows])
    temperature = np.array([float(row["temperature"]) for row in rows])
    assert (np.diff(best) <= 1e-12).all()
    assert (np.diff(temperature) < 0).all()
    section = read_result(good_run)["sections"][0]
    assert int(rows[-1]["moves"]) == section["moves"]
    assert best[-1] == pytest.approx(section["energy"], abs=1e-6)


def test_it_prints_a_summary(good_run: Path) -> None:
    printed = (good_run.parent / "printed.txt").read_text()
    section = read_result(good_run)["sections"][0]
    for text in (
        f"{section['start']['throughput']:.4f}",
        f"{section['result']['throughput']:.4f}",
        f"{section['result']['predicted_throughput']:.4f}",
        "cooled after",
        "per second",
        "cost ",
        f"written to {good_run}",
    ):
        assert text in printed.replace("\n", "")


@pytest.mark.usefixtures("without_pictures")
def test_the_same_seed_gives_the_same_decision(
    capsys: pytest.CaptureFixture[str], good_run: Path, tmp_path: Path
) -> None:
    name = f"{STEM}.decision.json"
    for seed, is_same in ((3, True), (4, False)):
        assert run(capsys, *GEMM, QUICK, f"seed={seed}", f"output={tmp_path}").code == 0
        assert ((tmp_path / name).read_bytes() == (good_run / name).read_bytes()) == is_same


@pytest.mark.usefixtures("without_pictures")
def test_a_warm_start_with_the_simulator_is_never_worse(
    capsys: pytest.CaptureFixture[str], good_run: Path, tmp_path: Path
) -> None:
    warm = good_run / f"{STEM}.decision.json"
    options = ("cost=simulator", "max_moves=20", "final_routing=negotiated")
    done = run(capsys, *GEMM, *options, f"warm_start={warm}", f"output={tmp_path}")
    assert (done.code, done.err) == (0, "")
    (before,), (after,) = read_result(good_run)["sections"], read_result(tmp_path)["sections"]
    assert after["start"]["throughput"] == before["result"]["throughput"]
    assert after["result"]["throughput"] >= after["start"]["throughput"]
    assert after["energy"] == pytest.approx(-np.log(after["result"]["throughput"]))


@pytest.mark.usefixtures("without_pictures")
def test_calibrated_scores_are_told_and_rank_alike(
    capsys: pytest.CaptureFixture[str], good_run: Path, tmp_path: Path
) -> None:
    calibration = Calibration.fit([0.1, 0.9], [0.2, 0.5])
    save_calibration(tmp_path / "c.json", calibration)
    options = ("cost=calibrated", f"cost.calibration={tmp_path / 'c.json'}", "seed=3")
    done = run(capsys, *GEMM, QUICK, *options, f"output={tmp_path}")
    assert (done.code, done.err) == (0, "")
    name = f"{STEM}.decision.json"
    assert (tmp_path / name).read_bytes() == (good_run / name).read_bytes()
    (raw,), (told,) = read_result(good_run)["sections"], read_result(tmp_path)["sections"]
    predicted = calibration.apply([raw["result"]["predicted_throughput"]])[0]
    assert told["result"]["predicted_throughput"] == pytest.approx(predicted)
    assert "predicted (calibrated)" in done.out


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read {path}: No such file"),
        ("{", "file {path}: is no complete JSON"),
        ("[]", "file {path}: holds no object"),
        ('{"kind": "other"}', "file {path}: calibration: kind is 'other', needed"),
    ],
)
def test_wrong_calibrations_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str | None, message: str
) -> None:
    path, output = tmp_path / "c.json", tmp_path / "out"
    if content is not None:
        path.write_text(content)
    done = run(capsys, *GEMM, "cost=calibrated", f"cost.calibration={path}", f"output={output}")
    assert_refused(done, message.format(path=path), output)


@pytest.mark.usefixtures("without_pictures")
def test_constraints_are_kept(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("{schema: 1, forbidden: [0, 2], regions: [{op: load, columns: [0, 0]}]}")
    done = run(capsys, *GEMM, QUICK, f"constraints={path}", f"output={tmp_path / 'out'}")
    assert (done.code, done.err) == (0, "")
    sites = json.loads((tmp_path / "out" / f"{STEM}.decision.json").read_text())["sites"]
    assert not {0, 2} & set(sites.values())
    loads = [site for name, site in sites.items() if ".l" in name]
    assert loads
    assert all(64 <= site < 72 for site in loads)  # the ports of the left side


@pytest.mark.usefixtures("without_pictures")
def test_several_starts_are_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    done = run(capsys, *GEMM, QUICK, "starts=3", "workers=2", f"output={tmp_path}")
    assert (done.code, done.err) == (0, "")
    (section,) = read_result(tmp_path)["sections"]
    energies = [start["energy"] for start in section["starts"]]
    assert len(energies) == 3
    assert section["energy"] == pytest.approx(min(energies))
    assert section["best_start"] == energies.index(min(energies))
    assert "energies by start" in done.out


@pytest.mark.usefixtures("without_pictures")
def test_sections_are_placed_in_turn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    sizes = ("workload.rows=32", "workload.width=32", "workload.heads=2")
    case = ("workload=mha", *sizes, "fabric.columns=4", "fabric.rows=4", "max_moves=200")
    done = run(capsys, *case, f"output={tmp_path}")
    assert (done.code, done.err) == (0, "")
    result = read_result(tmp_path)
    sections = result["sections"]
    assert len(sections) > 1
    total = sum(s["time"]["cycles_per_input"] for s in sections)
    steady = sum(s["repeats"] * s["samples"] * s["result"]["cycles_per_sample"] for s in sections)
    assert total > steady
    assert result["cycles_per_input"] == pytest.approx(total)
    assert f"{total:,.0f} (batch of 32)" in done.out
    assert f"{sections[0]['netlist']}.small.html" in (tmp_path / "total.small.html").read_text(encoding="utf-8")
    warm = next(tmp_path.glob("*.decision.json"))
    done = run(capsys, *case, f"warm_start={warm}", f"output={tmp_path / 'x'}")
    assert_refused(done, f"warm_start={warm}: the graph has {len(sections)} sections", tmp_path / "x")


@pytest.mark.usefixtures("without_pictures")
def test_ctrl_c_while_the_result_is_simulated_loses_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(task: Task, *decisions: Decisions) -> list[Judged]:
        signal.raise_signal(signal.SIGINT)
        return judge(task, *decisions)

    judge = placing._judge
    monkeypatch.setattr(placing, "_judge", press)
    done = run(capsys, *GEMM, QUICK, f"output={tmp_path}")
    assert (done.code, done.err) == (130, "interrupted\n")
    result = read_result(tmp_path)
    assert result["is_interrupted"]
    assert (tmp_path / f"{STEM}.decision.json").is_file()


@pytest.mark.usefixtures("without_pictures")
def test_ctrl_c_writes_the_best_so_far(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(self: SearchProgress, phase: str, point: Round) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(SearchProgress, "on_round", press)
    done = run(capsys, *GEMM, QUICK, f"output={tmp_path}")
    assert (done.code, done.err) == (130, "interrupted\n")
    result = read_result(tmp_path)
    assert result["is_interrupted"]
    assert result["sections"][0]["status"] == "interrupted"
    assert result["cycles_per_input"] is None
    assert (tmp_path / f"{STEM}.decision.json").is_file()
    assert "Cut off by Ctrl-C" in (tmp_path / f"{STEM}.html").read_text(encoding="utf-8")


class TellingCost(RandomCost):
    """Leaves a file named after its process once the search is under way."""

    num_calls = 0

    def score(self, netlist: Netlist, decisions: Decisions) -> FloatArray:
        self.num_calls += 1
        if self.num_calls == 50:
            Path(os.environ["TELLING_FOLDER"], str(os.getpid())).touch()
        return super().score(netlist, decisions)


@dataclass(frozen=True, slots=True)
class TellingChoice:
    name: str

    def model(self, fabric: Fabric, rules: Rules, seed: int) -> TellingCost:
        return TellingCost(seed)


def test_ctrl_c_keeps_the_best_of_several_unfinished_starts(tmp_path: Path) -> None:
    told, output = tmp_path / "told", tmp_path / "out"
    told.mkdir()
    options = ("cost=random", f"cost.target={__name__}.TellingChoice", "max_moves=null", "effort=1e6")
    command = subprocess.Popen(
        [sys.executable, "-m", "placer.place", *GEMM, *options, "starts=3", "workers=2",
         f"output={output}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "TELLING_FOLDER": str(told)},
        cwd=ROOT,
    )  # fmt: skip
    deadline = time.monotonic() + 600
    while len(list(told.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    os.killpg(command.pid, signal.SIGINT)  # as a terminal does: to every process of the group
    _, err = command.communicate(timeout=120)
    assert (command.returncode, err) == (130, "interrupted\n")
    result = read_result(output)
    (section,) = result["sections"]
    assert result["is_interrupted"]
    assert [(s["number"], s["status"]) for s in section["starts"]] == [(0, "interrupted"), (1, "interrupted")]
    best = min(start["energy"] for start in section["starts"])
    assert section["energy"] == pytest.approx(best)


def assert_refused(done: Run, message: str, output: Path) -> None:
    """Exit code 2, one line, and nothing written."""
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert message in done.err
    assert done.err.count("\n") == 1
    assert not output.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("cost=foo", "unknown choice cost=foo; allowed: calibrated, heuristic, "),
        ("cost.target=no.such.Class", "cost.target='no.such.Class': No module named 'no'"),
        ("cost=calibrated", "missing value: set cost.calibration=<Path>"),
        ("moves.foo=1", "unknown key 'moves.foo'; allowed: group_swap, relocate, reroute"),
        ("moves.swap=-1", "moves MoveMix(relocate=30.0, swap=-1"),
        ("schedule.end=0", "schedule.end=0.0; allowed: more than 0"),
        ("rules.link=-1", "rules.link=-1.0; allowed 0 to 100"),
        ("effort=0", "effort=0.0 is out of range; allowed: more than 0"),
        ("effort=nan", "effort=nan is out of range"),
        ("time_limit=-1", "time_limit=-1.0 is out of range; allowed: more than 0"),
        ("max_moves=0", "max_moves=0 is out of range; allowed: 1 or more"),
        ("starts=0", "starts=0 is out of range; allowed: 1 or more"),
        ("workers=0", "workers=0 is out of range; allowed: 1 or more"),
        ("seed=-1", "seed=-1 is out of range; allowed: 0 or more"),
        ("start=warm", "start='warm' is no choice; allowed: heuristic, random"),
        ("final_routing=xy", "final_routing='xy' is no choice; allowed: dimension_ordered, neg"),
        ("constraints=no_such.yaml", "constraints file no_such.yaml: cannot read no_such.yaml"),
        ("warm_start=no_such.json", "decision file no_such.json: cannot be read: No such file"),
    ],
)
def test_wrong_settings_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: str, message: str
) -> None:
    output = tmp_path / "out"
    assert_refused(run(capsys, *GEMM, f"output={output}", arguments), message, output)


def test_an_impossible_region_is_refused_before_the_search(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placer.pipeline.placing.search_starts", lambda *args: pytest.fail("must not run"))
    path = tmp_path / "c.yaml"
    path.write_text("{schema: 1, regions: [{op: linear, rows: [0, 0], columns: [0, 1]}]}")
    done = run(capsys, *GEMM, f"constraints={path}", f"output={tmp_path / 'out'}")
    assert_refused(done, "must share 1 places ({row: 0, column: 0})", tmp_path / "out")


def test_the_decision_of_another_netlist_is_refused(
    capsys: pytest.CaptureFixture[str], good_run: Path, tmp_path: Path
) -> None:
    path, output = good_run / f"{STEM}.decision.json", tmp_path / "out"
    done = run(capsys, *GEMM, "workload.rows=48", f"warm_start={path}", f"output={output}")
    assert_refused(done, f"decision file {path}: made for netlist '{NAME}'", output)


def test_a_file_in_the_way_of_the_output_is_found_before_the_work(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("precious")
    monkeypatch.setattr("placer.place.place_sections", lambda *args: pytest.fail("must not run"))
    done = run(capsys, *GEMM, f"output={path / 'deeper'}")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"error: cannot make the folder {path / 'deeper'}: {path} is a file\n"
    assert path.read_text() == "precious"


def test_a_curve_needs_a_known_kind_of_picture(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"allowed \.png and \.svg"):
        draw_curve([], tmp_path / "curve.pdf", "nothing")
    draw_curve([], tmp_path / "curve.svg", "a search that was interrupted at once")
    assert "<svg" in (tmp_path / "curve.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("search_seconds", "judge_seconds", "number"),
    [(0.2, 0.05, 5), (0.2, 0.4, 2), (5.0, 2.0, 0), (120.0, 2.0, 3), (1000.0, 0.01, 5)],
)
def test_few_placements_on_the_way_are_simulated_where_that_takes_long(
    search_seconds: float, judge_seconds: float, number: int
) -> None:
    assert affordable_steps(search_seconds, judge_seconds) == number
