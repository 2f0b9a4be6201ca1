"""Report: numbers by hand on labels that are set, verdicts, files, same text every time."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from costmodel.base import Calibration, score_predictions
from costmodel.dataset import Dataset, NetlistSamples, Phase, SplitKind, Splits, make_splits
from costmodel.dataset.report import ReportSummary, report_dataset
from placer.base import InputError
from tests.costmodel.dataset.samples import METADATA, random_samples, write_dataset

pytestmark = pytest.mark.slow


def with_labels(
    samples: NetlistSamples,
    throughput: Sequence[float],
    *,
    heuristic: Sequence[float] | None = None,
    failures: tuple[str, ...] = (),
) -> NetlistSamples:
    """The same decisions with other labels; the heuristic is right if not given."""
    label = np.array(throughput)
    return replace(
        samples,
        labels=replace(samples.labels, cycles_per_sample=samples.netlist.bound_cycles / label),
        heuristic=np.array(heuristic if heuristic is not None else label),
        failures=failures,
    )


def small_dataset(folder: Path) -> Dataset:
    """Family "a": placement matters. Family "b": it does not, and one netlist is short."""
    wide = [np.linspace(low, 0.9, 18) for low in (0.3, 0.4, 0.5)]
    flat = [np.linspace(level, level + 0.01, 18) for level in (0.2, 0.5)] + [np.array([0.8, 0.81])]
    samples = [
        with_labels(random_samples(i, 18, seed=i, family="a"), y, heuristic=np.sqrt(y)) for i, y in enumerate(wide)
    ]
    samples += [
        with_labels(
            random_samples(i, len(y), seed=i, family="b"),
            y,
            heuristic=np.sqrt(y[::-1]),
            failures=("deadlock: decision 3", "deadlock: decision 4", "cap|reached"),
        )
        for i, y in enumerate(flat, 3)
    ]
    return write_dataset(folder, samples)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return small_dataset(tmp_path_factory.mktemp("dataset"))


@pytest.fixture(scope="module")
def splits(dataset: Dataset) -> Splits:
    return make_splits(dataset)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report") / "new"


@pytest.fixture(scope="module")
def summary(dataset: Dataset, splits: Splits, folder: Path) -> ReportSummary:
    return report_dataset(dataset, splits, folder)


def read_csv(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_counts_and_spread_by_hand(summary: ReportSummary) -> None:
    a, b = summary.families
    assert (a.family, a.num_netlists, a.num_decisions, a.num_failures) == ("a", 3, 54, 0)
    assert (b.family, b.num_netlists, b.num_decisions, b.num_failures) == ("b", 3, 38, 9)
    assert (a.least_decisions, b.least_decisions) == (18, 2)
    assert summary.overall.num_decisions == 92 and summary.overall.num_failures == 9
    assert a.median_spread == pytest.approx(1 - 0.4 / 0.9)
    assert a.least_spread == pytest.approx(1 - 0.5 / 0.9)
    assert a.most_spread == pytest.approx(1 - 0.3 / 0.9)
    assert a.median_best == pytest.approx(0.9)
    assert b.median_spread == pytest.approx(0.01 / 0.51)


def test_share_of_variance_is_one_minus_the_share_between(dataset: Dataset, summary: ReportSummary) -> None:
    index = dataset.index
    families = np.array(dataset.families)[index.netlist_id]
    for family in summary.families:
        label, graph = (v[families == family.family] for v in (index.throughput, index.netlist_id))
        means = np.array([label[graph == g].mean() for g in graph])
        assert family.variance == pytest.approx(label.var())
        assert family.share_within == pytest.approx(1 - means.var() / label.var())


def test_verdicts(summary: ReportSummary) -> None:
    verdicts = {(check.family, check.what): check.verdict for check in summary.checks}
    assert verdicts == {
        ("a", "median spread"): "PASS",
        ("a", "variance within graphs"): "PASS",
        ("a", "decisions per netlist"): "PASS",
        ("b", "median spread"): "FAIL",
        ("b", "variance within graphs"): "FAIL",
        ("b", "decisions per netlist"): "FAIL",
    }
    assert not summary.passed


def test_heuristic_raw_and_calibrated(dataset: Dataset, splits: Splits, summary: ReportSummary) -> None:
    """Calibration never sees the netlist it is used for."""
    index = dataset.index
    calibrated = np.empty(len(dataset))
    for number in range(splits.num_folds):
        fold = splits.fold(SplitKind.GRAPH, number)
        fit = Calibration.fit(index.heuristic[fold.train], index.throughput[fold.train])
        calibrated[fold.test] = fit.apply(index.heuristic[fold.test])
    found = {(s.family, s.near_optimal, s.calibrated): s.scores for s in summary.heuristic}
    near = np.isin(index.phase, ["cold", "quenched", "optimal", "pool"])
    family = np.array(dataset.families)[index.netlist_id]
    for is_near in (False, True):
        for name in ("a", "b", "all"):
            own = (near | (not is_near)) & ((family == name) | (name == "all"))
            for is_calibrated, values in ((False, index.heuristic), (True, calibrated)):
                wanted = score_predictions(values[own], index.throughput[own], index.netlist_id[own])
                scores = found[name, is_near, is_calibrated].to_dict()
                assert scores == pytest.approx(wanted.to_dict(), nan_ok=True)
    assert found["a", False, False].overall.spearman == 1
    assert found["b", False, False].overall.spearman == -1


def test_report_text(folder: Path, summary: ReportSummary) -> None:
    text = (folder / "report.md").read_text()
    assert "**FAIL**: 92 decisions of 6 netlists, 9 samples failed. Seed 7" in text
    assert "| a | median spread | 56% | 30% | PASS |" in text
    assert "| b | variance within graphs | 0% | 20% (aim 30%) | FAIL |" in text
    assert "| b | decisions per netlist | 2 | 16 | FAIL |" in text
    assert "| all | 16 | 16 | 15 | 15 | 10 | 10 | 10 | 92 |" in text
    assert "| deadlock | 6 |" in text and "| cap\\|reached | 3 |" in text
    for name in ("spread", "phases", "labels", "heuristic"):
        assert f"({name}.png)" in text
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_numbers_as_csv(folder: Path, summary: ReportSummary, dataset: Dataset) -> None:
    netlists = read_csv(folder / "netlists.csv")
    assert [int(row["num_decisions"]) for row in netlists] == [18, 18, 18, 18, 18, 2]
    assert float(netlists[0]["spread"]) == pytest.approx(1 - 0.3 / 0.9, rel=1e-5)
    assert [float(row["heuristic_spearman"]) for row in netlists] == [1, 1, 1, -1, -1, -1]
    families = read_csv(folder / "families.csv")
    assert [row["family"] for row in families] == ["a", "b", "all"]
    assert float(families[0]["share_within"]) == pytest.approx(summary.families[0].share_within, rel=1e-5)
    assert sum(int(row["a"]) for row in read_csv(folder / "labels.csv")) == 54
    assert int(read_csv(folder / "phases.csv")[-1]["all"]) == len(dataset)
    heuristic = read_csv(folder / "heuristic.csv")
    assert len(heuristic) == 12
    assert heuristic[0]["best_top5_regret"] == "0"


def test_same_dataset_gives_the_same_files(
    dataset: Dataset, splits: Splits, folder: Path, summary: ReportSummary, tmp_path: Path
) -> None:
    report_dataset(Dataset.open(dataset.folder), splits, tmp_path)
    names = sorted(path.name for path in folder.iterdir())
    assert names == sorted(path.name for path in tmp_path.iterdir())
    for name in names:
        assert (folder / name).read_bytes() == (tmp_path / name).read_bytes(), name


def test_equal_labels_missing_phases_and_empty_netlists(tmp_path: Path) -> None:
    """Nothing to tell is no crash: a dash in the text, FAIL as the verdict."""
    samples = [
        replace(with_labels(random_samples(i, 3, seed=i, family="c"), [0.5, 0.5, 0.5]), phase=(Phase.RANDOM,) * 3)
        for i in range(2)
    ]
    samples.append(random_samples(2, 0, seed=2, family="c"))
    samples.append(random_samples(3, 0, seed=3, family="none"))
    data = write_dataset(tmp_path / "data", samples)
    result = report_dataset(data, make_splits(data, num_folds=2), tmp_path / "report")
    assert not any(check.passed for check in result.checks)
    assert not any(scores.near_optimal for scores in result.heuristic)
    assert result.overall.num_netlists == 4 and result.overall.num_decisions == 6
    text = (tmp_path / "report" / "report.md").read_text()
    assert "| c | variance within graphs | - | 20% (aim 30%) | FAIL |" in text
    assert "| none | median spread | - | 30% | FAIL |" in text
    assert "nan" not in text


def test_share_between_need_and_aim_passes_with_a_note(tmp_path: Path) -> None:
    offsets = np.tile([-1, 1], 8) * 0.1
    samples = [
        with_labels(random_samples(i, 16, seed=i, family="d"), level + offsets) for i, level in enumerate((0.3, 0.65))
    ]
    data = write_dataset(tmp_path / "data", samples)
    result = report_dataset(data, make_splits(data, num_folds=2), tmp_path / "report")
    share = 0.1**2 / (0.1**2 + 0.175**2)
    assert result.families[0].share_within == pytest.approx(share)
    assert [check.verdict for check in result.checks][1] == "PASS (below the aim)"


def test_splits_of_another_dataset_are_refused(dataset: Dataset, splits: Splits) -> None:
    other = replace(splits, dataset="f" * 64)
    with pytest.raises(InputError, match="'ffffffffffffffff'"):
        report_dataset(dataset, other, dataset.folder / "report")
    assert not (dataset.folder / "report").exists()


def test_a_dataset_without_decisions_is_refused(tmp_path: Path, splits: Splits) -> None:
    data = write_dataset(tmp_path, [random_samples(0, 0)], METADATA)
    empty = replace(splits, dataset=data.content_hash)
    with pytest.raises(InputError, match="holds no decisions"):
        report_dataset(data, empty, tmp_path / "report")
