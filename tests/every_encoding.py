"""The list of every encoding: a new one joins the contract by one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

import posenc_mm as pm
from posenc_mm.frequencies import sections, whole_heads
from posenc_mm.scaling import PerAxis, Unscaled, YaRN
from posenc_mm.timestamps import FIELD_SIZES

HEADS, HEAD_DIM = 3, 8
DIM = HEADS * HEAD_DIM
CLOCKS = list(FIELD_SIZES)[3:15]
FIELDS = ["second", "day_of_week"]
NEAR = {"offsets": range(DIM), "kernel": "exponential", "alpha": 0.1}
SMALL = {"hidden": 16, "convention": "cr"}
WIDTHS = (HEADS, HEAD_DIM)
SECTIONS = partial(sections, counts=(1, 2, 1))
WHOLE = whole_heads(pm.geometric(HEAD_DIM // 2), (1, 2))
DAILY = {"step": "10s", "span": "7D", "periods": ["1D"]}


@dataclass(frozen=True)
class Case:
    """One encoding: how to make it, on how many axes, and whether it learns.

    Positions of some must be moments, which float32 cannot hold, or whole numbers. ``spread`` is
    how far apart positions are to be for a difference to be seen.
    """

    name: str
    make: Callable[[], nn.Module]
    axes: int = 1
    learned: bool = False
    any_axes: bool = False
    moments: bool = False
    whole: bool = False
    spread: float = 0.37

    def __str__(self) -> str:
        return self.name

    @property
    def kind(self) -> str:
        module = self.make()
        kinds = {
            pm.AdditiveEncoding: "additive",
            pm.RotaryEncoding: "rotary",
            pm.AttentionBias: "bias",
            pm.ContextualBias: "bias",
        }
        return next(name for base, name in kinds.items() if isinstance(module, base))


def minutes_and_days() -> pm.Learned:
    return pm.Learned(DIM, (60, 7), joint=False)


ENCODINGS = [
    Case("sinusoidal", lambda: pm.Sinusoidal(DIM)),
    Case("sinusoidal half endpoint", lambda: pm.Sinusoidal(DIM, layout="half", endpoint=True)),
    Case("sinusoidal 2-D", lambda: pm.Sinusoidal(DIM, axes=2), axes=2),
    Case("sinusoidal 3-D", lambda: pm.Sinusoidal(DIM, axes=3, layout="half"), axes=3),
    Case("sinusoidal blocks", lambda: pm.Sinusoidal(DIM, axes=2, layout="axis_half"), axes=2),
    Case("learned", lambda: pm.Learned(DIM, 64), learned=True),
    Case("learned 2-D", lambda: pm.Learned(DIM, (64, 80)), axes=2, learned=True),
    Case("learned factorised", lambda: pm.Learned(DIM, (64, 80), joint=False), 2, learned=True),
    Case("learned cubic", lambda: pm.Learned(DIM, (64, 80), kernel="cubic"), 2, learned=True),
    Case("learned antialiased", lambda: pm.Learned(DIM, 64, kernel="cubic_aa"), learned=True),
    Case("windowed", lambda: pm.WindowedLearned(DIM, (64, 80), (3, 5)), axes=4, learned=True),
    Case("fourier gaussian", lambda: pm.Fourier(DIM, axes=2, scale=0.1), axes=2),
    Case("fourier linear", lambda: pm.Fourier(DIM, bands="linear", scale=4.0)),
    Case("fourier octaves", lambda: pm.Fourier(DIM, axes=3, bands="octaves"), axes=3),
    Case("learned fourier", lambda: pm.LearnedFourier(DIM, axes=2), axes=2, learned=True),
    Case("tape", lambda: pm.Sinusoidal(DIM, frequencies=[pm.tape(DIM // 2, 40)])),
    Case("time2vec", lambda: pm.Time2Vec(DIM, scale=10.0), learned=True),
    Case("calendar", lambda: pm.Calendar(CLOCKS, zone="Europe/London"), moments=True),
    Case("calendar ramp", lambda: pm.Calendar(CLOCKS * 2, code="ramp"), moments=True),
    Case("on calendar", lambda: pm.OnCalendar(minutes_and_days(), FIELDS), 1, True, moments=True),
    Case("seasonal", lambda: pm.Seasonal({"second": 1, "minute": 6, "10.5s": 5}), moments=True),
    Case(
        "learned seasonal", lambda: pm.LearnedSeasonal({"9s": 6, "50s": 6}), 1, True, moments=True
    ),
    Case(
        "holidays", lambda: pm.Holidays(dates=["1970-01-01"], **NEAR), 1, moments=True, spread=4e4
    ),
    Case("sum", lambda: pm.Sum([pm.Sinusoidal(DIM), pm.Learned(DIM, 64)]), learned=True),
    Case("concat", lambda: pm.Concat([pm.Sinusoidal(DIM - 2), pm.Horizon(9)])),
    Case("product", lambda: pm.Product([pm.Sinusoidal(DIM // 2), pm.Horizon(9)])),
    Case("projected", lambda: pm.Projected(DIM, pm.Sinusoidal(8), bias=True), learned=True),
    Case("rotary", lambda: pm.Rotary(HEAD_DIM)),
    Case("rotary interleaved", lambda: pm.Rotary(HEAD_DIM, layout="interleaved")),
    Case("rotary partial", lambda: pm.Rotary(HEAD_DIM, rotary_dim=4, freq_dim=HEAD_DIM)),
    Case("rotary 2-D", lambda: pm.Rotary(HEAD_DIM, axes=2, base=(100.0, 50.0)), axes=2),
    Case("rotary stretched", lambda: pm.Rotary(HEAD_DIM, scaling=YaRN(4.0, 16))),
    Case(
        "rotary stretched by axis",
        lambda: pm.Rotary(HEAD_DIM, axes=2, scaling=PerAxis([YaRN(4.0, 16), Unscaled()])),
        axes=2,
    ),
    Case("rotary 3-D", lambda: pm.Rotary(HEAD_DIM, axes=3, rotary_dim=6), axes=3),
    Case("rotary sections", lambda: pm.Rotary(HEAD_DIM, 3, allocation=SECTIONS), axes=3),
    Case("rotary uneven", lambda: pm.Rotary(HEAD_DIM, 2, rotary_dim=(2, 6), base=99.0), axes=2),
    Case("rotary whole heads", lambda: pm.Rotary(HEAD_DIM, 2, frequencies=WHOLE), axes=2),
    Case("mixed rotary", lambda: pm.MixedRotary(HEAD_DIM, HEADS), axes=2, learned=True),
    Case("mixed rotary of heads", lambda: pm.MixedRotary(8, HEADS, 2, start=WHOLE), 2, True),
    Case("mixed rotary 1-D", lambda: pm.MixedRotary(HEAD_DIM, HEADS, axes=1), learned=True),
    Case("rotary axis half", lambda: pm.Rotary(HEAD_DIM, axes=2, layout="axis_half"), axes=2),
    Case("cayley string", lambda: pm.CayleySTRING(HEAD_DIM, std=0.3), axes=2, learned=True),
    Case(
        "cayley string per head", lambda: pm.CayleySTRING(8, 1, heads=HEADS, std=0.3), learned=True
    ),
    Case("circulant string", lambda: pm.CirculantSTRING(HEAD_DIM), axes=2, learned=True),
    Case("circulant string per head", lambda: pm.CirculantSTRING(8, 3, heads=HEADS), 3, True),
    Case("liere", lambda: pm.LieRE(HEAD_DIM, axes=1, block=4, scale=0.1), learned=True),
    Case("liere pairs", lambda: pm.LieRE(HEAD_DIM, heads=HEADS, block=2, scale=1.0), 2, True),
    Case("xpos", lambda: pm.XPos(HEAD_DIM)),
    Case("xpos half", lambda: pm.XPos(HEAD_DIM, layout="half", scale_base=40.0)),
    Case("time rotary", lambda: pm.TimeRotary(HEAD_DIM, step=1, span=60), moments=True),
    Case("time rotary daily", lambda: pm.TimeRotary(HEAD_DIM, **DAILY), moments=True),
    Case("alibi", lambda: pm.ALiBi(HEADS), any_axes=True),
    Case("alibi in steps", lambda: pm.ALiBi(HEADS, step=3.0), any_axes=True),
    Case("alibi 2-D", lambda: pm.ALiBi(HEADS, distance="l2"), 2, any_axes=True),
    Case("alibi some heads", lambda: pm.ALiBi(HEADS, biased_heads=2), any_axes=True),
    Case("learned alibi", lambda: pm.LearnedALiBi(HEADS), learned=True, any_axes=True),
    Case("t5", lambda: pm.T5Bias(HEADS), learned=True),
    Case("t5 causal", lambda: pm.T5Bias(HEADS, bidirectional=False), learned=True),
    Case("t5 in steps", lambda: pm.T5Bias(HEADS, step=2.0), learned=True),
    Case("any variate", lambda: pm.AnyVariateBias(HEADS), learned=True, whole=True),
    Case("erpe", lambda: pm.ERPE(HEADS, 41), learned=True, whole=True),
    Case("bias sum", lambda: pm.BiasSum([pm.ALiBi(HEADS), pm.T5Bias(HEADS)]), learned=True),
    Case("relative", lambda: pm.RelativeBias(HEADS, 5), learned=True),
    Case("continuous", lambda: pm.ContinuousBias(HEADS, (8, 9), hidden=16), 2, learned=True),
    Case("continuous cr", lambda: pm.ContinuousBias(HEADS, axes=1, **SMALL), learned=True),
    Case("irpe", lambda: pm.IRPE(HEADS, std=0.1), axes=2, learned=True),
    Case("irpe per head", lambda: pm.IRPE(HEADS, 1, shared=False), learned=True),
    Case("irpe cross", lambda: pm.IRPE(HEADS, 3, method="cross"), axes=3, learned=True),
    Case("irpe euclidean", lambda: pm.IRPE(HEADS, method="euclidean"), axes=2, learned=True),
    Case("irpe quant", lambda: pm.IRPE(HEADS, method="quant"), axes=2, learned=True),
    Case("contextual", lambda: pm.ContextualIRPE(*WIDTHS, on="qk", std=0.1), 2, learned=True),
    Case("decomposed", lambda: pm.DecomposedBias(*WIDTHS, (64, 80), std=0.1), 2, learned=True),
    Case("shaw", lambda: pm.ShawBias(*WIDTHS, 7, 3), learned=True),
    Case("shaw on values", lambda: pm.ShawBias(*WIDTHS, on="kv"), learned=True),
    Case("transformer-xl", lambda: pm.TransformerXLBias(*WIDTHS), learned=True),
    Case("deberta", lambda: pm.DeBERTaBias(*WIDTHS, 8, 20, std=0.1), learned=True),
    Case("deberta linear", lambda: pm.DeBERTaBias(*WIDTHS, 8, None, terms=("p2c",)), learned=True),
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


def compared(bias: nn.Module, q_at: Tensor, k_at: Tensor) -> Tensor:
    """What a bias says; a contextual one, to queries and keys that are always the same."""
    said = bias(q_at, k_at)
    if not isinstance(said, pm.Contextual):
        return said
    dtype = next(bias.parameters()).dtype
    return said.logits(*(tokens(1, at.shape[-2], dtype) for at in (q_at, k_at)))


def tokens(batch: int, length: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Random queries (B, H, N, D), the same for the same arguments."""
    generator = torch.Generator().manual_seed(100 * batch + length)
    x = torch.randn(batch, HEADS, length, HEAD_DIM, generator=generator, dtype=torch.float64)
    return x.to(dtype)
