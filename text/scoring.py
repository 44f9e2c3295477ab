"""Where in a window, and where in a text, a model is surprised."""

from dataclasses import dataclass
from math import exp, log

import numpy as np
import torch
from torch.utils.data import DataLoader

from text.module import LanguageModel

# Points of a curve, and parts of a text by which chance is judged.
POINTS, STRETCHES = 32, 16


@dataclass(frozen=True)
class Scores:
    """The losses of all counted tokens, in the order of the text.

    Attributes:
        losses: ``(K,)`` in nats.
        seen: ``(K,)`` how many tokens of context each had.
        width: mean bytes of a token.
    """

    losses: np.ndarray
    seen: np.ndarray
    width: float

    @property
    def loss(self) -> float:
        return float(self.losses.mean())

    @property
    def perplexity(self) -> float:
        return exp(self.loss)

    @property
    def bits_per_byte(self) -> float:
        return self.loss / log(2) / self.width

    def curve(self) -> list[tuple[int, float]]:
        """Mean loss by context: (most tokens of context, loss), in steps that grow with context."""
        most = int(self.seen.max())
        edges = np.unique(np.geomspace(1, most, min(POINTS, most)).round().astype(int))
        place = np.searchsorted(edges, self.seen)
        counts, sums = np.bincount(place), np.bincount(place, self.losses)
        return [(int(edges[k]), float(sums[k] / counts[k])) for k in range(len(edges)) if counts[k]]

    def stretches(self) -> list[float]:
        """Mean loss of each of equal parts of the text."""
        parts = np.array_split(self.losses, min(STRETCHES, len(self.losses)))
        return [float(part.mean()) for part in parts]


@torch.no_grad()
def score(model: LanguageModel, loader: DataLoader) -> Scores:
    """Read a text and note each loss.

    Args:
        model: to judge, on the device it is on.
        loader: of windows, as ``test_dataloader`` returns for a length.

    Returns:
        The scores.
    """
    training = model.training
    model.eval()
    losses, seen, places, targets = [], [], [], []
    for batch in loader:
        moved = batch._replace(
            tokens=batch.tokens.to(model.device),
            positions=batch.positions.to(model.device),
            segments=None if batch.segments is None else batch.segments.to(model.device),
        )
        found = model.token_losses(moved)[0].cpu()
        window, row = batch.counted.nonzero(as_tuple=True)
        losses.append(found[window, row].double().numpy())
        seen.append((row + 1).numpy())
        places.append((batch.starts[window] + row).numpy())
        targets.append(batch.tokens[window, row + 1].numpy())
    model.train(training)
    order = np.argsort(np.concatenate(places), kind="stable")
    widths = np.array(model.vocabulary.widths)[np.concatenate(targets)]
    return Scores(np.concatenate(losses)[order], np.concatenate(seen)[order], float(widths.mean()))
