"""Dimensions of a workload: as configured, and the rest for an amount of work, typical or random.

Both ways propose the inner dimensions (widths, heads, depth) and then fit the rows to the budget.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from placer.base import InputError
from placer.graph.workloads.networks import DECODERS, VISION, DecoderSpec, VisionSpec
from placer.graph.workloads.specs import (
    FAMILIES,
    NETWORKS,
    FamilySpec,
    FfnSpec,
    GemmSpec,
    MhaSpec,
    MlpSpec,
    ModelSpec,
    NetworkSpec,
    Spec,
    dimension_names,
    forward_macs,
)

GRANULE = 8  # all chosen sizes are multiples: half a vector of 64 bytes
SMALL_BUDGET = 4_000_000  # multiply-accumulates; up to here sizes end at 512, beyond at 2048
MAX_SIZE = 2**31  # of a size that the user gives
MAX_ASPECT = 8  # largest over smallest size of a random spec
LEAST_SHARE, LARGEST_SHARE = 0.7, 1.3  # of the budget that a random spec may use
MIN_ROW_SHARE = 0.5  # rows over widest layer of a random spec: few rows cannot fill a fabric
MAX_INNER_SHARE = 1.3  # longest inner dimension over cycles per sample of a random spec
DEFAULT_TOLERANCE = math.log(1.1)  # on |log(macs / budget)|; within it, the most square is best
MAX_HEADS = 8
MAX_DRAWS = 256

Fixed = Mapping[str, int]  # sizes that the user has given, by field name
Choose = Callable[[Sequence[int]], int]

_NOTHING_FIXED: Fixed = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class WorkloadConfig:
    """One workload. A size of None is chosen to suit the fabric (families) or as published."""

    family: str  # gemm, mlp, ffn, mha or the name of a model
    rows: int | None = None  # rows of the input: tokens or samples that go through together
    width: int | None = None  # columns of the input
    columns: int | None = None  # gemm: columns of the output
    depth: int | None = None  # mlp: linear layers
    hidden: int | None = None  # ffn: columns of the inner layer
    heads: int | None = None  # mha: attention heads
    layers: int | None = None  # models: transformer layers or residual blocks; None: all published ones
    sequence: int | None = None  # language models: tokens (decode: sequences); None: as the model says
    context: int | None = None  # decode: positions in the cache; None: 2048
    decode: bool = False  # llama3_8b, mixtral_8x7b: one step with a cache in place of a whole sequence
    embedding: bool = True  # models: with the embedding look-up at the front
    training: bool = False  # with the backward pass
    random: bool = False  # families: draw the sizes that are None
    draw: int = 0  # section, decoder, convolution: number of the random network


def resolve(
    config: WorkloadConfig, macs_budget: int, rng: np.random.Generator, sample_cycles: float = math.inf
) -> Spec:
    """Return the spec that a configuration means for `macs_budget` MACs per sample.

    With training the forward pass gets a third of the budget: the backward pass takes twice its
    work. `rng` is used only when `random` is set; so are `sample_cycles`, the cycles in which the
    fabric does the budget, to draw sizes that fill it (see `sample_spec`).
    """
    known = (*FAMILIES, *NETWORKS)
    if config.family not in known:
        raise InputError(f"unknown workload family {config.family!r}; known: {', '.join(known)}")
    if config.decode and config.family not in DECODERS:
        raise InputError(f"workload {config.family}: decode=true, which only these have: {', '.join(DECODERS)}")
    if config.draw:
        raise InputError(f"workload {config.family}: draw={config.draw}, which only random networks have")
    if config.family in NETWORKS:
        return _resolve_network(config)
    given = _given_sizes(config, dimension_names(config.family))
    if not config.embedding:
        raise InputError(f"workload {config.family}: has no embedding to leave out")
    forward_budget = max(macs_budget // 3, 1) if config.training else macs_budget
    if config.random:
        spec = sample_spec(config.family, forward_budget, rng, given, sample_cycles)
    else:
        spec = default_spec(config.family, forward_budget, given)
    return replace(spec, training=config.training)


def _resolve_network(config: WorkloadConfig) -> NetworkSpec:
    name = config.family
    if config.random:
        raise InputError(
            f"workload {name}: random=true, but the dimensions of a model are published; "
            f"random works for {', '.join(FAMILIES)}"
        )
    flags: dict[str, Any] = {"embedding": config.embedding, "training": config.training}
    if name in DECODERS:
        given = _given_sizes(config, ("layers", "sequence", "context"))
        return DecoderSpec(name, decode=config.decode, **flags | given)
    if name in VISION:
        return VisionSpec(name, **flags | _given_sizes(config, ("layers",)))
    return ModelSpec(name, **flags | _given_sizes(config, ("layers", "sequence")))


def _given_sizes(config: WorkloadConfig, allowed: tuple[str, ...]) -> dict[str, int]:
    """Return the sizes that the user has set; InputError for one that the family has not."""
    names = [item.name for item in fields(config) if item.default is None]
    given = {name: getattr(config, name) for name in names if getattr(config, name) is not None}
    for name, value in given.items():
        if name not in allowed:
            raise InputError(
                f"workload {config.family}: {name}={value} is set, but this family has no such "
                f"field; it has: {', '.join(allowed)}"
            )
    return given


def default_spec(family: str, macs_budget: int, fixed: Fixed = _NOTHING_FIXED) -> FamilySpec:
    """Return the typical spec of a family whose forward pass has about `macs_budget` MACs."""
    _check(family, macs_budget, fixed)
    limit = _size_limit(macs_budget)
    specs = [_fit_rows(_propose(family, width, limit, fixed), macs_budget, fixed) for width in _widths(limit, fixed)]

    def rank(spec: FamilySpec) -> tuple[float, float]:
        oblongness = abs(math.log(spec.rows**2 / (spec.width * _output_width(spec))))
        return max(_misfit(spec, macs_budget), DEFAULT_TOLERANCE), oblongness

    return min(specs, key=rank)


def sample_spec(
    family: str,
    macs_budget: int,
    rng: np.random.Generator,
    fixed: Fixed = _NOTHING_FIXED,
    sample_cycles: float = math.inf,
) -> FamilySpec:
    """Draw a spec of a family whose forward pass has 0.7 to 1.3 x `macs_budget` MACs.

    `sample_cycles` is the time in which the filled fabric does the budget. A product is not cut
    along its inner dimension and takes at least a cycle per element of it, so a short sample with a
    long inner dimension would leave units unused: such draws are refused.
    When no draw gets there (a tiny budget, or many fixed sizes), the closest one is taken.
    """
    _check(family, macs_budget, fixed)
    limit = _size_limit(macs_budget)

    def choose(options: Sequence[int]) -> int:
        return options[int(rng.integers(len(options)))]

    draws = []
    for _ in range(MAX_DRAWS):
        width = _log_uniform(_widths(limit, fixed), rng)
        # Different aims give different rows to equal widths: more different graphs.
        aim = macs_budget * rng.uniform(LEAST_SHARE, LARGEST_SHARE)
        spec = _fit_rows(_propose(family, width, limit, fixed, choose), aim, fixed)
        share = forward_macs(spec) / macs_budget
        is_shardable = (
            MIN_ROW_SHARE * _output_width(spec) <= spec.rows
            and _longest_inner(spec) <= MAX_INNER_SHARE * sample_cycles * share
        )
        if LEAST_SHARE <= share <= LARGEST_SHARE and _aspect(spec) <= MAX_ASPECT and is_shardable:
            return spec
        draws.append(spec)
    return min(draws, key=lambda spec: _misfit(spec, macs_budget))


def _output_width(spec: FamilySpec) -> int:
    """Return the columns of the widest product."""
    match spec:
        case GemmSpec():
            return spec.columns
        case FfnSpec():
            return spec.hidden
        case _:
            return spec.width


def _longest_inner(spec: FamilySpec) -> int:
    """Return the longest sum of a product of the forward pass: K of [M, K] x [K, N]."""
    match spec:
        case FfnSpec():
            return max(spec.width, spec.hidden)
        case MhaSpec():
            return max(spec.width, spec.rows)
        case _:
            return spec.width


def _check(family: str, macs_budget: int, fixed: Fixed) -> None:
    if family not in FAMILIES:
        raise InputError(f"unknown family {family!r}; known families: {', '.join(FAMILIES)}")
    if macs_budget < 1:
        raise InputError(f"{family}: a budget of {macs_budget} MACs; must be 1 or more")
    names = dimension_names(family)
    for name, value in fixed.items():
        if name not in names:
            raise InputError(f"{family} has no field {name!r}; it has: {', '.join(names)}")
        if not 1 <= value <= MAX_SIZE:
            raise InputError(f"{family}: {name}={value}; allowed 1 to {MAX_SIZE}")


def _size_limit(macs: float) -> int:
    return 512 if macs <= SMALL_BUDGET else 2048


def _widths(limit: int, fixed: Fixed) -> Sequence[int]:
    if "width" in fixed:
        return (fixed["width"],)
    step = GRANULE * fixed.get("heads", 1)
    return range(step, max(limit, step) + 1, step)


def _log_uniform(options: Sequence[int], rng: np.random.Generator) -> int:
    """Choose from equally spaced sizes so that each octave has the same chance."""
    size = math.exp(rng.uniform(math.log(options[0]), math.log(options[-1])))
    return min(options, key=lambda option: abs(option - size))


def _propose(family: str, width: int, limit: int, fixed: Fixed, choose: Choose | None = None) -> FamilySpec:
    """Make a spec with the given width and the least rows; the rest as fixed, chosen or typical."""

    def size(name: str, options: Sequence[int], typical: int) -> int:
        return fixed[name] if name in fixed else choose(options) if choose else typical

    rows = fixed.get("rows", GRANULE)
    match family:
        case "gemm":
            columns = size("columns", range(GRANULE, limit + 1, GRANULE), width)
            return GemmSpec(rows, width, columns)
        case "mlp":
            return MlpSpec(rows, width, size("depth", range(2, 7), 4))
        case "ffn":
            hidden = range(width, max(width, min(4 * width, limit)) + 1, GRANULE)
            return FfnSpec(rows, width, size("hidden", hidden, 4 * width))
        case _:
            heads = [h for h in range(1, MAX_HEADS + 1) if width % (GRANULE * h) == 0] or [1]
            typical = min(heads, key=lambda h: abs(math.log(h / 4)))
            return MhaSpec(rows, width, size("heads", heads, typical))


def _fit_rows(spec: FamilySpec, macs: float, fixed: Fixed) -> FamilySpec:
    """Return the spec with the rows that bring its work closest to `macs`."""
    if "rows" in fixed:
        return spec
    rows = range(GRANULE, _size_limit(macs) + 1, GRANULE)
    above = bisect_left(rows, macs, key=lambda r: forward_macs(replace(spec, rows=r)))
    candidates = [replace(spec, rows=r) for r in rows[max(above - 1, 0) : above + 1]]
    return min(candidates, key=lambda candidate: _misfit(candidate, macs))


def _misfit(spec: FamilySpec, macs: float) -> float:
    return abs(math.log(forward_macs(spec) / macs))


def _aspect(spec: FamilySpec) -> float:
    """Return largest over smallest matrix size; heads and depth are counts, not sizes."""
    names = ("rows", "width", "columns", "hidden")
    sizes = [getattr(spec, name) for name in names if hasattr(spec, name)]
    return float(max(sizes) / min(sizes))
