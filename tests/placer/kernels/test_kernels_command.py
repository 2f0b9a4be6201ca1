"""`python -m placer.kernels` and its benchmark: files, tables, one clear line for wrong input."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from placer.config import run_command
from placer.kernels import bench
from placer.kernels.__main__ import main
from placer.kernels.check import judge
from placer.kernels.generate import generate
from placer.kernels.kgraph_file import format_kgraph
from placer.kernels.layout_file import parse_layout

QUICK = ["preset=tiny", "time_limit=0.2", "engine=strips"]


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit_info:
        run_command(main, "kernels", arguments)
    return int(exit_info.value.code or 0)


def test_a_mapping_is_written_drawn_and_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "new/layout.txt"
    assert run(*QUICK, f"output={output}") == 0
    graph = generate("tiny")
    score = judge(graph, parse_layout(graph, output.read_text()))
    document = json.loads(output.with_suffix(".json").read_text())
    assert document["wafers"][0]["score"]["total"] == score.total
    assert output.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    text = capsys.readouterr().out
    assert f"{score.total:,.1f}" in text
    assert "utilisation" in text
    assert "4 kinds of kernels" in text


@pytest.mark.slow
def test_chains_write_one_file_per_wafer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "graph.kgraph"
    path.write_text(format_kgraph(generate("tiny_convs")))
    output = tmp_path / "layout.txt"
    sizes = "wafer_sizes=[[100,100],[80,60]]"
    assert run(f"kgraph={path}", f"output={output}", sizes) == 0
    assert (tmp_path / "layout.wafer1.txt").is_file()
    assert (tmp_path / "layout.wafer2.png").is_file()
    assert "slowest wafer of the chain" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("wafers=0", "wafers=0 is out of range"),
        ("time_limit=0", "must be more than 0"),
        ("seed=-1", "seed=-1 is out of range"),
        ("engine=fast", "engine"),
        ("output=folder", "name a file such as layout.txt"),
        ("wafer_sizes=[[1]]", "is no \\[width, height\\]"),
        ("kgraph=missing.kgraph", "cannot read missing.kgraph"),
        ("preset=none", "unknown preset"),
        ("out_rules.conv=k", "out_rules.conv"),
    ],
)
def test_wrong_settings_end_with_code_2(
    argument: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*QUICK, f"output={tmp_path}/layout.txt", argument) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert len(error.splitlines()) == 1
    assert re.search(message, error)


@pytest.mark.slow
def test_the_benchmark_prints_and_writes_its_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "bench.csv"
    arguments = [
        f"folder={tmp_path}", "presets=[tiny]", "engines=[strips,slicing]", "time_limit=0.2",
        f"output={output}",
    ]  # fmt: skip
    (tmp_path / "A.kgraph").write_text(format_kgraph(generate("tiny")))
    with pytest.raises(SystemExit) as exit_info:
        run_command(bench.main, "kernels_bench", arguments)
    assert not exit_info.value.code
    rows = [line.split(",") for line in output.read_text().splitlines()]
    assert [row[:2] for row in rows[1:]] == [
        ["A", "strips"], ["A", "slicing"], ["tiny", "strips"], ["tiny", "slicing"],
    ]  # fmt: skip
    assert "to CU.POKer" in capsys.readouterr().out
