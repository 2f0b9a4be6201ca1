"""Whole datasets: same bytes however they are made, and nothing lost on the way."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from costmodel.dataset import Dataset, Phase, store
from costmodel.dataset.build import Content, Hardware, build_dataset
from costmodel.dataset.generate import SampleOptions
from costmodel.dataset.report import report_dataset
from costmodel.dataset.store import OnProgress, finished_shards, put_shard, shard_bytes
from costmodel.model import open_labelled
from placer.base import InputError, sources
from placer.base.workers import ExecutorKind, Workers
from placer.fabric import HELD_OUT_SEED, load_fabric
from tests.ray_cluster import ray_cluster

SMALL = load_fabric("small")
CONTENT = Content(
    fabric=SMALL,
    families=("gemm", "mlp"),
    netlists_per_family=2,
    netlists_per_shard=1,
    samples=SampleOptions(sample_cycles=12, decisions=8),
    seed=1,
)
TABLES = ("netlists.parquet", "decisions.parquet", "splits.json", "calibration.json", "report/report.md")


def make(
    folder: Path, content: Content = CONTENT, on_progress: OnProgress = lambda done, total: None, **workers: Any
) -> None:
    dataset, splits = build_dataset(content, folder, Workers(**workers), on_progress)
    report_dataset(dataset, splits, folder / "report")


def contents(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in TABLES]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    make(folder)
    return folder


@pytest.mark.slow
def test_two_workers_give_the_same_bytes(made: Path, tmp_path: Path) -> None:
    make(tmp_path, workers=2)
    assert contents(tmp_path) == contents(made)
    dataset = Dataset.open(tmp_path)
    assert len(dataset) == 32 and dataset.num_netlists == 4


@pytest.mark.slow
def test_what_is_there_is_not_made_again(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk after the second shard keeps two; the next run makes the other two."""
    real = store.put_shard
    stored: list[int] = []

    def put_two(folder: Path, number: int, content: bytes) -> None:
        if len(stored) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(folder, number, content)
        stored.append(number)

    monkeypatch.setattr(store, "put_shard", put_two)
    with pytest.raises(OSError, match="No space left"):
        make(tmp_path)
    assert finished_shards(tmp_path, CONTENT.metadata()) == set(stored)
    monkeypatch.setattr(store, "put_shard", real)
    steps: list[int] = []
    make(tmp_path, on_progress=lambda done, total: steps.append(done))
    assert steps == [2, 3, 4]
    assert contents(tmp_path) == contents(made)


@pytest.mark.slow
def test_a_finished_dataset_is_left_alone(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(made)
    monkeypatch.setattr(store, "put_shard", None)  # would fail if it were called
    make(made)
    assert contents(made) == before


@pytest.mark.slow
def test_other_settings_in_the_same_folder_are_refused(made: Path) -> None:
    other = Content(SMALL, ("gemm", "mlp"), 2, 1, CONTENT.samples, seed=2)
    with pytest.raises(InputError, match="seed"):
        make(made, other)


@pytest.mark.slow
@pytest.mark.parametrize(("added", "is_stale"), [("# words\n", False), ("OTHER = 1\n", True)])
def test_other_code_makes_a_dataset_stale_other_words_do_not(
    added: str, is_stale: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder with a shard of old code is refused in words that say so; comments are no code."""
    put_shard(tmp_path, 0, shard_bytes([], CONTENT.metadata()))
    read = Path.read_bytes
    caches = (sources.source_key, sources._meaning, sources._tree, sources._imports)
    monkeypatch.setattr(Path, "read_bytes", lambda path: read(path) + added.encode())
    for cache in caches:
        cache.cache_clear()
    now = CONTENT.metadata()
    monkeypatch.undo()
    for cache in caches:
        cache.cache_clear()
    if not is_stale:
        assert finished_shards(tmp_path, now) == {0}
        return
    with pytest.raises(InputError, match=r"was made with code_version '\w+', now '\w+'; .* remove"):
        finished_shards(tmp_path, now)


COMMAND = [
    sys.executable, "-m", "costmodel.dataset", "size=demo", "size.netlists_per_family=1",
    "size.decisions=8", "sample_cycles=12", "families=[gemm,mlp,ffn]",
    "workers=1", "seed=4",
]  # fmt: skip


@pytest.mark.slow
def test_killed_at_any_point_the_next_run_ends_with_the_same_bytes(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    subprocess.run([*COMMAND, f"output={whole}"], check=True, capture_output=True)
    run = subprocess.Popen([*COMMAND, f"output={cut}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while not list(cut.glob("shards/*.zip")) and run.poll() is None:
        assert time.monotonic() < deadline, "no shard was written"
        time.sleep(0.05)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    subprocess.run([*COMMAND, f"output={cut}"], check=True, capture_output=True)
    assert contents(cut) == contents(whole)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("size=huge", "unknown choice size=huge"),
        ("families=[gemm,rnn]", "unknown family 'rnn'"),
        ("families=[]", "one or more, each once"),
        ("executor=slurm", "executor='slurm' is no choice"),
        ("size.decisions=2", "decisions=2; allowed 4 or more"),
        ("size.netlists_per_family=0", "netlists_per_family=0; allowed 1 or more"),
        ("seed=-1", "seed=-1; allowed 0 or more"),
        ("workers=0", "workers"),
        ("output=/proc/nothing", "/proc"),
    ],
)
def test_bad_input_is_explained(
    argument: str, message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from costmodel.dataset.__main__ import main
    from placer.base.config import run_command

    with pytest.raises(SystemExit) as stop:
        run_command(main, "dataset", ["size=demo", f"output={tmp_path / 'out'}", argument])
    assert stop.value.code == 2
    message_seen = capsys.readouterr().err
    assert message in message_seen and message_seen.count("\n") == 1


@pytest.fixture
def two_nodes() -> Iterator[Any]:
    with ray_cluster(2) as cluster:
        yield cluster


@pytest.mark.ray
@pytest.mark.slow
def test_a_lost_node_of_a_cluster_costs_nothing(made: Path, tmp_path: Path, two_nodes: Any) -> None:
    """One of two nodes is killed after the first shard: complete and identical all the same."""
    lost = next(iter(two_nodes.worker_nodes))

    def kill(done: int, total: int) -> None:
        if done == 1:
            two_nodes.remove_node(lost, allow_graceful=False)

    make(tmp_path, executor=ExecutorKind.RAY, workers=2, ray_address=two_nodes.address, on_progress=kill)
    assert len(two_nodes.worker_nodes) == 0
    assert contents(tmp_path) == contents(made)


FOUNDATION = Content(
    fabric=None,
    families=("gemm", "decoder"),
    netlists_per_family=2,
    netlists_per_shard=3,  # cuts through a segment
    samples=SampleOptions(sample_cycles=12, decisions=8, max_cycles=400, plans=2, pool=2),
    seed=1,
    hardware=Hardware.RANDOM,
)


@pytest.mark.slow
def test_a_dataset_of_many_fabrics(tmp_path: Path) -> None:
    make(tmp_path, FOUNDATION)
    dataset = Dataset.open(tmp_path)
    samples = list(dataset.each_netlist())
    assert [item.fabric.name for item in samples] == ["small", "small", "random_1_1", "random_1_1"]
    assert [item.origin.segment for item in samples] == [0, 0, 1, 1]
    assert [item.netlist.family for item in samples] == ["gemm", "gemm", "decoder", "decoder"]
    assert dataset.groups.tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    for item in samples:
        pool = [y for y, phase in zip(item.throughput, item.phase, strict=True) if phase is Phase.POOL]
        assert len(pool) == 2 and item.potential == max(pool) and item.origin.samples >= 1
    data = open_labelled(tmp_path, tmp_path / "cache")
    assert data.hardware.name == "2 fabrics" and len(data.graphs.hardware) == 4
    assert (data.graphs.hardware[0] == data.graphs.hardware[1]).all()
    assert (data.graphs.hardware[1] != data.graphs.hardware[2]).any()


def test_fabrics_take_turns() -> None:
    content = replace(FOUNDATION, netlists_per_family=64)
    names = [content.fabric_of(k).name for k in range(0, 64, 2)]
    assert names[0] == "small" and names[15] == "large" and len(set(names)) == 32 - 4
    held_out = replace(content, hardware=Hardware.HELD_OUT)
    assert {held_out.fabric_of(k).name for k in range(64)} == {f"random_{HELD_OUT_SEED}_{k}" for k in range(10)}
    large = replace(content, hardware=Hardware.LARGE)
    fabrics = [large.fabric_of(k) for k in range(0, 16, 2)]
    assert [fabric.name for fabric in fabrics[::2]] == ["large"] * 4 and len({f.name for f in fabrics}) == 5
    assert all(fabric.columns * fabric.rows >= 240 for fabric in fabrics)
    for hardware in (Hardware.RANDOM, Hardware.LARGE):
        with pytest.raises(InputError, match="held out"):
            replace(content, hardware=hardware, seed=HELD_OUT_SEED)
    with pytest.raises(InputError, match="no multiple of plans=2"):
        replace(content, netlists_per_family=3)
