"""The training step as Lightning wants it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import lightning
import numpy as np
import torch
from torch import Tensor, nn

from costmodel.base import score_predictions
from costmodel.encoding import Batch
from costmodel.networks import Output, has_gpu
from costmodel.training.losses import LossConfig, Weight, losses, term_counts
from placer.base import Count, Fill, InputError, Settings, Within


@dataclass(frozen=True, slots=True)
class TrainerConfig(Settings):
    """What `conf/trainer/*.yaml` hold."""

    max_epochs: Count = 20
    learning_rate: Fill = 2e-3  # the highest; rises over the first tenth, then falls to nothing
    weight_decay: Weight = 1e-4
    gradient_clip: Weight = 1.0  # largest norm of a step's gradient
    graphs_per_batch: Count = 8
    decisions_per_graph: Count = 12
    validation_share: Annotated[float, Within(above=0, most=0.99)] = (
        0.1  # of the netlists that may be used for training
    )
    patience: Count = 15  # epochs without a better validation loss before training ends
    threads: Count | None = None  # of torch; None: one per core
    accelerator: Literal["auto", "cpu", "gpu"] = "auto"  # cpu, gpu, or auto: a GPU when torch and DGL find one

    def check(self) -> None:
        if self.accelerator == "gpu" and not has_gpu():
            raise InputError("trainer.accelerator=gpu: torch or DGL finds no GPU; allowed here: cpu, auto")


class RegressionModule(lightning.LightningModule):
    """A network, its loss and its optimiser."""

    def __init__(self, network: nn.Module, loss: LossConfig, trainer: TrainerConfig) -> None:
        super().__init__()
        self.network, self.loss, self.options = network, loss, trainer
        self._seen: list[tuple[Tensor, Tensor, Tensor]] = []

    def forward(self, batch: Batch) -> Output:
        result: Output = self.network(batch)
        return result

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        parts = losses(self.forward(batch), batch, self.loss)
        size = len(batch)
        if self.trainer.world_size > 1:
            parts, size = self._shared(parts, batch)
        self._log(parts, "train", size)
        return torch.stack(list(parts.values())).sum()

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        output = self.forward(batch)
        self._log(losses(output, batch, self.loss), "val", len(batch))
        self._seen.append((output.log_throughput, batch.log_throughput, batch.graph))

    def on_validation_epoch_end(self) -> None:
        columns = zip(*self._seen, strict=True)
        predicted, measured, graph = (torch.cat(column).cpu().numpy() for column in columns)
        self._seen.clear()
        if not np.isfinite(predicted).all():
            raise InputError(
                f"training diverged: a prediction is not finite after epoch {self.current_epoch}; "
                f"try a lower trainer.learning_rate than {self.options.learning_rate}"
            )
        scores = score_predictions(np.exp(predicted), np.exp(measured), graph).overall
        self.log("val_relative_error", scores.relative_error, prog_bar=True)
        self.log("val_spearman", scores.spearman, prog_bar=True)
        self.log("val_pair_accuracy_5", scores.pair_accuracy_5)

    def configure_optimizers(self) -> Any:
        options = self.options
        optimiser = torch.optim.AdamW(
            self.network.parameters(), lr=options.learning_rate, weight_decay=options.weight_decay
        )
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimiser,
            max_lr=options.learning_rate,
            total_steps=int(self.trainer.estimated_stepping_batches),
            pct_start=0.1,
        )
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        return batch.to(device)

    def _shared(self, parts: dict[str, Tensor], batch: Batch) -> tuple[dict[str, Tensor], int]:
        """Return parts whose mean over all processes is that of the whole batch, and its size.

        Each is the mean of n terms here and N everywhere; gradients are averaged over P processes:
        P n / N is its weight.
        """
        counts = term_counts(batch, self.loss)
        here = torch.tensor([counts[name] for name in parts] + [len(batch)], dtype=torch.float64)
        here = here.to(self.device)
        everywhere = self.trainer.strategy.reduce(here.clone(), reduce_op="sum")
        assert isinstance(everywhere, Tensor)
        weights = self.trainer.world_size * here / everywhere.clamp_min(1)
        weighted = {name: part * weights[number].to(part.dtype) for number, (name, part) in enumerate(parts.items())}
        return weighted, int(everywhere[-1])

    def _log(self, parts: dict[str, Tensor], stage: str, size: int) -> None:
        values = {f"{stage}_{name}": value.detach() for name, value in parts.items()}
        # sigma follows the others and may rise while they fall: no sign of a better model
        values[f"{stage}_loss"] = torch.stack(
            [value.detach() for name, value in parts.items() if name != "sigma"]
        ).sum()
        is_shared = stage == "train"  # every process validates all, with the same weights
        self.log_dict(values, on_step=False, on_epoch=True, batch_size=size, sync_dist=is_shared)
