"""What is suspicious about a stream: silent mistakes of layouts, found in its numbers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from posenc_mm.rotary import RotaryEncoding, rotate
from posenc_mm.streams.segments import Modality

if TYPE_CHECKING:
    from posenc_mm.streams.stream import Stream

Matrix: TypeAlias = Sequence[Sequence[float]] | Tensor
_TIMED = (Modality.VIDEO, Modality.AUDIO, Modality.SERIES)


class StreamWarning(UserWarning):
    """Something about the positions of a stream that is hardly meant."""


class Finding(NamedTuple):
    """What was found, and where.

    Attributes:
        kind: ``"text inside"``, ``"duplicates"``, ``"going back"``, ``"wavelength"`` or
            ``"no rotation"``.
        row: of the batch.
        tokens: numbers of the tokens concerned.
        message: a sentence.
    """

    kind: str
    row: int
    tokens: tuple[int, ...]
    message: str


def check(stream: Stream, encoding: nn.Module | Matrix | None = None) -> list[Finding]:
    """Look for mistakes that raise no error, and warn of each.

    Text inside the time range of a video, sound or series (as where text after a video continues
    from its height and width alone); tokens of one block, or of text, at the same coordinates (as
    where times were cast to integers); text that goes back, or a cursor that is not behind it; with
    an encoding, an axis that extends beyond its longest wavelength, and layouts of channels that
    are no rotation. It reads numbers back from the device: use it on examples, not at each step.

    Args:
        stream: what there is.
        encoding: one that will read ``coords``, with ``frequencies`` as :class:`posenc_mm.Rotary`
            has them, or such a matrix ``(A, F)``.

    Returns:
        What was found, each of which is a :class:`StreamWarning` as well.

    Raises:
        ValueError: frequencies are for another number of axes.

    Example:
        >>> from posenc_mm.streams import Layout, Text, Video
        >>> spatial = Layout(advance="space")
        >>> stream = spatial(Text(1), Video(frames=9, rows=2, columns=2), Text(2))
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     print(stream.check()[0].message)
        row 0: text tokens 37 to 38 are at times 3 to 4, inside the 1 to 9 of video block 0
    """
    found = [finding for document in _documents(stream) for finding in document]
    if encoding is not None:
        found += _beyond_wavelengths(stream, encoding)
    if isinstance(encoding, RotaryEncoding):
        found += _not_turned(stream, encoding)
    for finding in found:
        warnings.warn(finding.message, StreamWarning, stacklevel=2)
    return found


class _Document(NamedTuple):
    row: int
    tokens: Tensor
    coords: Tensor
    modality: Tensor
    block: Tensor
    cursor: float


def _documents(stream: Stream) -> Iterator[list[Finding]]:
    parts = (stream.coords.double(), stream.modality, stream.block)
    coords, modality, block = (part.detach().cpu() for part in parts)
    segment, document, cursor = (
        part.detach().cpu() for part in (stream.segment, stream.document, stream.cursor)
    )
    for row in range(stream.shape[0]):
        for number in torch.unique(segment[row]).tolist():
            if number < 0:
                continue
            tokens = (segment[row] == number).nonzero()[:, 0]
            last = float(cursor[row]) if number == int(document[row]) else math.inf
            one = _Document(
                row,
                tokens,
                coords[row, tokens],
                modality[row, tokens],
                block[row, tokens],
                last,
            )
            yield [*_inside(one), *_duplicates(one), *_back(one)]


def _inside(one: _Document) -> Iterator[Finding]:
    text = (one.modality == Modality.TEXT) & (one.block < 0)
    time = one.coords[:, 0]
    for block in torch.unique(one.block[one.block >= 0]).tolist():
        own = one.block == block
        modality = Modality(int(one.modality[own][0]))
        low, high = float(time[own].min()), float(time[own].max())
        among = text & (time > low) & (time <= high)
        if modality in _TIMED and bool(among.any()):
            yield _found(
                "text inside",
                one,
                among,
                f"text tokens {{}} are at times {_range(time[among])}, inside the "
                f"{low:g} to {high:g} of {modality.name.lower()} block {block}",
            )


def _duplicates(one: _Document) -> Iterator[Finding]:
    for block in torch.unique(one.block).tolist():
        own = (one.block == block).nonzero()[:, 0]
        different, inverse = torch.unique(one.coords[own], dim=0, return_inverse=True)
        # Designs that give text no positions at all have all of it at one place, on purpose.
        if len(different) == len(own) or (block < 0 and len(different) == 1):
            continue
        repeated = torch.zeros(len(one.tokens), dtype=torch.bool)
        repeated[own] = (inverse.bincount() > 1)[inverse]
        what = "of text" if block < 0 else f"of block {block}"
        yield _found(
            "duplicates", one, repeated, f"tokens {{}} {what} share coordinates with each other"
        )


def _back(one: _Document) -> Iterator[Finding]:
    text = ((one.modality == Modality.TEXT) & (one.block < 0)).nonzero()[:, 0]
    if not len(text) or not bool(one.coords[text].any()):
        return
    counts = one.coords[text].amax(dim=1)
    fallen = torch.zeros(len(one.tokens), dtype=torch.bool)
    fallen[text] = counts < counts.cummax(0).values
    if bool(fallen.any()):
        yield _found("going back", one, fallen, "text tokens {} go back behind earlier text")
    if one.cursor <= float(counts.max()):
        last = torch.zeros(len(one.tokens), dtype=torch.bool)
        last[text[counts >= one.cursor]] = True
        message = f"the cursor is at {one.cursor:g}, not behind text tokens {{}}"
        yield _found("going back", one, last, message)


def _beyond_wavelengths(stream: Stream, encoding: nn.Module | Matrix) -> Iterator[Finding]:
    given = getattr(encoding, "frequencies", encoding)
    if isinstance(given, (nn.Module, Callable)):  # type: ignore[arg-type]
        return
    matrix = torch.as_tensor(given).detach().double().cpu().abs()
    if matrix.ndim < 2 or matrix.shape[-2] != stream.coords.shape[-1]:
        raise ValueError(
            f"frequencies must be (A, F) of {stream.coords.shape[-1]} axes, got shape "
            f"{tuple(matrix.shape)}"
        )
    coords, mask = stream.coords.detach().double().cpu(), stream.mask.cpu()
    for row in range(stream.shape[0]):
        tokens = mask[row].nonzero()[:, 0]
        for axis in range(coords.shape[-1]) if len(tokens) else ():
            speeds = matrix.movedim(-2, 0)[axis].flatten()
            speeds = speeds[speeds > 0]
            values = coords[row, tokens, axis]
            extent = float(values.max() - values.min())
            longest = 2 * math.pi / float(speeds.min()) if len(speeds) else math.inf
            if extent > longest:
                ends = int(tokens[values.argmin()]), int(tokens[values.argmax()])
                message = (
                    f"row {row}: axis {axis} extends over {extent:g} from token {ends[0]} to token "
                    f"{ends[1]}, beyond its longest wavelength of {longest:g}"
                )
                yield Finding("wavelength", row, ends, message)


def _not_turned(stream: Stream, encoding: RotaryEncoding) -> Iterator[Finding]:
    """Turn noise and compare lengths, so that it does not matter how an encoding goes wrong."""
    rotation = encoding(stream.coords.detach().double().cpu())
    if rotation.amplitude != 1.0:
        scale = torch.tensor(rotation.amplitude, dtype=rotation.cos.dtype)
        rotation = rotation._replace(cos=rotation.cos / scale, sin=rotation.sin / scale)
    heads = rotation.cos.shape[-3] if rotation.per_head else 1
    width = getattr(encoding, "head_dim", 2 * rotation.cos.shape[-1])
    rows, count = stream.shape
    noise = torch.Generator().manual_seed(0)
    x = torch.randn(rows, heads, count, width, generator=noise, dtype=torch.float64)
    with torch.no_grad():
        ratio = rotate(x, rotation).norm(dim=-1) / x.norm(dim=-1)
    wrong = ((ratio - 1).abs() > 1e-4).any(1) & stream.mask.cpu()
    for row in wrong.any(1).nonzero()[:, 0].tolist():
        tokens = tuple(wrong[row].nonzero()[:, 0].tolist())
        message = f"row {row}: the encoding changes lengths of tokens {_spans(tokens)}: no rotation"
        yield Finding("no rotation", row, tokens, message)


def _found(kind: str, one: _Document, which: Tensor, message: str) -> Finding:
    tokens = tuple(one.tokens[which].tolist())
    return Finding(kind, one.row, tokens, f"row {one.row}: " + message.format(_spans(tokens)))


def _range(values: Tensor) -> str:
    return f"{float(values.min()):g} to {float(values.max()):g}"


def _spans(tokens: Sequence[int]) -> str:
    """Say runs of tokens by their ends: 3, 7 to 9."""
    runs: list[list[int]] = []
    for token in tokens:
        if runs and token == runs[-1][-1] + 1:
            runs[-1][1:] = [token]
        else:
            runs.append([token])
    shown = [" to ".join(str(end) for end in run) for run in runs[:8]]
    return ", ".join(shown) + (f" and {len(runs) - 8} more runs" if len(runs) > 8 else "")
