"""`python -m placer.kernels` and its benchmark: files, tables, one clear line for wrong input."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from placer.base import StatusLine
from placer.base.config import run_command
from placer.kernels.__main__ import main
from placer.kernels.bench.__main__ import main as bench_main
from placer.kernels.model import format_kgraph, generate, judge, parse_layout
from placer.kernels.sizing import Problem
from placer.kernels.truth import simulate_mapping
from tests.placer.kernels.cases import written_wafers

pytestmark = pytest.mark.slow

QUICK = ["preset=tiny", "time_limit=0.2", "engine=strips"]


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit_info:
        run_command(main, "kernels", arguments)
    return int(exit_info.value.code or 0)


def test_a_mapping_is_written_drawn_and_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "new/layout.txt"
    assert run(*QUICK, f"output={output.parent}") == 0
    graph = generate("tiny")
    score = judge(graph, parse_layout(graph, output.read_text()))
    document = json.loads(output.with_suffix(".json").read_text())
    assert document["wafers"][0]["score"]["total"] == score.total
    assert document["wafers"][0]["throughput"] is None
    assert document["is_interrupted"] is False
    assert output.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    page = output.with_suffix(".html").read_text(encoding="utf-8")
    assert all(kernel.name in page for kernel in graph.kernels)
    assert f"{score.total:,.1f}" in page
    assert '<div class="boxes">' in page
    text = capsys.readouterr().out
    assert f"{score.total:,.1f}" in text
    assert "utilisation" in text


@pytest.mark.parametrize("sizes", [[[100, 100]], [[100, 100], [80, 60]]])
def test_throughput_is_written_where_a_cost_chose(
    sizes: list[list[int]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "layout.txt"
    chosen = ["preset=tiny_convs", "time_limit=0.5", "cost=simulator", f"wafer_sizes={sizes}"]
    assert run(*chosen, f"output={output.parent}") == 0
    cycles = []
    for part, layout, throughput in written_wafers(generate("tiny_convs"), output.with_suffix(".json")):
        measured = simulate_mapping(Problem(part), layout)
        assert throughput["simulated"] == pytest.approx(measured.throughput)
        assert throughput["predicted"] == throughput["simulated"]
        assert throughput["cycles_per_sample"] == pytest.approx(measured.cycles_per_sample)
        cycles.append(measured.cycles_per_sample)
    assert len(cycles) == len(sizes)
    says = f"simulated: {max(cycles):,.0f} cycles per sample, those of its slowest wafer"
    assert (says in capsys.readouterr().out) == (len(sizes) > 1)


def test_chains_write_one_file_per_wafer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "graph.kgraph"
    path.write_text(format_kgraph(generate("tiny_convs")))
    output = tmp_path / "layout.txt"
    sizes = "wafer_sizes=[[100,100],[80,60]]"
    assert run(f"kgraph={path}", f"output={output.parent}", sizes, "wafers=2", "time_limit=0.5") == 0
    assert (tmp_path / "layout.wafer1.txt").is_file()
    assert (tmp_path / "layout.wafer2.png").is_file()
    assert "slowest wafer of the chain" in capsys.readouterr().out


@pytest.mark.parametrize("wafers", [["wafer_sizes=[[100,90]]"], ["wafers=2"]])
def test_ctrl_c_writes_the_best_so_far(
    wafers: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    presses = iter([signal.SIGINT])

    def press_once(*_: object) -> None:
        for number in presses:
            signal.raise_signal(number)

    monkeypatch.setattr(StatusLine, "note", press_once)  # something was found
    output = tmp_path / "layout.txt"
    assert run("preset=tiny", *wafers, "time_limit=600", f"output={output.parent}") == 130
    text = capsys.readouterr()
    assert text.err == "interrupted\n"
    assert "written: " in text.out
    document = json.loads(output.with_suffix(".json").read_text())
    assert document["is_interrupted"] is True
    assert "Cut off by Ctrl-C" in output.with_suffix(".html").read_text(encoding="utf-8")
    names = [kernel["name"] for wafer in document["wafers"] for kernel in wafer["kernels"]]
    assert sorted(names) == sorted(kernel.name for kernel in generate("tiny").kernels)


def test_ctrl_c_before_the_first_layout_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def press(line: StatusLine) -> StatusLine:
        signal.raise_signal(signal.SIGINT)
        return line

    monkeypatch.setattr(StatusLine, "__enter__", press)
    assert run("preset=tiny", "time_limit=600", f"output={tmp_path}") == 130
    assert capsys.readouterr() == ("", "interrupted\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("wafers=0", "wafers=0 is out of range"),
        ("time_limit=0", "must be more than 0"),
        ("seed=-1", "seed=-1 is out of range"),
        ("engine=fast", "engine"),
        ("output=layout.json", "such a file goes beside the layout; name a folder"),
        ("wafer_sizes=[[1]]", r"\[1\] is no \[width, height\]"),
        ("wafer_sizes=[[1,5000]]", r"is no \[width, height\] of 1 to 2048"),
        ("wafer_sizes=[]", "wafer_sizes has 0 entries"),
        ("wafer_sizes=[[5,5]]", r"kernel k1 .* 5 x 5 .* smallest square grid .* \d+ x \d+"),
        ("wafer_sizes=[[5,5],[4,4]]", r"kernel k1 .* 5 x 5 .* smallest square grid"),
        ("kgraph=missing.kgraph", "cannot read missing.kgraph"),
        ("preset=none", "unknown preset"),
        ("out_rules.conv=k", "out_rules.conv"),
    ],
)
def test_wrong_settings_end_with_code_2(
    argument: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*QUICK, f"output={tmp_path}", argument) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert len(error.splitlines()) == 1
    assert re.search(message, error)


def test_more_wafers_than_sizes_end_with_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*QUICK, "wafers=4", "wafer_sizes=[[100,100],[90,90]]") == 2
    assert "wafers=4, but wafer_sizes has 2 entries" in capsys.readouterr().err


def test_one_wafer_size_takes_the_place_of_the_graphs_own(tmp_path: Path) -> None:
    output = tmp_path / "layout.txt"
    assert run(*QUICK, "wafer_sizes=[[90,120]]", f"output={output.parent}") == 0
    wafer = json.loads(output.with_suffix(".json").read_text())["wafers"][0]["wafer"]
    assert (wafer["width"], wafer["height"]) == (90, 120)


HEAD = "(*\ntest=t\nwidth=30\nheight=30\nmemlimit=500\n*)\n"
CHAIN = "conv[1] W=1 H=1 R=1 S=1 C=64 K=64 T=1\nconv[2] W=1 H=1 R=1 S=1 C=64 K=64 T=1\n"


BIG = "W=999999 H=999999 R=1 S=1 C=999999"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "pool[1] h=2\n", "node 1: unknown type 'pool'; allowed: conv, dblock, cblock"),
        (HEAD + CHAIN + "conv[1] W=1 H=1 R=1 S=1 C=1 K=1 T=1\n", "duplicate node id 1"),
        (HEAD + CHAIN + "conv[1]:y -> conv[2]:x\nconv[2]:y -> conv[1]:x\n", "the graph has a cycle: 1 -> 2 -> 1"),
        (HEAD.replace("500", "60") + "conv[1] W=9 H=9 R=9 S=9 C=1 K=1 T=1\n", "exceeds the memory"),
        (HEAD.replace("=30", "=5") + CHAIN, r"kernel k1 .* 5 x 5 .* smallest square grid .* 6 x 6"),
        (HEAD.replace("=30", "=6") + CHAIN, r"largest is k1 .* smallest square grid .*: 9 x 9;"),
        (HEAD.replace("=30", " 30") + CHAIN, "header line 'width 30' is not key=value"),
        (HEAD.replace("width", "widht") + CHAIN, "unknown key 'widht'; allowed: test, width"),
        (HEAD.replace("=30", "=1e9") + CHAIN, "width='1e9' is not a whole number"),
        (HEAD.replace("=30", "=99999") + CHAIN, "width=99999 is out of range; allowed: 1 to 2048"),
        (HEAD.replace("height", "width") + CHAIN, "width is given twice"),
        (HEAD.replace("*)", "") + CHAIN, "not closed"),
        (HEAD + CHAIN.replace("T=1", "T=1 name='a'"), "two kernels are named 'a'"),
        (HEAD + CHAIN.replace("W=1 H=1 R=1 S=1 C=64", BIG), "too large to be counted"),
        ("", "no kernel to place"),
    ],
)
def test_bad_graphs_end_with_code_2(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.kgraph"
    path.write_text(text)
    assert run(f"kgraph={path}", "time_limit=0.2", f"output={tmp_path}") == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert len(error.splitlines()) == 1
    assert re.search(message, error), error


def run_bench(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit_info:
        run_command(bench_main, "kernels_bench", arguments)
    return int(exit_info.value.code or 0)


def test_the_benchmark_prints_writes_publishes_and_goes_on_where_it_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        f"folder={tmp_path}", "presets=[tiny]", "engines=[auto,strips]", "time_limit=0.2",
        "others_limit=0.2", "times=[A]", "times_limit=0.2", f"output={tmp_path}/out",
        f"publish={tmp_path}/copy", "workers=1", "variants_of=tiny", "seeds=[0,1]", "rules=[c_n,'min(c,k)']",
    ]  # fmt: skip
    (tmp_path / "A.kgraph").write_text(format_kgraph(generate("tiny")))
    assert run_bench(*arguments) == 0
    text = capsys.readouterr().out
    report = (tmp_path / "out/report.md").read_text()
    assert (tmp_path / "copy/report.md").read_text() == report
    for words in ("to CU.POKer", "mean of 1", "speed-up", "non-dominated variants", "median to best published"):
        assert words in text
        assert words in report
    stored = sorted((tmp_path / "out/jobs").iterdir())
    assert len(stored) == 2 * 2 * 2 + 2 + 1 + 1 + 1  # graphs x seeds x rules, the other engine, and single ones
    stamps = [path.stat().st_mtime_ns for path in stored]
    stored[0].unlink()
    assert run_bench(*arguments) == 0
    again = [path.stat().st_mtime_ns for path in stored]
    assert again[1:] == stamps[1:]
    assert again[0] != stamps[0]


def test_the_benchmark_refuses_unknown_names_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_bench("presets=[tiny,nope]") == 2
    assert "unknown preset 'nope'" in capsys.readouterr().err
    assert run_bench("engines=[]") == 2
    assert "engines=[]" in capsys.readouterr().err
    assert run_bench("seeds=[1,1]") == 2
    assert "seeds=[1, 1]" in capsys.readouterr().err
    assert run_bench("letters=AZ") == 2
    assert "letters='AZ'" in capsys.readouterr().err
