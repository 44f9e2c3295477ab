"""How surprised a model is by a text, in the units that are usual for it."""

from math import log

import torch
from torch import Tensor
from torchmetrics import Metric


class Surprise(Metric):
    """Loss, perplexity, bits per byte and accuracy over all tokens, batches and processes.

    A perplexity is per token, so that models of other tokens cannot be compared by it; bits per
    byte can be.
    """

    full_state_update = False

    def __init__(self) -> None:
        super().__init__()
        self.add_state("nats", torch.zeros(()), dist_reduce_fx="sum")
        for name in ("tokens", "bytes", "right"):
            self.add_state(name, torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, losses: Tensor, widths: Tensor, right: Tensor) -> None:
        """Add tokens ``(K,)``: losses in nats, bytes that they stand for, whether foreseen."""
        self.nats += losses.float().sum()
        self.tokens += losses.numel()
        self.bytes += widths.sum()
        self.right += right.sum()

    def compute(self) -> dict[str, Tensor]:
        loss = self.nats / self.tokens
        bits = self.nats / log(2) / self.bytes
        named = {"loss": loss, "perplexity": loss.exp(), "bits_per_byte": bits}
        return {**named, "accuracy": self.right / self.tokens}
