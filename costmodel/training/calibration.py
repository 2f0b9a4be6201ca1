"""How sure a model is, learned from netlists that it has not learned from.

While a network learns, it sees how wrong it is on what it learns from; it is more wrong elsewhere, and not equally
so. After training, two things are therefore fitted on held-out netlists, such as the validation part:

1. the last layer of log(sigma): log(sigma) = log(sigma as trained) + d . h, with h what that layer reads, by the
   likelihood of the errors minus strength / 2 |d|^2; folds by netlist choose the strength, or that d stays 0;
2. one scale for all, so that intervals of 50, 80 and 95% hold.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.stats import norm
from torch import nn

from costmodel.model import Model, Selection
from costmodel.networks import Readout
from placer.base import FloatArray, LongArray

LEVELS = (0.5, 0.8, 0.95)  # of the intervals that sigma is scaled for
STRENGTHS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)  # that are tried
FOLDS = 5
CLIP = 3.0  # errors count as so many sigma at most: a few netlists that are far off should not decide
LEAST_GROUPS = 2 * FOLDS  # netlists below which only the scale is fitted


@dataclass(frozen=True, slots=True)
class _Errors:
    """What happened on held-out netlists, [num_decisions] each."""

    error: FloatArray  # absolute, of log throughput
    log_sigma: FloatArray  # as trained, with a common scale
    rows: FloatArray  # [num_decisions, columns] h, with mean 0 and deviation 1, and a column of ones
    weight: FloatArray  # adds up to 1; each netlist counts alike
    group: LongArray  # equal netlists, and plans of one segment, have the same

    def part(self, chosen: np.ndarray) -> _Errors:
        weight = self.weight[chosen]
        return _Errors(
            self.error[chosen], self.log_sigma[chosen], self.rows[chosen], weight / weight.sum(), self.group[chosen]
        )


def calibrated(model: Model, validate: Selection) -> Model:
    """Return a model whose intervals hold on netlists that were not learned from, such as the validation part."""
    model = _refitted(model, validate)
    error, log_sigma = _errors(model, validate)
    return replace(model, sigma_scale=_scale(error, log_sigma))


def _scale(error: FloatArray, log_sigma: FloatArray) -> float:
    """Return what sigma must be multiplied by.

    For each level, the scale that would make its interval hold is the quantile of the errors in
    units of sigma over that of a normal distribution; their geometric mean serves all levels.
    """
    levels = np.array(LEVELS)
    ratio = np.quantile(error * np.exp(-log_sigma), levels) / norm.ppf((1 + levels) / 2)
    return float(np.exp(np.log(np.maximum(ratio, 1e-3)).mean()))


def _errors(model: Model, validate: Selection) -> tuple[FloatArray, FloatArray]:
    """Return absolute errors of log throughput, and log sigma without the scale of the model."""
    prediction = model.predict(validate)
    assert prediction.log_sigma is not None
    error = np.abs(np.log(prediction.throughput / validate.throughput))
    return error, prediction.log_sigma - np.log(model.sigma_scale)


def _refitted(model: Model, validate: Selection) -> Model:
    """Return a model whose last layer of sigma has learned from held-out netlists, if that helps on others of them."""
    readout = getattr(model.network, "readout", None)
    group = validate.data.group[validate.ids]
    if not isinstance(readout, Readout) or len(np.unique(group)) < LEAST_GROUPS:
        return model
    with _inputs_of(readout.sigma) as seen:
        error, log_sigma = _errors(model, validate)
    hidden = np.concatenate(seen).astype(float)
    mean, deviation = hidden.mean(axis=0), hidden.std(axis=0)
    used = deviation > 1e-6 * (1 + np.abs(mean))
    rows = np.column_stack([(hidden - mean)[:, used] / deviation[used], np.ones(len(hidden))])
    _, inverse, size = np.unique(group, return_inverse=True, return_counts=True)
    weight = 1 / size[inverse] / len(size)
    known = _Errors(error, log_sigma + np.log(_scale(error, log_sigma)), rows, weight, inverse)
    change = _best_change(known)
    if change is None:
        return model
    network = copy.deepcopy(model.network)
    layer: Any = network.readout
    slope = np.zeros(len(mean))
    slope[used] = change[:-1] / deviation[used]
    with torch.no_grad():
        layer.sigma.weight += torch.from_numpy(slope).to(layer.sigma.weight)[None]
        layer.sigma.bias += float(change[-1] - slope @ mean)
    return replace(model, network=network)


@contextmanager
def _inputs_of(layer: nn.Module) -> Iterator[list[FloatArray]]:
    """Collect what a layer reads, batch by batch."""
    seen: list[FloatArray] = []
    handle = layer.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].numpy()))
    try:
        yield seen
    finally:
        handle.remove()


def _best_change(known: _Errors) -> FloatArray | None:
    """Return the change of the last layer that folds by netlist find best, or None for no change."""
    fold = np.random.default_rng(0).permutation(known.group.max() + 1)[known.group] % FOLDS
    losses: dict[float | None, float] = {None: _loss(known, np.zeros(known.rows.shape[1]))}
    for strength in STRENGTHS:
        parts = [(known.part(fold != k), known.part(fold == k)) for k in range(FOLDS)]
        found = [_loss(rest, _change(learn, strength)) for learn, rest in parts]
        shares = [known.weight[fold == k].sum() for k in range(FOLDS)]
        losses[strength] = float(np.dot(shares, found))
    best = min(losses, key=lambda strength: losses[strength])
    return None if best is None else _change(known, best)


def _change(known: _Errors, strength: float) -> FloatArray:
    """Return the change with the highest likelihood, less what its size costs."""

    def objective(change: FloatArray) -> tuple[float, FloatArray]:
        log_sigma = known.log_sigma + known.rows @ change
        ratio = (_clipped(known) * np.exp(-log_sigma)) ** 2
        value = known.weight @ (log_sigma + ratio / 2) + strength / 2 * change[:-1] @ change[:-1]
        slope = (known.weight * (1 - ratio)) @ known.rows
        slope[:-1] += strength * change[:-1]
        return float(value), slope

    result: FloatArray = minimize(objective, np.zeros(known.rows.shape[1]), jac=True, method="L-BFGS-B").x
    return result


def _loss(known: _Errors, change: FloatArray) -> float:
    log_sigma = known.log_sigma + known.rows @ change
    return float(known.weight @ (log_sigma + (_clipped(known) * np.exp(-log_sigma)) ** 2 / 2))


def _clipped(known: _Errors) -> FloatArray:
    result: FloatArray = np.minimum(known.error, CLIP * np.exp(known.log_sigma))
    return result
