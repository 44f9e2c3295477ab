"""Which pictures fit what has a name, and at which positions it is drawn."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from posenc_mm.additive import AdditiveEncoding, ConditionalEncoding
from posenc_mm.bias import ALiBi, AttentionBias, ContextualBias, T5Bias
from posenc_mm.catalogue.finding import Entry
from posenc_mm.checks import check_whole
from posenc_mm.placed import Placed
from posenc_mm.plots.reading import tick_of
from posenc_mm.plots.speeds import has_frequencies
from posenc_mm.positions import grid, sequence
from posenc_mm.rotary import Rotary, RotaryEncoding
from posenc_mm.scaling import PerAxis, Scaling
from posenc_mm.streams import Audio, Image, Layout, Stream, Text, Together, Video
from posenc_mm.timestamps import Zone, duration
from posenc_mm.timestamps.units import TICKS_PER_SECOND

WIDTHS = {"dim": 64, "head_dim": 64, "heads": 8}
_COUNT, _MOST = 128, 1 << 17
# What an example has for its application, where a picture shows more without.
_LEFT_OUT = {
    "Rotary": ("axes", "base"),
    "Fourier": ("axes",),
    "LearnedFourier": ("axes",),
    "T5Bias": ("bidirectional",),
}


@dataclass(frozen=True)
class Subject:
    """What is drawn, and where.

    Attributes:
        made: an encoding, or a stream.
        positions: ``(N, A)``; None for a stream.
        size: rows and columns, where positions on another number of axes stand for a grid.
    """

    made: Any
    positions: Tensor | None = None
    size: Sequence[int] | None = None


def make(entry: Entry, given: Mapping[str, Any]) -> Any:
    """Make what has a name, with arguments in place of its example's.

    Args:
        entry: of the catalogue.
        given: the arguments.

    Returns:
        An encoding, a preset, a scaling or a position design.

    Raises:
        ValueError: it refuses them.
    """
    left_out = _LEFT_OUT.get(entry.name, ())
    filled, chosen = (
        {name: value for name, value in part.items() if name not in left_out}
        for part in (entry.example.filled, entry.example.chosen)
    )
    asked = {*filled, *chosen} if entry.group in ("additive", "rotary", "bias") else {*()}
    wide: dict[str, Any] = {name: width for name, width in WIDTHS.items() if name in asked}
    if "sizes" in asked:
        wide["sizes"] = (8, 8)
    if "biases" in asked:
        wide["biases"] = [ALiBi(WIDTHS["heads"]), T5Bias(WIDTHS["heads"])]
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return replace(entry.example, filled=filled, chosen=chosen).make(**{**wide, **given})
    except TypeError as wrong:
        raise ValueError(f"arguments of {entry.name} do not fit: {wrong}") from None


def subject(
    made: Any,
    length: int | None = None,
    size: Sequence[int] | None = None,
    since: str = "2024-01-01",
    every: str = "1h",
) -> Subject:
    """Say where something is drawn.

    Args:
        made: an encoding, a preset, a scaling, a position design or a stream.
        length: number of tokens on one axis.
        size: cells of a grid.
        since: ISO date of the first moment, in UTC.
        every: duration from one moment to the next.

    Returns:
        It, and positions that it reads.

    Raises:
        ValueError: it is none of these, reads no such positions, or they are none or too many.
    """
    _check(length, size)
    if isinstance(made, Layout):
        film = Together(Video([0.0, 0.5, 1.0, 2.5, 3.0], 3, 4), Audio(count=12, rate=4.0))
        try:
            return Subject(made(Text(8), Image(4, 6), Text(5), film, Text(6)))
        except ValueError:  # one that has no axis for sounds, or no seconds
            return Subject(made(Text(8), Image(4, 6), Text(5), Image(3, 4), Text(6)))
    if isinstance(made, Stream):
        return Subject(made)
    if isinstance(made, (Scaling, PerAxis)):
        factors = getattr(made, "short", None) or getattr(made, "factors", None)
        axes = len(made.scalings) if isinstance(made, PerAxis) else 1
        trained = getattr(made, "original_length", None)
        # Those that move with the length are drawn at one: four times the trained one, if known.
        reached = None if made.static else length or (4 * trained if trained else _COUNT)
        width = 2 * len(factors) if factors else WIDTHS["head_dim"]
        made = Rotary(width, axes, scaling=made, length=reached)
    encoding = made.encoding if isinstance(made, Placed) else made
    if not isinstance(encoding, nn.Module) or not pictures(encoding):
        reads = isinstance(encoding, ConditionalEncoding)
        why = "what it adds depends on the tokens" if reads else "it is no encoding"
        raise ValueError(f"there is no picture of {type(encoding).__name__}: {why}")
    tick = tick_of(encoding)
    if tick and not isinstance(made, Placed):
        start = _moment(since)
        step = duration(every) * TICKS_PER_SECOND[tick]
        count = length or 168
        return Subject(
            encoding,
            start * TICKS_PER_SECOND[tick] + torch.arange(count)[:, None] * round(step),
        )
    refused = None
    for at, shape in _candidates(made, encoding, length, size):
        try:
            with torch.no_grad():
                positions = at()
                both = isinstance(encoding, (AttentionBias, ContextualBias))
                encoding(positions, positions) if both else encoding(positions)
        except (ValueError, TypeError) as wrong:
            refused = refused or wrong
            continue
        return Subject(encoding, positions, shape)
    raise ValueError(f"no positions fit {encoding}: {refused}; say others by --size or --length")


def pictures(made: Any) -> tuple[str, ...]:
    """List the pictures that fit, the most telling first.

    Args:
        made: an encoding or a stream.

    Returns:
        Names of functions of :mod:`posenc_mm.plots`.
    """
    if isinstance(made, Stream):
        return ("stream",)
    if isinstance(made, (AttentionBias, ContextualBias)):
        return ("bias",)
    speeds = ("wavelengths",) if has_frequencies(made) else ()
    if isinstance(made, RotaryEncoding):
        turns = getattr(made, "layout", "") != "vjepa2" and getattr(made, "block", 2) == 2
        found = ("decay", *(("plane",) if turns else ()), *speeds)
        stretched = isinstance(made, Rotary) and "scaling=" in made.extra_repr()
        return tuple(sorted(found, key=lambda name: name != "wavelengths")) if stretched else found
    if isinstance(made, AdditiveEncoding):
        if tick_of(made):
            dated = any(isinstance(getattr(m, "zone", None), Zone) for m in made.modules())
            return (*(("seasons",) if dated else ()), "heatmap", "similarity", *speeds)
        flat = getattr(made, "axes", 1) != 2 and len(getattr(made, "sizes", (1,))) != 2
        first = ("heatmap", "similarity") if flat else ("similarity", "heatmap")
        return (*first, *speeds)
    return ()


def _check(length: int | None, size: Sequence[int] | None) -> None:
    for name, given in (("length", [length]), ("size", size or [])):
        for each in given:
            if each is not None:
                check_whole(**{name: each})
    count = max(length or 0, math.prod(size or ()))
    if count > _MOST:
        raise ValueError(
            f"length or size must be of {_MOST:,} positions at most, which is more than a picture "
            f"shows, got {count:,}"
        )


def _moment(since: str) -> int:
    """Seconds since 1970 at an ISO date, in UTC unless it says otherwise."""
    try:
        moment = datetime.fromisoformat(since)
    except ValueError:
        raise ValueError(
            f"since must be an ISO date, such as 2024-03-30 or 2024-03-30T06:00, got {since!r}"
        ) from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return int(aware.timestamp())


def _candidates(
    made: Any, encoding: Any, length: int | None, size: Sequence[int] | None
) -> Iterator[tuple[Any, Sequence[int] | None]]:
    """Positions to try, each with the grid that they stand for where they do not say so."""
    cells = tuple(size) if size else ()
    if isinstance(made, Placed):
        for shape in [cells] if cells else [(14, 14), (4, 8, 8), (2, 3, 6, 6), (length or _COUNT,)]:
            yield partial(made.positions, *shape, device="cpu"), None
        return
    if hasattr(encoding, "places"):
        shape = cells or tuple(2 * n for n in encoding.window)
        yield partial(encoding.places, *shape), shape if len(shape) == 2 else None
        return
    if cells:
        yield partial(grid, *cells), None
        if isinstance(encoding, AdditiveEncoding) and len(cells) == 2:
            # A table that numbers patches: similarity alone can fold it.
            yield partial(sequence, math.prod(cells)), cells
        return
    table = tuple(getattr(encoding, "sizes", ()) or ())
    if len(table) > 1:
        yield partial(grid, *table), None
    short = min(length or _COUNT, *table) if len(table) == 1 else length or _COUNT
    yield partial(sequence, short), None
    for shape in ((14, 14), (8, 8), (4, 8, 8), (2, 3, 6, 6)):
        yield partial(grid, *shape), None
