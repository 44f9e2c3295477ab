"""Arguments that go together, for every encoding and scaling: the one place where they are said.

Widths are those of the applications' smallest models: 64 channels, 4 heads of 16, a grid of 4 x 4
patches, windows of 168 hours and 24 to come.
"""

from typing import Any

from posenc_mm import additive, bias, rotary, scaling
from posenc_mm.additive import Calendar, Learned, Seasonal
from posenc_mm.bias import ALiBi, T5Bias
from posenc_mm.catalogue.example import Example

_DIM = {"dim": 64}
_HEADS = {"heads": 4}
_HEAD_DIM = {"head_dim": 16}
_BOTH = {"heads": 4, "head_dim": 16}
_MOMENTS: dict[str, Any] = {
    "application": "timeseries",
    "settings": {"clock": "time"},
    "origin": 1_735_084_800,
}
_ROWS: dict[str, Any] = {"application": "timeseries", "settings": {"clock": "row"}}
_HOURLY = {"step": 3600.0}
_DAY = Example(Seasonal, _HOURLY, {"periods": {"day": 2}})
_WEEKDAY = Example(Calendar, {}, {"fields": ["day_of_week"], "code": "one_hot"})


def _learned(*sizes: int) -> Example:
    return Example(Learned, _DIM, {"sizes": list(sizes), "joint": False})


def _vision(target: Any, filled: dict[str, Any], **chosen: Any) -> Example:
    return Example(target, filled, chosen, "vision")


def _text(target: Any, filled: dict[str, Any], **chosen: Any) -> Example:
    return Example(target, filled, chosen, "text")


def _moments(target: Any, filled: dict[str, Any], **chosen: Any) -> Example:
    return Example(target, filled, chosen, **_MOMENTS)


_ENCODINGS = (
    _text(additive.Sinusoidal, _DIM),
    _vision(additive.Learned, {**_DIM, "sizes": (4, 4)}, joint=True),
    Example(additive.WindowedLearned, _DIM, {"sizes": [4, 4], "window": [2, 2]}),
    _vision(additive.Fourier, _DIM, axes=2, scale=0.1),
    _vision(additive.LearnedFourier, _DIM, axes=2, scale=0.1),
    _moments(additive.Calendar, {}, fields=["hour", "day_of_week"]),
    _moments(additive.OnCalendar, {}, encoding=_learned(24, 7), fields=["hour", "day_of_week"]),
    _moments(additive.Seasonal, _HOURLY, periods={"day": 4, "year": 2}),
    _moments(additive.LearnedSeasonal, {}, periods={"24h": 2}, origin=1_262_304_000),
    _moments(additive.Holidays, {}, dates=["2024-12-25", "2024-12-26"], years=[2000, 2030]),
    Example(additive.Time2Vec, _DIM, {"scale": 24.0}, **_ROWS),
    Example(additive.Horizon, {"context": 168}, {}, **_ROWS),
    _moments(
        additive.Sum, {}, encodings=[_DAY, Example(Seasonal, _HOURLY, {"periods": {"week": 2}})]
    ),
    _moments(additive.Concat, {}, encodings=[_DAY, _WEEKDAY]),
    _moments(additive.Product, {}, encodings=[_WEEKDAY, _DAY]),
    _moments(additive.Projected, _DIM, encodings=[_DAY, _WEEKDAY]),
    _vision(additive.Conditional, _DIM, axes=2),
    _vision(rotary.Rotary, _HEAD_DIM, axes=2, base=100.0),
    _vision(rotary.MixedRotary, _BOTH, axes=2, base=10.0),
    _vision(rotary.CayleySTRING, _BOTH, axes=2, base=100.0),
    _vision(rotary.CirculantSTRING, _BOTH, axes=2, base=100.0),
    _vision(rotary.LieRE, _BOTH, axes=2, block=8, scale=0.5),
    _moments(rotary.TimeRotary, _HEAD_DIM, step="1h", span="7D", periods=["24h"]),
    _text(rotary.XPos, _HEAD_DIM),
    _text(bias.ALiBi, _HEADS),
    _text(bias.LearnedALiBi, _HEADS),
    _text(bias.T5Bias, _HEADS, bidirectional=False),
    _vision(bias.RelativeBias, {**_HEADS, "sizes": (4, 4)}),
    _vision(bias.ContinuousBias, _HEADS, axes=2, convention="cr"),
    _vision(bias.IRPE, _HEADS, axes=2, shared=False),
    Example(bias.ContextualIRPE, _BOTH, {"axes": 2}),
    Example(bias.DecomposedBias, _BOTH, {"sizes": [4, 4]}),
    Example(bias.ShawBias, _BOTH, {"left": 16}),
    Example(bias.TransformerXLBias, _BOTH),
    Example(bias.DeBERTaBias, _BOTH, {"buckets": 32, "max_distance": 128}),
    Example(bias.AnyVariateBias, _HEADS),
    _moments(
        bias.BiasSum,
        {},
        biases=[
            Example(ALiBi, _HEADS, {"step": 3600.0}),
            Example(T5Bias, _HEADS, {"step": 86400.0}),
        ],
    ),
    Example(bias.ERPE, {**_HEADS, "size": 12}, {}, "timeseries", {"clock": "token"}),
)

_SCALINGS = (
    Example(scaling.Unscaled),
    Example(scaling.Linear, {}, {"factor": 4.0}),
    Example(scaling.NTK, {}, {"factor": 4.0}),
    Example(scaling.DynamicNTK, {}, {"factor": 2.0, "original_length": 128}),
    Example(scaling.NTKByParts, {}, {"factor": 4.0, "original_length": 128}),
    Example(scaling.YaRN, {}, {"factor": 4.0, "original_length": 128}),
    Example(scaling.DynamicYaRN, {}, {"original_length": 128}),
    Example(scaling.Llama3, {}, {"factor": 4.0, "original_length": 128}),
    Example(
        scaling.LongRoPE,
        {},
        {
            "short": [1.0] * 8,
            "long": [1.0, 1.1, 1.3, 1.6, 2.0, 2.5, 3.2, 4.0],
            "original_length": 128,
            "factor": 4.0,
        },
    ),
    Example(scaling.PerPair, {}, {"factors": [1.0, 1.1, 1.3, 1.6, 2.0, 2.5, 3.2, 4.0]}),
    Example(scaling.Proportional, {}, {"share": 0.25}),
    Example(scaling.Resonance, {}, {"inner": Example(scaling.Linear, {}, {"factor": 4.0})}),
    Example(scaling.RIFLEx, {}, {"pair": 1}),
    Example(
        scaling.PerAxis,
        {},
        {"scalings": [Example(scaling.RIFLEx, {}, {"pair": 1}), Example(scaling.Unscaled)]},
    ),
)

EXAMPLES = {example.target.__name__: example for example in (*_ENCODINGS, *_SCALINGS)}
