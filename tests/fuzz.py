"""Damage files and draw cases at random until time is up; count what went wrong (`make fuzz`).

Files: every reader of `test_readers` and those below. What is read is used: mapped by a mapper and
judged by its checker, or imported. Cases: random fabrics, graphs, plans and placements against laws.
Each batch runs in a process of its own, which is watched: its memory, and the processor time of
every input. An input that goes wrong is kept in the output folder, with what happened.
"""

from __future__ import annotations

import itertools
import json
import logging
import multiprocessing
import resource
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import torch
from omegaconf import OmegaConf
from onnx import helper, numpy_helper

from placer.base import InputError, Table, make_console, make_folder, write_atomic
from placer.decision import check, random_sites
from placer.decision.routing import route
from placer.fabric import load_fabric
from placer.graph.importing.from_onnx import import_onnx
from placer.kernels.engines import Search, map_kernels
from placer.kernels.model import find_faults, format_kgraph, generate, load_kgraph
from placer.kernels.sizing import Problem
from placer.netlist.lowering import check_plan, load_plan, lower_plan
from placer.simulation import Status, simulate_stack
from placer.stencil.judge import score
from placer.stencil.model import INPUTS, problem_text, read_problem
from placer.stencil.search import Clock, map_volume
from placer.streaming.mappers import map_program
from placer.streaming.model import Device, MapOptions, load_program
from tests import ROOT
from tests.damage import random_damage
from tests.placer.graph.importing.test_from_onnx import model_of, weight
from tests.placer.netlist.evaluate import assert_computes, assert_counts
from tests.placer.netlist.random_plans import KINDS, random_fabric, random_graph, random_plan
from tests.placer.random_cases import random_case
from tests.placer.simulation.test_engine import BRIEF, assert_engines_agree
from tests.test_readers import READERS, Reader, of

MOST_SECONDS = 20.0  # of processor time for one input
MOST_BYTES = 2**31  # of memory that one input may add
BATCH, BATCH_SECONDS = 100, 1800.0  # inputs of one process, and what they may take on a busy machine
COUNTS = ("inputs", "refused", "illegal", "tracebacks", "hangs", "memory")
MOST_KERNEL_SIDE, MOST_CELLS = 700, 10**5  # of inputs that are mapped, not only read


@dataclass(frozen=True, slots=True)
class FuzzSettings:
    """What `make fuzz ARGS="..."` takes."""

    minutes: float = 10.0  # of the whole run
    inputs: int = 1_000_000  # the run ends after so many, if that is earlier
    seed: int = 0
    only: str = ""  # part of the names of readers and laws; empty: all of them
    output: str = "data/fuzz"


@dataclass(frozen=True, slots=True)
class Target:
    """Something that is tried: `attempt(folder, rng)` raises InputError, or what is a fault.

    `prepare` writes whole files to a folder, once per batch.
    """

    name: str
    prepare: Callable[[Path], None]
    attempt: Callable[[Path, np.random.Generator], None]
    file: str = ""  # of the folder: what is kept when it goes wrong


class IllegalError(Exception):
    """A result that its own checker, or a law, refuses."""


class HangError(Exception):
    """An input that takes too long."""


def damaged(reader: Reader, name: str = "") -> Target:
    """Damage the file of a reader, and read it."""

    def attempt(folder: Path, rng: np.random.Generator) -> None:
        path = folder / reader.name
        whole = path.read_bytes()
        try:
            path.write_bytes(random_damage(rng).of(whole))
            reader.read(folder)
        except InputError:
            if reader.is_store:
                raise IllegalError("a store of finished work complains") from None
            raise
        finally:
            path.rename(folder / "last")
            path.write_bytes(whole)

    def prepare(folder: Path) -> None:
        (folder / reader.name).parent.mkdir(exist_ok=True)
        reader.prepare(folder)
        reader.read(folder)

    return Target(name or reader.name, prepare, attempt, "last")


def map_kgraph(path: Path) -> None:
    graph = load_kgraph(path)
    if max(graph.wafer.width, graph.wafer.height) <= MOST_KERNEL_SIDE:
        mapping = map_kernels(Search(Problem(graph), 0.2), "strips")
        if faults := find_faults(graph, mapping.layout):
            raise IllegalError(faults[0])


def map_stencil(path: Path) -> None:
    problem = read_problem(path)
    if problem.num_pes <= MOST_CELLS and problem.heat.size <= MOST_CELLS:
        mapping = map_volume(problem, Clock(0.05, problem.num_pes), seed=0)
        if score(problem, mapping.solution).total < 0:  # it raises for an illegal one
            raise IllegalError("a score below 0")


def map_streaming(path: Path) -> None:
    program = load_program(path)
    if program.num_nodes <= 100:
        map_program(program, Device(), MapOptions(mapper="list", time_limit=0.1))  # it checks, and executes


def network() -> onnx.ModelProto:
    """A model with operators whose attributes and constants say sizes."""
    sizes = {"image": [1, 4, 16], "axes": [0], "sizes": [1, 16, 4], "starts": [0], "ends": [8], "along": [1]}
    constants = [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in sizes.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[1, 1], kernel_shape=[3, 3]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Reshape", ["p", "image"], ["s"]),
        helper.make_node("Transpose", ["s"], ["t"], perm=[0, 2, 1]),
        helper.make_node("LayerNormalization", ["t", "g", "b"], ["n"], axis=-1),
        helper.make_node("ConstantOfShape", ["sizes"], ["zeros"]),
        helper.make_node("Add", ["n", "zeros"], ["a"]),
        helper.make_node("Slice", ["a", "starts", "ends", "along"], ["part"]),
        helper.make_node("Split", ["part"], ["left", "right"], axis=1, num_outputs=2),
        helper.make_node("Concat", ["left", "right"], ["both"], axis=1),
        helper.make_node("MatMul", ["both", "v"], ["m"]),
        helper.make_node("Softmax", ["m"], ["y"], axis=-1),
    ]
    weights = [weight("w", 4, 3, 3, 3), weight("g", 4), weight("b", 4), weight("v", 4, 8)]
    return model_of(nodes, [*weights, *constants], (1, 3, 8, 8))


def other_number(rng: np.random.Generator, model: onnx.ModelProto) -> None:
    """Replace one whole number anywhere in a model."""
    value = int(rng.choice([-1, 0, 1, 2, 3, 7, 64, 1000, 2**16, 2**24, 10**9, -(10**9), 2**40]))
    lists: list[tuple[Any, str]] = []
    for node in model.graph.node:
        lists += [(entry, "ints" if entry.ints else "i") for entry in node.attribute]
    lists += [(tensor, "dims") for tensor in model.graph.initializer]
    lists += [(entry.type.tensor_type.shape.dim[k], "dim_value") for entry in model.graph.input for k in range(4)]
    tensors = [tensor for tensor in model.graph.initializer if tensor.data_type == onnx.TensorProto.INT64]
    lists += [(tensor, "raw_data") for tensor in tensors for _ in range(2)]
    holder, name = lists[rng.integers(len(lists))]
    if name == "raw_data":
        array = np.frombuffer(holder.raw_data, np.int64).copy()
        array[rng.integers(array.size)] = value
        holder.raw_data = array.tobytes()
    elif name in ("ints", "dims"):
        numbers = getattr(holder, name)
        numbers[int(rng.integers(len(numbers)))] = value
    else:
        setattr(holder, name, value)


def import_changed(folder: Path, rng: np.random.Generator) -> None:
    """Import a model in which numbers, or bytes, have changed."""
    model, path = network(), folder / "last.onnx"
    for _ in range(int(rng.integers(1, 4))):
        other_number(rng, model)
    content = model.SerializeToString()
    path.write_bytes(random_damage(rng).of(content) if rng.random() < 0.3 else content)
    import_onnx(path)


def keep_laws(folder: Path, rng: np.random.Generator) -> None:
    """Any plan of any graph on any fabric computes the graph; any placement is legal and no faster than its bound."""
    fabric, graph = random_fabric(rng), random_graph(rng, str(rng.choice(KINDS)))
    plan = random_plan(rng, fabric, graph)
    try:
        assert_computes(fabric, graph, plan)
        check_plan(fabric, graph, plan)
        assert_counts(fabric, graph, plan)
        for section in lower_plan(fabric, graph, plan)[:2]:
            netlist = section.netlist
            decisions = route(fabric, netlist, random_sites(fabric, netlist, 1, seed=int(rng.integers(2**31))))
            check(fabric, netlist, decisions)
            outcome = simulate_stack(fabric, netlist, decisions)
            assert outcome.status[0] != Status.STEADY or outcome.cycles_per_sample[0] >= netlist.bound_cycles
    except (AssertionError, InputError) as error:
        raise IllegalError(f"{graph.name}: {error}") from error


def compare_engines(folder: Path, rng: np.random.Generator) -> None:
    """Both engines say the same of any decision of any netlist on any fabric."""
    seed = int(rng.integers(2**31))
    try:
        assert_engines_agree(*random_case(seed), BRIEF)
    except AssertionError as error:
        raise IllegalError(f"random_case({seed}): {error}") from error


def _plan_text() -> str:
    rng = np.random.default_rng(3)
    fabric, graph = random_fabric(rng), random_graph(rng, "mlp")
    return random_plan(rng, fabric, graph).to_json()


FABRIC = "defaults:\n  - small\n  - _self_\ncolumns: 9\nlink: {hop_cycles: 3}\ndram: {channels: 2}\n"


@cache
def targets() -> dict[str, Target]:
    """Return everything that is tried, by name."""
    files = [
        (of("k.kgraph", format_kgraph(generate("tiny")), map_kgraph), "k.kgraph, mapped"),
        (of("p.in", problem_text(INPUTS["box_small"]()), map_stencil), "p.in, mapped"),
        (of("s.in", problem_text(INPUTS["simple_3d"]()), map_stencil), "s.in, mapped"),
        (of("m.json", (ROOT / "data/inputs/streaming/fft.json").read_bytes(), map_streaming), "program, mapped"),
        (of("plan.json", _plan_text(), load_plan), "plan.json"),
        (of("fabric.yaml", FABRIC, load_fabric), "fabric.yaml"),
    ]
    chosen = [
        Target("network.onnx, imported", lambda folder: None, import_changed, "last.onnx"),
        *(damaged(reader, name) for reader, name in files),
        *(damaged(reader) for reader in READERS),
        Target("law: plans", lambda folder: None, keep_laws),
        Target("law: two engines", lambda folder: None, compare_engines),
    ]
    return {target.name: target for target in chosen}


@dataclass(slots=True)
class Found:
    """What a batch came to."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[str, bytes]] = field(default_factory=list)  # what happened, the input
    peak_bytes: int = 0  # that an input added


def run_batch(name: str, seed: int, batch: int, end: float) -> Found:
    """Try a target often, in this process."""
    target, found = targets()[name], Found()
    signal.signal(signal.SIGPROF, _hang)
    with TemporaryDirectory() as made, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(made)
        target.prepare(folder)
        before = _peak_bytes()
        for number in range(BATCH):
            if time.monotonic() > end:
                break
            _try(target, folder, np.random.default_rng([seed, batch, number]), found)
            grown = _peak_bytes() - before
            found.peak_bytes = max(found.peak_bytes, grown)
            if grown > MOST_BYTES:
                found.counts["memory"] += 1
                _note(found, target, folder, f"{grown >> 20} MB")
                break  # a peak never falls: the next input needs a new process
    return found


def _try(target: Target, folder: Path, rng: np.random.Generator, found: Found) -> None:
    found.counts["inputs"] += 1
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        target.attempt(folder, rng)
    except InputError as error:
        found.counts["refused"] += 1
        if not str(error).strip():
            found.counts["illegal"] += 1
            _note(found, target, folder, "refused without a word")
    except IllegalError as error:
        found.counts["illegal"] += 1
        _note(found, target, folder, str(error))
    except HangError:
        found.counts["hangs"] += 1
        _note(found, target, folder, f"more than {MOST_SECONDS} s\n{traceback.format_exc()}")
    except Exception:  # whatever a reader lets through is what we look for
        found.counts["tracebacks"] += 1
        _note(found, target, folder, traceback.format_exc())
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _hang(*_: object) -> None:
    raise HangError


def _note(found: Found, target: Target, folder: Path, what: str) -> None:
    path = folder / target.file
    found.faults.append((what, path.read_bytes() if path.is_file() else b""))


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _send_batch(sending: Connection, name: str, seed: int, batch: int, end: float) -> None:
    sending.send(run_batch(name, seed, batch, end))


def _received(receiving: Connection) -> Found:
    """Return what a process sends; one that dies or says nothing for long has met a fault."""
    found = Found(Counter(inputs=1))
    try:
        if receiving.poll(BATCH_SECONDS):
            return receiving.recv()  # type: ignore[no-any-return]
        found.counts["hangs"] += 1
        found.faults.append((f"no end of a batch after {BATCH_SECONDS} s", b""))
    except EOFError:
        found.counts["tracebacks"] += 1
        found.faults.append(("the process died", b""))
    return found


def fuzz(settings: FuzzSettings) -> Iterator[tuple[str, Found]]:
    """Yield what batches came to, target by target in turns, until time or inputs are used up."""
    chosen = [name for name in targets() if settings.only in name]
    end, done = time.monotonic() + 60 * settings.minutes, 0
    context = multiprocessing.get_context("fork")  # everything is imported already
    for batch in itertools.count():
        for name in chosen:
            if time.monotonic() > end or done >= settings.inputs:
                return
            receiving, sending = context.Pipe(duplex=False)
            process = context.Process(target=_send_batch, args=(sending, name, settings.seed, batch, end))
            process.start()
            sending.close()
            found = _received(receiving)
            process.kill()
            process.join()
            done += found.counts["inputs"]
            yield name, found


def main() -> None:
    """Run, keep what went wrong, write and print the counts; exit code 1 if anything did."""
    config = OmegaConf.merge(OmegaConf.structured(FuzzSettings), OmegaConf.from_cli(sys.argv[1:]))
    settings = FuzzSettings(**OmegaConf.to_container(config))  # type: ignore[arg-type]
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    output, totals, peaks = Path(settings.output), dict[str, Counter[str]](), Counter[str]()
    make_folder(output)
    table = _table(totals, peaks)
    for name, found in fuzz(settings):
        totals.setdefault(name, Counter()).update(found.counts)
        peaks[name] = max(peaks[name], found.peak_bytes)
        for what, content in found.faults:
            number = sum(sum(counts[c] for c in COUNTS[2:]) for counts in totals.values())
            write_atomic(output / f"fault{number}.txt", f"{name}\n{what}\n")
            write_atomic(output / f"fault{number}.bin", content)
        table = _table(totals, peaks)
        write_atomic(output / "fuzz.md", table.markdown())
        write_atomic(output / "fuzz.json", json.dumps({"settings": asdict(settings), "counts": totals}, indent=1))
    make_console().print(table.screen())
    sys.exit(1 if any(counts[c] for counts in totals.values() for c in COUNTS[2:]) else 0)


def _table(totals: dict[str, Counter[str]], peaks: Counter[str]) -> Table:
    rows = [[name, *(counts[c] for c in COUNTS), peaks[name] >> 20] for name, counts in totals.items()]
    total = [sum(counts[c] for counts in totals.values()) for c in COUNTS]
    most = max(peaks.values(), default=0) >> 20
    return Table(("what", *COUNTS, "most MB added"), [*rows, ["all", *total, most]])


if __name__ == "__main__":
    main()
