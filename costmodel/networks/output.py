"""What every network gives, and the layers at its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from costmodel.encoding import Batch

# log(throughput) = -softplus(-SHARPNESS z) / SHARPNESS: z below 0, next to 0 above, never level, so
# that predictions stay in (0, 1) and no two of them become equal.
SHARPNESS = 20.0


@dataclass(frozen=True, slots=True)
class Output:
    """Predictions of a batch."""

    log_throughput: Tensor  # [num_decisions] below 0
    log_sigma: Tensor  # [num_decisions] log of the standard deviation of log_throughput
    stalls: Tensor | None  # [num_units, NUM_STALLS] share of the time; None: not predicted


class Network(Protocol):
    """A torch module that predicts a batch."""

    def __call__(self, batch: Batch) -> Output: ...


class Readout(nn.Module):
    """Predicts from what is known of a whole decision.

    log(throughput) = -softplus(-SHARPNESS z) / SHARPNESS, with x = MLP(h) and z = linear(x)
    log(sigma) = linear(relu(linear(x)))
    trust = sigmoid(linear(x)), or 1 where it is not learned

    The error is learned from the same numbers but does not change them: a network that may excuse
    itself by a large sigma learns less.
    """

    def __init__(self, num_inputs: int, width: int, has_trust: bool = False) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(num_inputs, 2 * width), nn.ReLU(), nn.Linear(2 * width, width), nn.ReLU())
        self.mean = nn.Linear(width, 1)
        self.sigma_body = nn.Linear(width, width)
        self.sigma = nn.Linear(width, 1)
        self.trust = nn.Linear(width, 1) if has_trust else None
        nn.init.constant_(self.mean.bias, -0.5)  # throughput 0.6, sigma 8%
        nn.init.constant_(self.sigma.bias, -2.5)

    def forward(self, pooled: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return log throughput, log sigma and trust of h [num_decisions, num_inputs]; one each."""
        x = self.body(pooled)
        z = self.mean(x)[:, 0]
        log_throughput = -nn.functional.softplus(-SHARPNESS * z) / SHARPNESS
        trust = torch.ones_like(z) if self.trust is None else torch.sigmoid(self.trust(x))[:, 0]
        return log_throughput, self.sigma(torch.relu(self.sigma_body(x.detach())))[:, 0], trust


class Normaliser(nn.Module):
    """Columns with mean 0 and deviation 1 on the training set; kept in the model file."""

    mean: Tensor
    scale: Tensor

    def __init__(self, num_columns: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(num_columns))
        self.register_buffer("scale", torch.ones(num_columns))

    def fit(self, rows: Tensor) -> None:
        """Learn means and deviations; columns that hardly vary are not blown up, others that never do are left out.

        What was the same in all of the training set, such as a constant of its only fabric, says nothing.
        """
        deviation = rows.std(dim=0, correction=0)
        self.mean.copy_(rows.mean(dim=0))
        self.scale.copy_(torch.where(deviation < 1e-4, 0.0, 1 / deviation.clamp_min(1e-2)))

    def forward(self, rows: Tensor) -> Tensor:
        return (rows - self.mean) * self.scale
