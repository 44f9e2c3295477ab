"""Position designs: what the first axis says of a token. Its row and column in a picture stay."""

from collections.abc import Callable

import torch
from torch import Tensor

from posenc_mm.streams import Modality, Stream


def streams(stream: Stream) -> Tensor:
    """Seconds on the clock of the row, in units of a trained frame: what the layout says."""
    return stream.coords


def row_by_time(stream: Stream) -> Tensor:
    """The token's number in the row, all modalities in order of time."""
    _, order = stream.sort()
    return _first(stream, order.argsort(dim=1))


def row_by_modality(stream: Stream) -> Tensor:
    """The token's number in the row, modality after modality: sound, pictures, text."""
    return _first(stream, torch.arange(stream.shape[1]).expand(stream.shape))


def per_modality(stream: Stream) -> Tensor:
    """The token's number among those of its modality."""
    number = torch.zeros(stream.shape, dtype=torch.int64)
    for modality in (Modality.AUDIO, Modality.IMAGE, Modality.TEXT):
        own = stream.modality == modality
        number = torch.where(own, own.cumsum(1) - 1, number)
    return _first(stream, number)


def none(stream: Stream) -> Tensor:
    """Nothing: 0 for all."""
    return _first(stream, torch.zeros(stream.shape))


DESIGNS: dict[str, Callable[[Stream], Tensor]] = {
    each.__name__: each for each in (streams, row_by_time, row_by_modality, per_modality, none)
}


def _first(stream: Stream, numbers: Tensor) -> Tensor:
    """Coordinates ``(B, N, 3)`` with other numbers ``(B, N)`` on their first axis."""
    numbers = torch.where(stream.mask, numbers, 0).to(stream.coords.dtype)
    return torch.cat((numbers[..., None], stream.coords[..., 1:]), dim=-1)
