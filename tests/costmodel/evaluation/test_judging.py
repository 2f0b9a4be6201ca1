"""A trained model is judged on datasets that it has not seen, beside what learned from the same labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from costmodel.dataset import Dataset, NetlistSamples, make_splits, write_splits
from costmodel.judge import main
from costmodel.training import run
from placer.base import read_figures
from placer.base.config import run_command
from tests.costmodel.dataset.samples import write_dataset
from tests.costmodel.training.tiny import metadata, settings, tiny_samples

pytestmark = pytest.mark.slow


def write(folder: Path, first: int, number: int = 8) -> None:
    """Netlists in pairs that are plans of one segment."""
    samples = [_one_of_two(first + i, i) for i in range(number)]
    write_splits(folder, make_splits(write_dataset(folder, samples, metadata()), num_folds=2))


def _one_of_two(number: int, place: int) -> NetlistSamples:
    samples, segment = tiny_samples(number), place // 2
    netlist = replace(samples.netlist, family=("even", "odd")[segment % 2])
    return replace(samples, netlist_id=place, netlist=netlist, origin=replace(samples.origin, segment=segment))


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int | str | None, str, str]:
    with pytest.raises(SystemExit) as stop:
        run_command(main, "judge", arguments)
    return stop.value.code, *capsys.readouterr()


def test_both_questions_are_judged_beside_the_baselines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "data", 0)
    write(tmp_path / "test", 20)
    model = run(settings(tmp_path, "potential.max_epochs=1", "potential.width=8", "potential.rounds=1")).model
    for name in ("flow.pt", "again.pt"):
        model.save(tmp_path / name)
    common = [f"models=[{tmp_path / 'flow.pt'}]", f"cache={tmp_path / 'cache'}", f"others=[{tmp_path / 'again.pt'}]"]
    for data in (f"data={tmp_path / 'data'}", "data=null"):
        code, _, err = call(capsys, *common, data, f"tests=[{tmp_path / 'test'}]", f"output={tmp_path / 'judge'}")
        assert (code, err) == (0, "")
        rows = (tmp_path / "judge/decisions.csv").read_text().splitlines()
        assert [row.split(",")[1] for row in rows[1:]] == ["rules", "calibrated rules", "boosting", "again", "model"]
        assert rows[4].split(",")[2:] == rows[5].split(",")[2:], "the same model under two names"
        rows = (tmp_path / "judge/netlists.csv").read_text().splitlines()
        assert [row.split(",")[1] for row in rows[1:]] == ["full bound", "calibrated bound", "boosting", "model"]
    figures = {figure.name: figure for figure in read_figures(tmp_path / "judge/figures.json")}
    assert figures.keys() >= {"judge test decisions spearman", "judge test netlists relative_error"}
    assert figures["judge test decisions relative_error"].better == "lower"
    write(tmp_path / "mixed", 24, 16)  # some of its netlists are in the test set
    seen, mixed = (Dataset.open(tmp_path / name).fingerprints for name in ("test", "mixed"))
    unseen = sum(name not in seen for name in mixed)
    assert 0 < unseen < len(mixed)
    code, _, err = call(
        capsys, *common, "others=[]", f"exclude=[{tmp_path / 'test'}]", f"tests=[{tmp_path / 'mixed'}]",
        f"output={tmp_path / 'judge'}",
    )  # fmt: skip
    rows = (tmp_path / "judge/decisions.csv").read_text().splitlines()
    assert not err
    assert code == 0 and all(int(row.split(",")[2]) <= unseen for row in rows[1:])
    code, _, err = call(capsys, *common, f"exclude=[{tmp_path / 'test'}]", f"tests=[{tmp_path / 'test'}]")
    assert code == 2 and "all netlists of" in err
    code, _, err = call(capsys, *common, f"tests=[{tmp_path / 'data'}]", f"output={tmp_path / 'judge'}")
    assert code == 2
    assert "is what a model has learned from" in err
