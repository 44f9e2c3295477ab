"""A way to read a long text with a trained decoder, and the losses that come of it."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from posenc_mm import Rotary, sequence
from posenc_mm.scaling import RotarySettings, Scaling, Unscaled
from posenc_mm.temperature import LogTemperature
from text.decoder import Decoder
from text.decoder_distances import Distances

# Logits of this many tokens are held at a time: a vocabulary may be large.
CHUNK = 1024


@dataclass(frozen=True)
class Reading:
    r"""What is changed in a trained decoder, and what is left out of its sight.

    Args:
        scaling: of the speeds of its pairs.
        window: a token sees only those less than this many tokens back.
        near: distance from which on distances are compressed.
        group: by how much: distance :math:`d` beyond becomes :math:`w + (d - w) / g`; infinite
            holds all at :math:`w`.
        log_length: length :math:`L` beyond which attention is sharpened, by :math:`\ln p / \ln L`.

    References:
        Su: Transformer Upgrade Path 12, ReRoPE and its leaky form (2023),
        https://kexue.fm/archives/9708; in whole groups: Jin et al.: LLM Maybe LongLM: Self-Extend
        LLM Context Window Without Tuning (2024), https://arxiv.org/abs/2401.01325

    Raises:
        ValueError: ``near`` comes with ``window``, or ``group`` is below 1.
    """

    scaling: Scaling = field(default_factory=Unscaled)
    window: int | None = None
    near: int | None = None
    group: float = float("inf")
    log_length: int | None = None

    def __post_init__(self) -> None:
        if self.near is not None and self.window is not None:
            raise ValueError(f"near and window exclude each other, got {self.near}, {self.window}")
        if not self.group >= 1:
            raise ValueError(f"group must be at least 1, got {self.group}")

    def __str__(self) -> str:
        plain = Reading()
        changed = [
            f"{name}={getattr(self, name)}"
            for name in ("scaling", "window", "near", "group", "log_length")
            if getattr(self, name) != getattr(plain, name)
        ]
        return ", ".join(changed) or "nothing changed"


def rotary(settings: RotarySettings, layout: str, reading: Reading, length: int) -> Rotary:
    """Build the rotary encoding of a reading.

    Args:
        settings: of the trained model.
        layout: of the trained model.
        reading: the way.
        length: of the texts.

    Returns:
        The encoding.
    """
    return Rotary(
        settings.head_dim,
        base=settings.base,
        layout=layout,
        rotary_dim=settings.rotary_dim,
        scaling=reading.scaling,
        length=length,
    )


def how(decoder: Decoder, reading: Reading, positions: Tensor) -> dict[str, Any]:
    """Say what a call of the decoder is given beside tokens and positions.

    Args:
        decoder: with the rotary encoding of this reading.
        reading: the way.
        positions: ``(N, 1)``, those of whole texts.

    Returns:
        Arguments.
    """
    encoding: Any = decoder.rotary
    sharpness = torch.full(positions.shape, encoding.softmax_factor, device=positions.device)
    if reading.log_length is not None:
        sharpness = sharpness * LogTemperature(reading.log_length)(positions)
    said: dict[str, Any] = {}
    if not bool((sharpness == 1).all()):
        said["sharpness"] = sharpness
    if reading.window is not None and reading.window < len(positions):
        said["window"] = reading.window
    if reading.near is not None and reading.near < len(positions):
        # Positions of their own let one product of rotations give every far distance.
        places = positions.float() / reading.group
        queries = places + reading.near * (1 - 1 / reading.group)
        said["distances"] = Distances(reading.near, encoding(queries), encoding(places))
    return said


def losses(decoder: Decoder, reading: Reading, windows: Tensor) -> Tensor:
    """Say how surprising each token is, given those before it in its window.

    Args:
        decoder: with the rotary encoding of this reading.
        reading: the way.
        windows: ``(B, N + 1)`` tokens.

    Returns:
        ``(B, N)`` in nats, of tokens 1 to N.
    """
    positions = sequence(windows.shape[1] - 1, device=windows.device)
    states = decoder.states(windows[:, :-1], positions, **how(decoder, reading, positions))
    parts = []
    for start in range(0, len(positions), CHUNK):
        logits = decoder.logits(states[:, start : start + CHUNK]).float()
        targets = windows[:, 1:][:, start : start + CHUNK]
        parts.append(F.cross_entropy(logits.transpose(1, 2), targets, reduction="none"))
    return torch.cat(parts, dim=1)
