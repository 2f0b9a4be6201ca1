"""The study of label precision and fill."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from placer.base.config import compose_config, run_command, to_dataclass
from placer.study.labels import LabelsConfig, NetlistLabels, fill_rows, label_rows, main, measure_labels

TINY = ("netlists=2", "labelled=1", "placements=2", "sample_cycles=40", "seeds=[3]", "models=[]")
SHORT = ("long_warmup_samples=4", "long_window_samples=8")


def run(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as stop:
        run_command(main, "labels", arguments)
    return stop.value.code


def result(family: str, fill: float, cycles: list[float], precise: list[float], long: list[float]) -> NetlistLabels:
    return NetlistLabels(family, 0, "n", fill, np.array(cycles), np.array(precise), np.array(long))


RESULTS = [
    result("gemm", 0.4, [110.0, 90.0], [100.0, 96.0], [100.0, 100.0]),
    result("gemm", 0.8, [], [], []),
    result("mlp", 0.7, [102.0], [101.0], [100.0]),
]


def test_precision_counts_errors_in_both_directions() -> None:
    assert label_rows(RESULTS) == [
        ["gemm", "2", "10.0%", "10.0%", "10.0%", "+0.0%", "2.0%", "3.8%", "4.0%", "-2.0%"],
        ["mlp", "1", "2.0%", "2.0%", "2.0%", "+2.0%", "1.0%", "1.0%", "1.0%", "+1.0%"],
        ["all", "3", "7.3%", "10.0%", "10.0%", "+0.7%", "1.7%", "3.7%", "4.0%", "-1.0%"],
    ]


def test_fill_counts_all_netlists() -> None:
    assert fill_rows(RESULTS, {"gemm": 0.75, "mlp": 0.84}) == [
        ["gemm", "75%", "2", "40%", "60%", "80%", "50%"],
        ["mlp", "84%", "1", "70%", "70%", "70%", "100%"],
    ]


@pytest.mark.slow
def test_the_command_writes_tables_and_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("families=[gemm,mlp]", *TINY, *SHORT, f"output={tmp_path}") == 0
    assert capsys.readouterr().err == ""
    names = {"labels.md", "labels.csv", "labels_fill.csv", "labels_short.csv"}
    assert {path.name for path in tmp_path.iterdir()} == names
    precision, fill, short = (tmp_path / "labels.md").read_text().split("\n\n")
    assert [line.split(" | ")[0] for line in short.splitlines()[2:]] == ["| gemm", "| mlp"]
    assert [line.split(" | ")[0] for line in precision.splitlines()[2:]] == [
        "| gemm", "| mlp", "| all",
    ]  # fmt: skip
    assert len(fill.splitlines()) == 4
    with open(tmp_path / "labels.csv", newline="") as file:
        labels = list(csv.DictReader(file))
    assert [label["family"] for label in labels] == ["gemm"] * 2 + ["mlp"] * 2
    for label in labels:
        long_cycles = float(label["long_cycles"])
        for cycles, error in (("cycles", "errors"), ("precise_cycles", "precise_errors")):
            expected = float(label[cycles]) / long_cycles - 1
            assert float(label[error]) == pytest.approx(expected, abs=1e-4)
    with open(tmp_path / "labels_fill.csv", newline="") as file:
        fills = [(row["family"], row["sizes"], row["seed"]) for row in csv.DictReader(file)]
    assert fills == [("gemm", "default", ""), ("mlp", "default", "")] + [
        (family, "random", "3") for family in ("gemm", "gemm", "mlp", "mlp")
    ]


@pytest.mark.slow
def test_equal_seeds_give_equal_labels(tmp_path: Path) -> None:
    config = to_dataclass(LabelsConfig, compose_config("labels", [*TINY, *SHORT]))
    first, second = (measure_labels(config, "gemm", 3, 0) for _ in range(2))
    np.testing.assert_array_equal(first.cycles, second.cycles)
    np.testing.assert_array_equal(first.precise_cycles, second.precise_cycles)
    np.testing.assert_array_equal(first.long_cycles, second.long_cycles)
    assert first.name == second.name
    other = measure_labels(config, "gemm", 4, 0)
    assert other.cycles.tolist() != first.cycles.tolist()


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("families=[rnn]", "families[0]='rnn' is no choice; allowed: ffn, gemm, mha, mlp"),
        ("seeds=[]", "seeds=[] is empty; allowed: one or more"),
        ("seeds=[-1]", "seeds[0]=-1 is out of range; allowed: 0 or more"),
        ("labelled=30", "labelled=30; allowed: 1 to netlists=25"),
        ("placements=0", "placements=0 is out of range; allowed: 1 or more"),
        ("sample_cycles=0", "sample_cycles=0 is out of range; allowed: 1 or more"),
    ],
)
def test_wrong_settings_give_one_line_and_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], argument: str, message: str
) -> None:
    assert run(f"output={tmp_path / 'out'}", argument) == 2
    assert capsys.readouterr() == ("", f"error: {message}\n")
    assert not (tmp_path / "out").exists()
