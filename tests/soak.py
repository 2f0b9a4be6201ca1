"""Everything side by side while things break, for some minutes (`make soak`): nothing lost, nothing wrong.

Lanes run at once, each a real command that is repeated until time is up: datasets by local workers,
datasets on a Ray cluster, training with a tracking server, placing. Meanwhile workers and whole
commands are killed at random, a Ray node is lost, the tracking server is killed and started again,
and a disk is full. A command that was killed is repeated until it ends well; then what it made must
equal, byte by byte, what it makes undisturbed. Memory is that of the largest process of a round.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from omegaconf import OmegaConf

from costmodel.model import Model
from placer.base import Table, make_console, make_folder, write_atomic
from tests import ROOT
from tests.costmodel.dataset.test_build import TABLES
from tests.costmodel.training.test_mlflow_server import Server
from tests.costmodel.training.tiny import overrides, write_tiny
from tests.ray_cluster import ray_cluster

TELLS = 2  # exit code of a command that says what is wrong
MOST_GROWTH = 1.2  # of the memory of a round, over that of the first
DATASET = ("costmodel.dataset", "size=demo", "size.netlists_per_family=2", "size.decisions=8", "sample_cycles=12",
           "families=[gemm,mlp]", "seed=4")  # fmt: skip
PLACE = ("placer.place", "workload=mha", "fabric=small", "cost=learned", "max_moves=300", "starts=2", "seed=0")
# A disk of a few megabytes that is full for a while, seen by these commands alone.
SMALL_DISK = """mount -t tmpfs -o size=6m tmpfs "$1" && shift_to="$1" && shift
dd if=/dev/zero of="$shift_to/filler" bs=1k count=6100 2>/dev/null
"$@" 2>"$KEPT/told"; echo $? >"$KEPT/code_full"
rm "$shift_to/filler"
"$@"; code=$?
cp -r "$shift_to/." "$KEPT/" && exit $code"""


@dataclass(frozen=True, slots=True)
class SoakSettings:
    """What `make soak ARGS="..."` takes."""

    minutes: float = 30.0
    seed: int = 0
    kill_seconds: float = 20.0  # between two kills, on average
    ray: bool = True  # a cluster of two nodes, one of which is lost
    output: str = "data/soak"


@dataclass(slots=True)
class Lane:
    """A command that is repeated, and how its rounds went."""

    name: str
    command: Callable[[Path], list[str]]  # that writes to a folder
    made: Callable[[Path], object]  # what it made there, to be compared
    expected: object = None
    rounds: int = 0
    killed: int = 0
    told: int = 0  # ended with a line that says what is wrong
    faults: list[str] = field(default_factory=list)
    megabytes: list[int] = field(default_factory=list)  # of the largest process, by round
    pid: int | None = None  # of the command that runs now

    def run(self, folder: Path, attempts: int = 50) -> None:
        """Do one round: repeat the command until it ends well, and compare what it made."""
        for _ in range(attempts):
            code, said = self._attempt(folder)
            if code == 0:
                break
            if "Traceback" in said or code not in (TELLS, -signal.SIGKILL):
                self.faults.append(f"exit code {code}: {said[-2000:]}")
            self.killed += code == -signal.SIGKILL
            self.told += code == TELLS
            time.sleep(0.2)
        else:
            self.faults.append(f"no good end in {attempts} attempts: {said[-500:]}")
            return
        made = self.made(folder)
        if self.expected is not None and made != self.expected:
            self.faults.append("what was made differs from what is made undisturbed")
        self.expected = self.expected or made
        self.rounds += 1

    def _attempt(self, folder: Path) -> tuple[int, str]:
        with open(folder.with_suffix(".err"), "w+") as err:
            process = subprocess.Popen(self.command(folder), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=err)
            self.pid = process.pid
            _, status, usage = os.wait4(process.pid, 0)
            self.pid, process.returncode = None, os.waitstatus_to_exitcode(status)
            self.megabytes.append(usage.ru_maxrss >> 10)
            err.seek(0)
            return process.returncode, err.read()


def python(*arguments: str) -> list[str]:
    return [sys.executable, "-m", *arguments]


def tables(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in TABLES]


def weights(folder: Path) -> list[bytes]:
    (file,) = folder.glob("*.pt")
    return [tensor.numpy().tobytes() for tensor in Model.load(file).network.state_dict().values()]


def decisions(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted(folder.glob("*.json")) if "decision" in path.name]


def lanes(folder: Path, server: Server, ray_address: str | None) -> list[Lane]:
    """Return the lanes; `folder` holds a small dataset to train with."""

    def training(out: Path) -> list[str]:
        arguments = [a for a in overrides(folder) if not a.startswith(("output=", "tracking.uri="))]
        return python("costmodel.train", *arguments, f"output={out}", f"tracking.uri={server.uri}")

    found = [
        Lane("dataset, local workers", lambda out: python(*DATASET, "workers=2", f"output={out}"), tables),
        Lane("training, with tracking", training, weights),
        Lane("placing", lambda out: python(*PLACE, f"output={out}"), decisions),
    ]
    if ray_address is not None:
        where = ("executor=ray", f"ray_address={ray_address}", "workers=2")
        found.append(Lane("dataset, Ray cluster", lambda out: python(*DATASET, *where, f"output={out}"), tables))
    return found


def on_full_disk(folder: Path, expected: object) -> list[str]:
    """Make a dataset on a disk that is full at first; return faults."""
    kept, disk = folder / "kept", folder / "disk"
    for made in (kept, disk):
        make_folder(made)
    command = python(*DATASET, "workers=1", f"output={disk / 'out'}")
    script = ["unshare", "-rm", "sh", "-c", SMALL_DISK, "sh", str(disk), *command]
    done = subprocess.run(
        script, cwd=ROOT, env=os.environ | {"KEPT": str(kept)}, capture_output=True, text=True, check=False
    )
    if not (kept / "code_full").exists():
        return [f"no small disk could be made: {done.stderr[-300:]}"]
    faults, told = [], (kept / "told").read_text()
    if (kept / "code_full").read_text().strip() != str(TELLS) or "Traceback" in told:
        faults.append(f"a full disk: {told[-500:]}")
    if done.returncode != 0 or tables(kept / "out") != expected:
        faults.append(f"after a full disk: {done.stderr[-500:]}")
    return faults


def note(text: str) -> None:
    """Say where it is: on a busy machine every step takes minutes."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")


def kill_something(lane: Lane, rng: random.Random) -> bool:
    """Kill a worker of what a lane runs now, or all of it; return whether something was hit."""
    pid = lane.pid
    if pid is None:
        return False
    try:
        children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        os.kill(rng.choice(children) if children and rng.random() < 0.7 else pid, signal.SIGKILL)
    except (OSError, ValueError):  # it has just ended
        return False
    return True


def soak(settings: SoakSettings, folder: Path) -> tuple[list[Lane], list[str], dict[str, int]]:
    """Run all lanes until time is up; return them, other faults, and what was done to them."""
    rng, events, faults = random.Random(settings.seed), {"kills": 0, "server restarts": 0, "nodes lost": 0}, list[str]()
    turn = 0
    write_tiny(folder / "data")
    with ExitStack() as stack:
        cluster = stack.enter_context(ray_cluster(2)) if settings.ray else None
        server = Server(folder)
        stack.callback(lambda: server.kill())
        server.wait()
        chosen = lanes(folder, server, None if cluster is None else cluster.address)
        for number, lane in enumerate(chosen):  # undisturbed
            note(f"{lane.name}, undisturbed")
            lane.run(folder / f"whole{number}")
            if lane.expected is None:
                return chosen, [f"{lane.name} does not work undisturbed"], events
        note(f"all at once, disturbed, for {settings.minutes:g} minutes and until the last round has ended")
        end, stop = time.monotonic() + 60 * settings.minutes, threading.Event()
        threads = [threading.Thread(target=_repeat, args=(lane, folder, stop)) for lane in chosen]
        for thread in threads:
            thread.start()
        disk = threading.Thread(target=lambda: faults.extend(on_full_disk(folder, chosen[0].expected)))
        disk.start()
        while time.monotonic() < end:
            time.sleep(rng.uniform(0, 2 * settings.kill_seconds))
            events["kills"] += kill_something(rng.choice(chosen), rng)
            turn += 1
            if turn % 5 == 2:
                server.kill()
                server = Server(folder, server.port)
                events["server restarts"] += 1
            if cluster is not None and cluster.worker_nodes and turn >= 3:
                cluster.remove_node(next(iter(cluster.worker_nodes)), allow_graceful=False)
                events["nodes lost"] += 1
            note(", ".join(f"{count} {what}" for what, count in events.items()))
        stop.set()
        server.wait()
        for thread in (*threads, disk):
            thread.join()
    return chosen, faults, events


def _repeat(lane: Lane, folder: Path, stop: threading.Event) -> None:
    while not stop.is_set():
        out = folder / f"round {lane.name} {lane.rounds}".replace(" ", "_").replace(",", "")
        try:
            lane.run(out)
        except Exception as error:  # a lane that ends would look like one that is well
            lane.faults.append(repr(error))
            return
        shutil.rmtree(out, ignore_errors=True)


def _growth(lane: Lane) -> float:
    """Return the most memory of the later rounds over that of the first ones."""
    half = max(1, len(lane.megabytes) // 2)
    return max(lane.megabytes[half:], default=0) / max(lane.megabytes[:half])


def main() -> None:
    """Run, print and write what happened; exit code 1 when something was lost or wrong."""
    config = OmegaConf.merge(OmegaConf.structured(SoakSettings), OmegaConf.from_cli(sys.argv[1:]))
    settings = SoakSettings(**OmegaConf.to_container(config))  # type: ignore[arg-type]
    torch.set_num_threads(1)
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (else Ray's lane waits behind all others)
    output = Path(settings.output)
    make_folder(output)
    with TemporaryDirectory() as name:
        found, faults, events = soak(settings, Path(name))
    for lane in found:
        faults += [f"{lane.name}: {fault}" for fault in lane.faults]
        if _growth(lane) > MOST_GROWTH:
            faults.append(f"{lane.name}: memory grew by a factor of {_growth(lane):.2f}")
    rows = [
        (lane.name, lane.rounds, lane.killed, lane.told, len(lane.faults), max(lane.megabytes), f"{_growth(lane):.2f}")
        for lane in found
    ]
    table = Table(("lane", "rounds", "killed", "told", "faults", "most MB", "growth"), rows)
    happened = ", ".join(f"{count} {what}" for what, count in events.items())
    write_atomic(output / "soak.md", f"{table.markdown()}\n{happened}; {len(faults)} faults\n")
    write_atomic(output / "faults.json", json.dumps({"settings": asdict(settings), "faults": faults}, indent=1))
    make_console().print(table.screen())
    make_console().print(f"{happened}; {len(faults)} faults" + "".join(f"\n{fault}" for fault in faults))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
