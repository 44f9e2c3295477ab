"""Losses of a decoder at a length, on the same last tokens whatever the length."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from text.decoder import Decoder
from text.stretching.reading import Reading, losses, rotary


class Kept(NamedTuple):
    """Windows of a measurement that an interrupted command has read.

    Attributes:
        path: of the file.
        key: of the measurement, by which those of another one are noticed.
    """

    path: Path
    key: str

    def load(self) -> list[Tensor]:
        """Losses of the windows that are read, batch by batch."""
        if not self.path.is_file():
            return []
        held = torch.load(self.path, weights_only=True)
        return held["found"] if held["key"] == self.key else []

    def save(self, found: list[Tensor]) -> None:
        """Keep the losses of these windows."""
        part = self.path.with_suffix(".part")
        torch.save({"key": self.key, "found": found}, part)
        os.replace(part, self.path)


def measure(
    decoder: Decoder,
    study: Any,
    reading: Reading,
    part: str,
    ends: list[int],
    length: int,
    tell: Callable[[float], None] | None = None,
    kept: Kept | None = None,
) -> Tensor:
    """Read windows that end at the same tokens.

    Args:
        decoder: its rotary encoding is that of the reading, afterwards.
        study: the text, and the settings of the model.
        reading: the way.
        part: of the text.
        ends: last token of each window.
        length: tokens of a window before its last.
        tell: takes the share that is done.
        kept: where windows that are read are kept, so that a call that is stopped goes on.

    Returns:
        ``(W, length)`` losses in nats, on the processor.
    """
    opened, tokens = study.opened, study.parts[part]
    decoder.rotary = rotary(opened.settings, opened.layout, reading, length)
    # Short windows are read together.
    together = max(1, 2 * opened.length // length)
    found = [] if kept is None else kept.load()
    with torch.no_grad():
        for first in range(sum(map(len, found)), len(ends), together):
            chosen = ends[first : first + together]
            windows = torch.stack([tokens[end - length : end + 1] for end in chosen])
            found.append(losses(decoder, reading, windows.to(study.device)).cpu())
            if kept is not None:
                kept.save(found)
            if tell is not None:
                tell(min(1.0, (first + together) / len(ends)))
    return torch.cat(found)


def curve(found: Tensor, points: int = 32) -> list[tuple[int, float]]:
    """Average losses over neighbouring positions.

    Args:
        found: ``(W, N)`` losses.
        points: how many averages.

    Returns:
        The last position of each stretch, counted from 1, and the mean loss in it.
    """
    bounds = [round(i * found.shape[1] / points) for i in range(points + 1)]
    return [
        (end, found[:, start:end].mean().item())
        for start, end in zip(bounds, bounds[1:], strict=False)
        if end > start
    ]
