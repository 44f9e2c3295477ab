"""The positions of a batch of streams, with everything that rides along with a token."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from numbers import Integral
from typing import TypeAlias

import torch
from torch import Tensor

from posenc_mm.checks import check_indices, check_whole
from posenc_mm.streams import checking, interchange, operations

Rows: TypeAlias = int | slice | Tensor | list[int]

# Fields of rows; all others are of tokens.
_OF_ROWS = ("cursor", "next_block", "document")


@dataclass(frozen=True, eq=False)
class Stream:
    """Where the tokens of a batch are: what a :class:`Layout` returns.

    Nothing but tensors, none of them a model's: a cast or a move of a model does not reach them,
    and what decoding needs to know, the cursor, is a number per row. Operations return new streams.
    ``DataLoader`` collates streams of any lengths into one, padded on the right, and pins it;
    under ``torch.export`` it is a node of the input.

    Feed ``coords`` to any encoding of :math:`A` axes, ``mask`` to ``attend`` as its ``key_mask``
    and ``segment`` as its ``segments``; ``positions("time", "variate")`` picks axes and more.

    Args:
        coords: ``(B, N, A)``, in float32 or float64.
        segment: ``(B, N)``, the document of each token of a packed row, from 0; -1 for padding.
        modality: ``(B, N)``, numbers of :class:`Modality`.
        block: ``(B, N)``, numbers of the row's blocks from 0; -1 for counted text and padding.
        variate: ``(B, N)`` of series; -1 for all else.
        mask: ``(B, N)`` of booleans, true where a token is real.
        cursor: ``(B,)`` in float64, where the next text token will be.
        next_block: ``(B,)``, the number that the next block will have.
        document: ``(B,)``, the document that the next token is of.

    Raises:
        ValueError: coordinates are in half precision, or shapes do not fit.

    Example:
        >>> from posenc_mm import Rotary
        >>> from posenc_mm.streams import Image, Text, layout
        >>> stream = layout(Text(3), Image(2, 2), Text(1))
        >>> Rotary(head_dim=24, axes=3)(stream.coords).cos.shape
        torch.Size([1, 8, 12])
    """

    coords: Tensor
    segment: Tensor
    modality: Tensor
    block: Tensor
    variate: Tensor
    mask: Tensor
    cursor: Tensor
    next_block: Tensor
    document: Tensor

    def __post_init__(self) -> None:
        if not isinstance(self.coords, Tensor):  # a tree of something else, as torch.export makes
            return
        if self.coords.ndim != 3 or self.coords.dtype not in (torch.float32, torch.float64):
            raise ValueError(
                f"coords must be (B, N, A) in float32 or float64, got shape "
                f"{tuple(self.coords.shape)} and {self.coords.dtype}"
            )
        for each in fields(self):
            wanted = self.coords.shape[: 1 if each.name in _OF_ROWS else 2]
            found = getattr(self, each.name).shape
            if each.name != "coords" and found != wanted:
                raise ValueError(
                    f"{each.name} must have shape {tuple(wanted)} beside coords of "
                    f"{tuple(self.coords.shape)}, got {tuple(found)}"
                )

    @property
    def shape(self) -> torch.Size:
        """Rows and tokens ``(B, N)``, padding included."""
        return self.mask.shape

    @property
    def lengths(self) -> Tensor:
        """Real tokens of each row ``(B,)``."""
        return self.mask.sum(1)

    @property
    def rope_delta(self) -> Tensor:
        """Cursor less real tokens ``(B,)``: Hugging Face's ``rope_deltas``, to read only.

        It is that of transformers 5 and of the Omni models. Qwen2-VL in transformers 4 counts
        padding as well: there it is ``cursor - shape[1]``.
        """
        return self.cursor - self.lengths

    def positions(self, *names: str) -> Tensor:
        """Pick axes and other columns, for an encoding that reads some of them.

        Args:
            names: of ``"time"``, ``"row"``, ``"column"`` (the first three axes), ``"segment"``,
                ``"modality"``, ``"block"`` and ``"variate"``.

        Returns:
            ``(B, N, len(names))`` in the dtype of ``coords``.

        Raises:
            ValueError: a name is none of these, or an axis is missing.

        Example:
            >>> from posenc_mm.streams import Series, layout
            >>> layout(Series([0.0, 2.0], variate=4)).positions("time", "variate")
            tensor([[[0., 4.],
                     [2., 4.]]])
        """
        axes = {"time": 0, "row": 1, "column": 2}
        others = ("segment", "modality", "block", "variate")
        columns = []
        for name in names:
            if name not in axes and name not in others:
                raise ValueError(f"names must be of {(*axes, *others)}, got {name!r}")
            if axes.get(name, -1) >= self.coords.shape[-1]:
                raise ValueError(f"there are {self.coords.shape[-1]} axes, none of them {name!r}")
            column = self.coords[..., axes[name]] if name in axes else getattr(self, name)
            columns.append(column.to(self.coords.dtype))
        return torch.stack(columns, dim=-1)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Stream:
        """Move to a device. There are no casts.

        A device without float64 (MPS) wants a layout of ``dtype=torch.float32`` where times are
        fractions; the cursor is in float32 there.

        Args:
            device: where to.
            non_blocking: whether to go on meanwhile.

        Returns:
            The stream there.

        Raises:
            ValueError: it is no device.
        """
        if not isinstance(device, (torch.device, str, int)):
            raise ValueError(f"positions are moved and never cast: to takes a device, got {device}")
        parts = {each.name: getattr(self, each.name) for each in fields(self)}
        if torch.device(device).type == "mps":  # which has no float64
            parts["cursor"] = self.cursor.float()
        return replace(
            self, **{k: v.to(device, non_blocking=non_blocking) for k, v in parts.items()}
        )

    def pin_memory(self) -> Stream:
        """Put the tensors where a GPU reads them faster, as ``DataLoader(pin_memory=True)``."""
        return replace(self, **{f.name: getattr(self, f.name).pin_memory() for f in fields(self)})

    def __getitem__(self, index: Rows | tuple[Rows, slice]) -> Stream:
        """Take rows, and tokens: ``stream[2:4]``, ``stream[:, a:b]``.

        A chunk of prefill, or the part that one device has, is a slice. Its cursor is that of the
        whole.
        """
        rows, tokens = index if isinstance(index, tuple) else (index, slice(None))
        if not isinstance(tokens, slice):
            raise ValueError(f"tokens must be a slice, got {tokens}: keep() takes numbers")
        if isinstance(rows, Integral):
            rows = int(rows)
            if not -self.shape[0] <= rows < self.shape[0]:
                raise IndexError(f"row {rows} of {self.shape[0]}")
            rows = slice(rows, rows + 1 or None)
        elif not isinstance(rows, slice):
            rows = torch.as_tensor(rows, device=self.mask.device)
        parts = {each.name: getattr(self, each.name)[rows] for each in fields(self)}
        return replace(self, **{k: v if k in _OF_ROWS else v[:, tokens] for k, v in parts.items()})

    def keep(self, indices: Tensor) -> Stream:
        """Take the tokens that each row keeps, in any order.

        Args:
            indices: ``(B, K)`` of tokens.

        Returns:
            A stream of K tokens a row, at the positions that they had; the cursor stays.

        Raises:
            ValueError: another shape, or a token that is not there.
        """
        check_indices(indices, self.shape[1])
        if indices.shape[0] != self.shape[0]:
            raise ValueError(f"indices must be of {self.shape[0]} rows, got {indices.shape[0]}")
        indices = indices.long()
        axes = indices[..., None].expand(-1, -1, self.coords.shape[-1])
        parts = {
            name: getattr(self, name).gather(1, indices)
            for name in operations.EMPTY
            if name != "coords"
        }
        return replace(self, coords=self.coords.gather(1, axes), **parts)

    def repeat(self, count: int) -> Stream:
        """Repeat each row, as beams do: row b becomes rows b * count to (b + 1) * count - 1.

        Args:
            count: how often.

        Returns:
            A stream of as many times the rows.

        Raises:
            ValueError: ``count`` is below 1.
        """
        check_whole(count=count)
        parts = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(self, **{k: v.repeat_interleave(count, 0) for k, v in parts.items()})

    def pad(self, length: int, side: str = "right") -> Stream:
        """Pad every row to a length: :func:`posenc_mm.streams.pad` of this stream alone."""
        return operations.pad([self], length=length, side=side)

    select = operations.select
    join = operations.join
    sort = operations.sort
    check = checking.check
    to_hf = interchange.to_hf
