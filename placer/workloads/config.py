"""The workload as configured in `conf/workload/*.yaml`, and the spec that it means."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

import numpy as np

from placer.errors import InputError
from placer.workloads.sizing import default_spec, sample_spec
from placer.workloads.specs import FAMILIES, MODELS, ModelSpec, Spec, dimension_names

MODEL_FIELDS = ("layers", "sequence")


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
    layers: int | None = None  # models: transformer layers; None: all published ones
    sequence: int | None = None  # models: tokens; None: 128
    embedding: bool = True  # models: with the embedding look-up at the front
    training: bool = False  # with the backward pass
    random: bool = False  # families: draw the sizes that are None


def resolve(
    config: WorkloadConfig,
    macs_budget: int,
    rng: np.random.Generator,
    sample_cycles: float = math.inf,
) -> Spec:
    """The spec that a configuration means on a fabric that suits `macs_budget` MACs per sample.

    With training the forward pass gets a third of the budget: the backward pass takes twice its
    work. `rng` is used only when `random` is set; so are `sample_cycles`, the cycles in which the
    fabric does the budget, to draw sizes that fill it (see `sample_spec`).
    """
    known = (*FAMILIES, *MODELS)
    if config.family not in known:
        raise InputError(f"unknown workload family {config.family!r}; known: {', '.join(known)}")
    if config.family in MODELS:
        return _resolve_model(config)
    given = _given_sizes(config, dimension_names(config.family))
    if not config.embedding:
        raise InputError(f"workload {config.family}: has no embedding to leave out")
    forward_budget = max(macs_budget // 3, 1) if config.training else macs_budget
    if config.random:
        spec = sample_spec(config.family, forward_budget, rng, given, sample_cycles)
    else:
        spec = default_spec(config.family, forward_budget, given)
    return replace(spec, training=config.training)


def _resolve_model(config: WorkloadConfig) -> ModelSpec:
    given = _given_sizes(config, MODEL_FIELDS)
    if config.random:
        raise InputError(
            f"workload {config.family}: random=true, but the dimensions of a model are published; "
            f"random works for {', '.join(FAMILIES)}"
        )
    return ModelSpec(config.family, embedding=config.embedding, training=config.training, **given)


def _given_sizes(config: WorkloadConfig, allowed: tuple[str, ...]) -> dict[str, int]:
    """Sizes that the user has set; InputError if the family does not have one of them."""
    names = [item.name for item in fields(config) if item.default is None]
    given = {name: getattr(config, name) for name in names if getattr(config, name) is not None}
    for name, value in given.items():
        if name not in allowed:
            raise InputError(
                f"workload {config.family}: {name}={value} is set, but this family has no such "
                f"field; it has: {', '.join(allowed)}"
            )
    return given
