"""Streams under ``DataLoader`` and in trees of tensors."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.data._utils.collate import default_collate_fn_map

from posenc_mm.streams.operations import pad
from posenc_mm.streams.stream import Stream


def collate(streams: Sequence[Stream], *, collate_fn_map: Any = None) -> Stream:
    """Stack the streams of a batch, padded on the right.

    ``DataLoader`` calls it unasked; padding on the left is a ``collate_fn`` of your own, with
    :func:`posenc_mm.streams.pad`.

    Args:
        streams: those of the samples.
        collate_fn_map: what torch passes on; unused.

    Returns:
        One stream of all rows.
    """
    return pad(streams)


# As torch's own documentation of default_collate has it for other people's types.
default_collate_fn_map[Stream] = collate
torch.export.register_dataclass(Stream)
