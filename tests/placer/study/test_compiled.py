"""The comparison of ways to compile: rows, gains, and runs that go on where they were cut off."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from costmodel.model.box import FOLDER
from placer.base import InputError
from placer.base.config import compose_config, to_dataclass
from placer.base.workers import run_jobs
from placer.study import compiled
from placer.study.compiled import ComparisonConfig, InTurn, Method, Result, picture, summary

FFN = ["fabric=small", "workload=ffn", "workload.rows=48", "workload.width=64", "workload.hidden=128"]


def config(folder: Path, base: str = "fixed") -> ComparisonConfig:
    methods = {"fixed": Method(["cost=rules", "cuts=false"]), "rules": Method(["cost=rules"], times=2.0)}
    return ComparisonConfig(
        seconds=5, max_rounds=3, seeds=[0, 1], workers=1, base=base, networks=["ffn"], methods=list(methods),
        settings={"ffn": FFN}, recipes=methods, output=folder, publish=None,
    )  # fmt: skip


@pytest.mark.slow
def test_all_configured_methods_are_ways_to_compile() -> None:
    settings = to_dataclass(ComparisonConfig, compose_config("compiled"))
    assert settings.base in settings.methods and len(settings.seeds) == 5


@pytest.mark.slow
def test_a_method_has_its_share_of_the_time(tmp_path: Path) -> None:
    job = config(tmp_path).job("ffn", "rules", 1)
    asked = job.config()
    assert (asked.time_limit, asked.max_rounds, asked.seed, asked.workers) == (10, 6, 1, 1)
    assert job.origin() != config(tmp_path).job("ffn", "rules", 0).origin()


def test_gains_are_told_against_the_base_with_the_same_seed(tmp_path: Path) -> None:
    cycles = {("fixed", 0): 110.0, ("fixed", 1): 120.0, ("rules", 0): 100.0, ("rules", 1): 100.0}
    results = {
        ("ffn", *key): Result(value, 130.0, 0.5, 1.0, 3, math.nan, [[8, 130.0], [20, value]])
        for key, value in cycles.items()
    }
    rows = summary(config(tmp_path), results).rows
    assert [row[4] for row in rows] == ["+0.0% (+0.0% to +0.0%)", "+15.0% (+10.0% to +20.0%)"]
    assert [row[5] for row in rows] == ["20", "20"]


def test_a_course_tells_when_a_time_was_reached() -> None:
    result = Result(100.0, 130.0, 0.5, 1.0, 3, math.nan, [[8, 130.0], [20, 110.0], [31, 100.0]])
    assert [result.placements_to(cycles) for cycles in (140, 110, 105)] == [8, 20, 31]
    assert math.isnan(result.placements_to(99))


def test_a_base_that_is_no_method_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="base='best' is no method"):
        config(tmp_path, "best")


def test_finished_runs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, asked = config(tmp_path), []

    def compile_once(job: compiled.CompileJob) -> Result:
        asked.append(job)
        return Result(100.0, 110.0, 0.5, 1.0, 3, 0.04, [[8, 100.0]])

    jobs = [settings.job("ffn", "rules", seed) for seed in settings.seeds]
    for _ in range(2):
        found = run_jobs(jobs, compile_once, tmp_path, decode=lambda values: Result(**values), workers=InTurn())
        assert [one.cycles_per_input for one in found] == [100.0, 100.0]
    assert asked == jobs


def test_an_unknown_network_is_told_with_those_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown network 'fnn'; allowed: ffn"):
        replace(config(tmp_path), networks=["fnn"])


def test_a_picture_has_a_bar_for_each_network_and_other_method(tmp_path: Path) -> None:
    settings = config(tmp_path)
    results = {
        ("ffn", method, seed): Result(100.0 + seed, 130.0, 0.5, 1.0, 3, math.nan, [])
        for method in settings.methods
        for seed in settings.seeds
    }
    axes = picture(settings, results).axes[0]
    assert len(axes.containers) == 2 and "1 seeds" not in axes.get_xlabel()  # bars and their ranges


def test_a_changed_byte_of_a_model_or_a_network_is_another_job(tmp_path: Path) -> None:
    model, graph = tmp_path / "model.pt", tmp_path / "network.json"
    overrides = ("fabric=small", f"graph={graph}", "cost=learned", f"cost.model_file={model}")
    job, origins = compiled.CompileJob("own", "learned", 0, overrides), []
    for content in ((b"1", b"1"), (b"2", b"1"), (b"2", b"2")):
        for path, data in zip((model, graph), content, strict=True):
            path.write_bytes(data)
        origins.append(job.origin())
    assert origins[0] != origins[1] != origins[2]
    model.unlink()
    with pytest.raises(InputError, match="model_file: cannot read"):
        job.origin()


def test_the_model_in_the_box_is_known_by_its_file() -> None:
    """Another one may lie there when an interrupted comparison goes on."""
    job = compiled.CompileJob("ffn", "learned", 0, (*FFN, "cost=learned"))
    index = json.loads((FOLDER / "shipped.json").read_text())
    assert job.origin()["files"] == {"shipped": index["sha256"]}
