"""The list of every encoding: a new one joins the contract by one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import posenc_mm as pm

HEADS, HEAD_DIM = 3, 8
DIM = HEADS * HEAD_DIM


@dataclass(frozen=True)
class Case:
    """One encoding: how to make it, on how many axes, and whether it learns."""

    name: str
    make: Callable[[], nn.Module]
    axes: int = 1
    learned: bool = False
    any_axes: bool = False

    def __str__(self) -> str:
        return self.name

    @property
    def kind(self) -> str:
        module = self.make()
        kinds = {
            pm.AdditiveEncoding: "additive",
            pm.RotaryEncoding: "rotary",
            pm.AttentionBias: "bias",
        }
        return next(name for base, name in kinds.items() if isinstance(module, base))


ENCODINGS = [
    Case("sinusoidal", lambda: pm.Sinusoidal(DIM)),
    Case("sinusoidal half endpoint", lambda: pm.Sinusoidal(DIM, layout="half", endpoint=True)),
    Case("sinusoidal 2-D", lambda: pm.Sinusoidal(DIM, axes=2), axes=2),
    Case("sinusoidal 3-D", lambda: pm.Sinusoidal(DIM, axes=3, layout="half"), axes=3),
    Case("learned", lambda: pm.Learned(DIM, 64), learned=True),
    Case("learned 2-D", lambda: pm.Learned(DIM, (64, 80)), axes=2, learned=True),
    Case("learned factorised", lambda: pm.Learned(DIM, (64, 80), joint=False), 2, learned=True),
    Case("fourier gaussian", lambda: pm.Fourier(DIM, axes=2, scale=0.1), axes=2),
    Case("fourier linear", lambda: pm.Fourier(DIM, bands="linear", scale=4.0)),
    Case("fourier octaves", lambda: pm.Fourier(DIM, axes=3, bands="octaves"), axes=3),
    Case("learned fourier", lambda: pm.LearnedFourier(DIM, axes=2), axes=2, learned=True),
    Case("rotary", lambda: pm.Rotary(HEAD_DIM)),
    Case("rotary interleaved", lambda: pm.Rotary(HEAD_DIM, layout="interleaved")),
    Case("rotary partial", lambda: pm.Rotary(HEAD_DIM, rotary_dim=4, freq_dim=HEAD_DIM)),
    Case("rotary 2-D", lambda: pm.Rotary(HEAD_DIM, axes=2, base=(100.0, 50.0)), axes=2),
    Case("rotary 3-D", lambda: pm.Rotary(HEAD_DIM, axes=3, rotary_dim=6), axes=3),
    Case("mixed rotary", lambda: pm.MixedRotary(HEAD_DIM, HEADS), axes=2, learned=True),
    Case("mixed rotary 1-D", lambda: pm.MixedRotary(HEAD_DIM, HEADS, axes=1), learned=True),
    Case("alibi", lambda: pm.ALiBi(HEADS), any_axes=True),
    Case("alibi 2-D", lambda: pm.ALiBi(HEADS, distance="l2"), 2, any_axes=True),
    Case("alibi some heads", lambda: pm.ALiBi(HEADS, biased_heads=2), any_axes=True),
    Case("learned alibi", lambda: pm.LearnedALiBi(HEADS), learned=True, any_axes=True),
    Case("t5", lambda: pm.T5Bias(HEADS), learned=True),
    Case("t5 causal", lambda: pm.T5Bias(HEADS, bidirectional=False), learned=True),
    Case("relative", lambda: pm.RelativeBias(HEADS, 5), learned=True),
    Case("relative 2-D", lambda: pm.RelativeBias(HEADS, (64, 80)), axes=2, learned=True),
]


def positions(length: int, axes: int, offset: int = 0) -> Tensor:
    """Distinct whole positions on every axis, not a grid and not the same on two axes."""
    count = torch.arange(length) + offset
    return torch.stack([(count * (axis + 1)) % (41 + axis) for axis in range(axes)], dim=-1)


class Applied(nn.Module):
    """An encoding as a host uses it: x (B, H, N, D) in, tensors of any kind out."""

    def __init__(self, encoding: nn.Module) -> None:
        super().__init__()
        self.encoding = encoding

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        if isinstance(self.encoding, pm.AdditiveEncoding):
            return x.transpose(1, 2).flatten(2) + self.encoding(at).to(x.dtype)
        if isinstance(self.encoding, pm.RotaryEncoding):
            return pm.rotate(x, self.encoding(at))
        return pm.attend(x, x, x, bias=self.encoding, q_positions=at)


def tokens(batch: int, length: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Random queries (B, H, N, D), the same for the same arguments."""
    generator = torch.Generator().manual_seed(100 * batch + length)
    x = torch.randn(batch, HEADS, length, HEAD_DIM, generator=generator, dtype=torch.float64)
    return x.to(dtype)
