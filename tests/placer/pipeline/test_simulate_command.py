"""`python -m placer.simulate`: what it prints and writes, and one clear line for wrong input."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from placer.base.config import CONF_DIR, run_command
from placer.pipeline.report import RESULT_SCHEMA
from placer.simulate import main
from placer.simulation import Limits, simulate

# A small product: quick to lower, simulate and draw.
GEMM = ("workload=gemm", "workload.rows=32", "workload.width=32", "workload.columns=32")
NAME = "gemm-32x32x32"
STEM = f"{NAME}.small"  # of its files: netlist and fabric


@dataclass(frozen=True, slots=True)
class Run:
    """How a run of the command ended."""

    code: int
    out: str
    err: str


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Run:
    with pytest.raises(SystemExit) as stop:
        run_command(main, "simulate", [str(argument) for argument in arguments])
    assert isinstance(stop.value.code, int)
    return Run(stop.value.code, *capsys.readouterr())


def refuse_constant(name: str) -> float:
    raise AssertionError(f"{name} is no valid JSON")


def read_result(folder: Path, fabric: str = "small") -> dict[str, Any]:
    text = (folder / f"result.{fabric}.json").read_text(encoding="utf-8")
    result: dict[str, Any] = json.loads(text, parse_constant=refuse_constant)
    return result


@pytest.fixture(scope="module")
def good_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Output folder of a good run, made once; `printed.txt` beside it has what it printed."""
    folder = tmp_path_factory.mktemp("good") / "new" / "folder"
    printed = io.StringIO()
    with pytest.raises(SystemExit) as stop, redirect_stdout(printed):
        run_command(main, "simulate", [*GEMM, "seed=3", f"output={folder}"])
    assert stop.value.code == 0
    (folder.parent / "printed.txt").write_text(printed.getvalue())
    return folder


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes most of the time of a small run."""
    monkeypatch.setattr("placer.pipeline.report.draw_placement", lambda *args, **kwargs: None)
    monkeypatch.setattr("placer.pipeline.report.write_time", lambda *args: None)


def test_it_prints_period_bound_throughput_and_critical_resource(good_run: Path) -> None:
    printed = (good_run.parent / "printed.txt").read_text()
    (section,) = read_result(good_run)["sections"]
    facts = dict(line.split("  ", 1) for line in printed.splitlines() if "  " in line)
    assert facts["cycles per sample"].strip() == f"{section['cycles_per_sample']:.1f}"
    assert facts["bound"].split()[0] == str(section["bound_cycles"])
    assert facts["normalised throughput"].strip() == f"{section['throughput']:.3f}"
    assert section["critical"].startswith(facts["critical resource"].strip())
    assert f"written to {good_run}" in printed.replace("\n", "")


def test_it_writes_result_pictures_and_decision(good_run: Path) -> None:
    names = {f"{STEM}.{suffix}" for suffix in ("decision.json", "html", "png", "svg")}
    names |= {f"{kind}.small.{suffix}" for kind in ("time", "roofline", "energy") for suffix in ("png", "svg")}
    names |= {"result.small.json", "plan.small.json", "time.small.csv"}
    assert {path.name for path in good_run.iterdir()} == names
    assert (good_run / f"{STEM}.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (good_run / f"{STEM}.svg").read_text(encoding="utf-8")


def test_the_result_is_complete_and_finite(good_run: Path) -> None:
    result = read_result(good_run)
    (section,) = result["sections"]
    assert (result["schema"], result["fabric"], result["seed"]) == (RESULT_SCHEMA, "small", 3)
    assert (section["netlist"], section["status"]) == (NAME, "steady")
    assert section["throughput"] == section["bound_cycles"] / section["cycles_per_sample"]
    assert 0 < section["throughput"] <= 1
    assert result["batch"] == 32
    assert result["cycles_per_input"] == section["time"]["cycles_per_input"] > section["cycles_per_sample"]
    assert sum(result["time"].values()) == pytest.approx(result["cycles_per_input"])
    assert result["milliseconds_per_input"] * result["inputs_per_second"] == pytest.approx(1000)
    assert 0 < result["share_of_peak"] < section["throughput"]
    assert section["first_sample_cycles"] <= section["cycles_simulated"]
    assert max(section["link_utilisation"]) <= 1
    for shares in section["unit_time"].values():
        assert math.isclose(sum(shares.values()), 1, abs_tol=1e-3)


@pytest.mark.usefixtures("without_pictures")
def test_a_written_decision_can_be_simulated_again(
    capsys: pytest.CaptureFixture[str], good_run: Path, tmp_path: Path
) -> None:
    decision = good_run / f"{STEM}.decision.json"
    done = run(capsys, *GEMM, "seed=9", f"placement={decision}", f"output={tmp_path}")
    assert done.code == 0
    (first,), (again,) = read_result(good_run)["sections"], read_result(tmp_path)["sections"]
    assert again == first
    assert (tmp_path / decision.name).read_bytes() == decision.read_bytes()


@pytest.mark.usefixtures("without_pictures")
def test_two_placements_stand_beside_each_other(
    capsys: pytest.CaptureFixture[str], good_run: Path, tmp_path: Path
) -> None:
    done = run(capsys, *GEMM, "seed=9", f"beside={good_run}", f"output={tmp_path}")
    (first,), (both,) = read_result(good_run)["sections"], read_result(tmp_path)["sections"]
    assert done.code == 0
    assert both["beside"] == {name: first[name] for name in both["beside"]}
    assert both["cycles_per_sample"] != first["cycles_per_sample"]
    page = (tmp_path / f"{STEM}.html").read_text(encoding="utf-8")
    assert "Two placements" in page
    assert page.count('class="panel"') == 2
    assert f"throughput {first['throughput']:.3f}" in done.out


@pytest.mark.usefixtures("without_pictures")
def test_a_folder_without_the_decision_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    done = run(capsys, *GEMM, f"beside={tmp_path}", f"output={tmp_path / 'x'}")
    assert_refused(done, f"decision file {tmp_path / STEM}.decision.json: cannot be read: No such file", tmp_path / "x")


@pytest.mark.usefixtures("without_pictures")
def test_the_same_seed_gives_the_same_bytes(capsys: pytest.CaptureFixture[str], good_run: Path, tmp_path: Path) -> None:
    assert run(capsys, *GEMM, "seed=3", f"output={tmp_path / 'same'}").code == 0
    assert run(capsys, *GEMM, "seed=4", f"output={tmp_path / 'other'}").code == 0
    for name in ("result.small.json", f"{STEM}.decision.json"):
        first = (good_run / name).read_bytes()
        assert (tmp_path / "same" / name).read_bytes() == first
        assert (tmp_path / "other" / name).read_bytes() != first


def graph_text(**changes: Any) -> str:
    """A graph file: x -> product -> y; `changes` replace top-level fields."""
    product = {"name": "product", "kind": "linear", "inputs": ["x"]}
    ops: list[dict[str, Any]] = [
        {"name": "x", "kind": "load", "shape": [32, 32]},
        {**product, "attributes": {"weight": "w", "columns": 32}},
        {"name": "y", "kind": "store", "inputs": ["product"]},
    ]
    return json.dumps({"schema": 1, "name": "g", "family": "gemm", "ops": ops} | changes)


def graph_with(*ops: dict[str, Any]) -> str:
    load = {"name": "x", "kind": "load", "shape": [32, 16]}
    return graph_text(ops=[load, *ops, {"name": "y", "kind": "store", "inputs": [ops[-1]["name"]]}])


@pytest.mark.slow
def test_a_graph_file_with_strange_names_stays_in_its_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "g.json").write_text(graph_text(name="../up [/b] :cat:"))
    done = run(capsys, f"graph={tmp_path / 'g.json'}", f"output={tmp_path / 'out'}")
    assert (done.code, done.err) == (0, "")
    assert "../up [/b] :cat: on small" in done.out
    assert {path.name for path in tmp_path.iterdir()} == {"g.json", "out"}
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert "result.small.json" in written
    assert ".._up___b___cat_.small.decision.json" in written


@pytest.mark.usefixtures("without_pictures")
def test_runs_on_two_fabrics_share_a_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for fabric in ("small", "small_v2"):
        assert run(capsys, *GEMM, f"fabric={fabric}", f"output={tmp_path}").code == 0
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {
        f"{NAME}.small.decision.json",
        f"{NAME}.small.html",
        f"{NAME}.small_v2.decision.json",
        f"{NAME}.small_v2.html",
        "plan.small.json",
        "plan.small_v2.json",
        "result.small.json",
        "result.small_v2.json",
    }
    for fabric in ("small", "small_v2"):
        assert read_result(tmp_path, fabric)["fabric"] == fabric


@pytest.mark.usefixtures("without_pictures")
def test_the_name_of_a_fabric_stays_in_its_folder(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    output = tmp_path / "out"
    assert run(capsys, *GEMM, "fabric.name='../mine'", f"output={output}").code == 0
    names = {f"{NAME}..._mine.decision.json", f"{NAME}..._mine.html", "plan..._mine.json", "result..._mine.json"}
    assert {path.name for path in output.iterdir()} == names
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.slow
@pytest.mark.usefixtures("without_pictures")
def test_a_graph_in_sections_has_a_row_per_section_and_a_sum(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = ("workload.rows=32", "workload.width=32", "workload.heads=2")
    case = ("workload=mha", *sizes, "fabric.columns=4", "fabric.rows=4")
    done = run(capsys, *case, f"output={tmp_path}")
    result = read_result(tmp_path)
    assert (done.code, done.err) == (0, "")
    assert len(result["sections"]) > 1
    total = sum(s["time"]["cycles_per_input"] for s in result["sections"])
    steady = sum(s["repeats"] * s["samples"] * s["cycles_per_sample"] for s in result["sections"])
    assert result["cycles_per_input"] == pytest.approx(total)
    assert sum(result["time"][part] for part in ("bound", "data", "congestion")) == pytest.approx(steady)
    assert f"{total:,.0f} (batch of 32)" in done.out
    page = (tmp_path / "total.small.html").read_text(encoding="utf-8")
    for section in result["sections"]:
        assert f'<a href="./{section["netlist"]}.small.html">' in page
        assert (tmp_path / f"{section['netlist']}.small.html").is_file()
    for section in result["sections"]:
        assert f"│ {section['netlist']} " in done.out  # a whole name in its row, not cut
    monkeypatch.setattr("placer.base.console.FILE_COLUMNS", 80)
    narrow = run(capsys, *case, f"output={tmp_path}").out
    name_column = "".join(line[1:].split("│")[0].strip() for line in narrow.splitlines())
    assert "…" not in narrow
    for section in result["sections"]:
        assert section["netlist"] in name_column  # goes on in the next line
    assert len(list(tmp_path.glob("*.decision.json"))) == len(result["sections"])
    decision = next(tmp_path.glob("*.decision.json"))
    done = run(capsys, *case, f"placement={decision}", f"output={tmp_path / 'x'}")
    assert_refused(done, f"placement={decision}: the graph has", tmp_path / "x")
    again = run(capsys, *case, f"placement={tmp_path}", f"output={tmp_path / 'again'}")
    assert (again.code, read_result(tmp_path / "again")["sections"]) == (0, result["sections"])


@pytest.mark.usefixtures("without_pictures")
def test_a_period_that_was_not_reached_is_null(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placer.pipeline.simulating.simulate", partial(simulate, limits=Limits(max_cycles=50)))
    done = run(capsys, *GEMM, f"output={tmp_path}")
    result = read_result(tmp_path)
    assert (done.code, done.err) == (0, "")
    assert "warning: not every section reached a steady state" in done.out
    assert result["sections"][0]["status"] == "cap"
    assert result["sections"][0]["cycles_per_sample"] is None
    assert result["cycles_per_input"] is None


def assert_refused(done: Run, message: str, output: Path) -> None:
    """Code 2, one line on stderr, nothing on stdout, nothing written."""
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {message}")
    assert done.err.count("\n") == 1
    assert done.err.endswith("\n")
    assert not output.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("fabric.ports_per_side=0", "fabric 'small': no DRAM ports (ports_per_side=0)"),
        ("fabric=smal", "unknown choice fabric=smal; did you mean 'small'? allowed: large"),
        ("fabric=wormhole", "fabric 'wormhole' has cores and no compute units; it is for placer.replay"),
        ("fabric=7", "Config group override must be a string or a list. Got int; write for"),
        ("workload=bert", "unknown choice workload=bert; did you mean 'bert_base'? allowed: "),
        ("workload.family=rnn", "unknown workload family 'rnn'; known: gemm, mlp, ffn, mha"),
        ("workload.rows=0", "gemm: rows=0; allowed 1 to"),
        ("workload.heads=2", "unknown key 'workload.heads'; allowed: columns, family, random"),
        ("sed=1", "unknown key 'sed'; did you mean 'seed'? allowed: batch, beside, fabric"),
        ("seed=abc", "seed='abc' has the wrong type; expected int"),
        ("seed=-1", "seed=-1 is out of range; allowed: 0 or more"),
        ("fill=0", "fill=0.0 is out of range; allowed: above 0 up to 1"),
        ("fill=nan", "fill=nan is out of range; allowed: above 0 up to 1"),
        ("fill=1.01", "fill=1.01 is out of range; allowed: above 0 up to 1"),
        ("batch=0", "batch=0 is out of range; allowed: 1 or more"),
        ("fabric.clock_mhz=-1", "fabric 'small': clock_mhz=-1 is out of range; allowed 0 to"),
        ("sample_cycles=0", "sample_cycles=0 is out of range; allowed: 1 or more"),
        ("routing=foo", "routing='foo' is no choice; allowed: mixed, negotiated, xy, yx"),
        ("graph=no_such.json", "cannot read no_such.json: No such file or directory"),
        ("placement=no_such.json", "decision file no_such.json: cannot be read: No such file"),
        ("--verbose", "unknown option '--verbose'; allowed: --help"),
    ],
)
def test_wrong_settings_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: str, message: str
) -> None:
    output = tmp_path / "out"
    assert_refused(run(capsys, *GEMM, f"output={output}", arguments), message, output)


@pytest.mark.slow
def test_a_model_that_cannot_fit_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = ("workload=bert_large", "workload.layers=1", "workload.training=true", "fabric=small")
    done = run(capsys, *model, f"output={tmp_path / 'out'}")
    message = "does not fit: bytes of on-chip memory, for op 'layer0.ffn.down.weight_grad' alone: needed "
    assert_refused(done, message, tmp_path / "out")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            graph_with({"name": "z", "kind": "conv", "inputs": ["x"]}),
            "op 1: unknown kind 'conv'; known kinds: load, constant, store",
        ),
        (
            graph_with(
                {"name": "t", "kind": "transpose", "inputs": ["x"]}, {"name": "z", "kind": "add", "inputs": ["x", "t"]}
            ),
            "op 'z': add of [32, 16], [16, 32] does not work; rule: all inputs have one shape",
        ),
        (
            graph_with(
                {"name": "a", "kind": "add", "inputs": ["x", "b"]}, {"name": "b", "kind": "relu", "inputs": ["a"]}
            ),
            "graph 'g': cycle ",
        ),
        (graph_text()[:-20], "not valid JSON ("),
        ("", "not valid JSON ("),
        ("[]", "graph: expected an object, got list"),
        (graph_text(schema=99), "graph: schema 99; this version reads 1"),
        (graph_text(ops=[]), "graph 'g': no input"),
        (
            graph_with({"name": "z", "kind": "relu", "inputs": ["w"]}),
            "graph 'g': op 'z' reads 'w', which no op makes for reading",
        ),
    ],
    ids=["unknown op", "shapes", "cycle", "truncated", "empty", "list", "schema", "no ops", "name"],
)
def test_wrong_graphs_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, message: str) -> None:
    path, output = tmp_path / "graph.json", tmp_path / "out"
    path.write_text(text)
    done = run(capsys, f"graph={path}", f"output={output}")
    assert_refused(done, f"graph file {path}: {message}", output)


def test_a_graph_without_work_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path, output = tmp_path / "graph.json", tmp_path / "out"
    path.write_text(graph_with({"name": "t", "kind": "transpose", "inputs": ["x"]}))
    done = run(capsys, f"graph={path}", f"output={output}")
    assert_refused(done, f"graph file {path}: graph 'g': nothing to compute", output)


@pytest.mark.slow
def test_a_graph_file_that_is_no_text_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, good_run: Path
) -> None:
    path, output = good_run / f"{STEM}.png", tmp_path / "out"
    done = run(capsys, f"graph={path}", f"output={output}")
    assert_refused(done, f"cannot read {path}: it is no UTF-8 text", output)


def on_taken_site(document: dict[str, Any]) -> None:
    document["sites"]["product.1"] = document["sites"]["product.0"]
    del document["routes"]


def on_wrong_kind(document: dict[str, Any]) -> None:
    document["sites"]["product.1"] = document["sites"]["x.b0"]


def without_a_unit(document: dict[str, Any]) -> None:
    del document["sites"]["product.1"]


def on_other_fabric(document: dict[str, Any]) -> None:
    document["fabric"] = "large"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (on_taken_site, "holds product.0, product.1: 2 units, allowed 1 on a compute site"),
        (on_wrong_kind, "(product.1) needs a compute site, but site"),
        (without_a_unit, "'sites': 1 entries missing, the first is 'product.1'"),
        (on_other_fabric, "made for fabric 'large', not for 'small'"),
    ],
)
def test_wrong_placements_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, good_run: Path, change: Any, message: str
) -> None:
    document = json.loads((good_run / f"{STEM}.decision.json").read_text())
    change(document)
    path, output = tmp_path / "decision.json", tmp_path / "out"
    path.write_text(json.dumps(document))
    done = run(capsys, *GEMM, f"placement={path}", f"output={output}")
    assert_refused(done, f"decision file {path}: ", output)
    assert message in done.err


def test_a_truncated_placement_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, good_run: Path) -> None:
    path, output = tmp_path / "decision.json", tmp_path / "out"
    path.write_text((good_run / f"{STEM}.decision.json").read_text()[:-100])
    done = run(capsys, *GEMM, f"placement={path}", f"output={output}")
    assert_refused(done, f"decision file {path}: is no complete JSON: ", output)


def test_the_placement_of_another_netlist_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, good_run: Path
) -> None:
    path, output = good_run / f"{STEM}.decision.json", tmp_path / "out"
    done = run(capsys, *GEMM, "workload.rows=48", f"placement={path}", f"output={output}")
    assert_refused(done, f"decision file {path}: made for netlist '{NAME}'", output)


@pytest.mark.parametrize("inside", ["", "deeper/folder"])
def test_a_file_in_the_way_of_the_output_is_found_before_the_work(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: str
) -> None:
    path = tmp_path / "file"
    path.write_text("precious")
    monkeypatch.setattr("placer.simulate.simulate_sections", lambda *args: pytest.fail("must not run"))
    done = run(capsys, *GEMM, f"output={path / inside}")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"error: cannot make the folder {path / inside}: {path} is a file\n"
    assert path.read_text() == "precious"


def process(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "placer.simulate", *arguments],
        cwd=cwd,
        env={"PYTHONPATH": str(CONF_DIR.parent)},
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_the_process_agrees_with_the_function(good_run: Path, tmp_path: Path) -> None:
    done = process(*GEMM, "seed=3", "output=out", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "critical resource" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    name = "result.small.json"
    assert (tmp_path / "out" / name).read_bytes() == (good_run / name).read_bytes()


@pytest.mark.slow
def test_the_process_refuses_wrong_input(tmp_path: Path) -> None:
    done = process("graph=no_such.json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: cannot read no_such.json: No such file or directory\n"
    assert list(tmp_path.iterdir()) == []
