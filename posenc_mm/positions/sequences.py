"""Where a token is in a sequence: counted, behind padding, in a packed row, after dropping."""

import torch
from torch import Tensor

from posenc_mm.checks import check_indices, check_whole


def sequence(
    length: int, offset: int | Tensor = 0, *, device: torch.device | str | None = None
) -> Tensor:
    """Count tokens from an offset: 0, 1, 2, ...

    Args:
        length: number of tokens :math:`N`; 0 is allowed.
        offset: position of the first token; an integer, or an integer tensor ``(B,)`` with one
            start per sample, as when rows of a batch have cached different numbers of tokens.
        device: where the result lives; that of ``offset`` when it is a tensor.

    Returns:
        ``(N, 1)``, or ``(B, N, 1)`` for one offset per sample, in int64.

    Raises:
        ValueError: ``length`` is negative, or ``offset`` is neither an integer nor an integer
            tensor ``(B,)``.

    Example:
        >>> sequence(3, offset=5)[:, 0].tolist()
        [5, 6, 7]
    """
    check_whole(0, length=length)
    if not isinstance(offset, Tensor):
        symbolic = isinstance(offset, torch.SymInt)
        if not symbolic and (isinstance(offset, bool) or offset != int(offset)):
            raise ValueError(f"offset must be an integer, got offset={offset}")
        first = offset if symbolic else int(offset)
        return (torch.arange(length, device=device) + first).unsqueeze(-1)
    if offset.ndim > 1 or offset.is_floating_point() or offset.dtype == torch.bool:
        raise ValueError(
            f"offset must be integers of shape (B,), got shape {tuple(offset.shape)} "
            f"and dtype {offset.dtype}"
        )
    count = torch.arange(length, device=device if device is not None else offset.device)
    return (offset.to(count.device, torch.int64).unsqueeze(-1) + count).unsqueeze(-1)


def from_mask(mask: Tensor) -> Tensor:
    """Count the real tokens of padded rows, whichever side the padding is on.

    Args:
        mask: ``(B, N)`` of booleans (or zeros and ones), true where a token is real.

    Returns:
        ``(B, N, 1)`` in int64: real tokens are 0, 1, 2, ...; padding before the first real token is
        at 0, later padding stays at the last real one. Padding has to be masked in attention; its
        position only has to be harmless.

    Raises:
        ValueError: ``mask`` is not two-dimensional, or floating.

    Example:
        >>> from_mask(torch.tensor([[0, 0, 1, 1], [1, 1, 1, 0]]))[..., 0].tolist()
        [[0, 0, 0, 1], [0, 1, 2, 2]]
    """
    if mask.ndim != 2 or mask.is_floating_point():
        raise ValueError(
            f"mask must be booleans of shape (B, N), got shape {tuple(mask.shape)} "
            f"and dtype {mask.dtype}"
        )
    return ((mask != 0).cumsum(-1) - 1).clamp(min=0).unsqueeze(-1)


def segments(cumulative: Tensor) -> Tensor:
    """Number the documents of a packed row, token by token.

    Args:
        cumulative: ``(K + 1,)`` cumulative lengths of K documents, from 0 (``cu_seqlens``); empty
            documents are allowed.

    Returns:
        ``(N,)`` in int64, with :math:`N` the last of the lengths: the document that each token
        belongs to.

    Raises:
        ValueError: not a one-dimensional integer tensor, not starting at 0, or decreasing.

    Example:
        >>> segments(torch.tensor([0, 2, 2, 5])).tolist()
        [0, 0, 2, 2, 2]
    """
    lengths = _document_lengths(cumulative)
    return torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths)


def packed(cumulative: Tensor) -> Tensor:
    """Count the tokens of each document in a packed row from 0.

    Args:
        cumulative: ``(K + 1,)`` cumulative lengths of K documents, from 0 (``cu_seqlens``); empty
            documents are allowed.

    Returns:
        ``(N, 1)`` in int64. Keep the documents apart in attention with :func:`segments`.

    Raises:
        ValueError: not a one-dimensional integer tensor, not starting at 0, or decreasing.

    Example:
        >>> packed(torch.tensor([0, 2, 2, 5]))[:, 0].tolist()
        [0, 1, 0, 1, 2]
    """
    lengths = _document_lengths(cumulative)
    starts = cumulative[:-1].long().repeat_interleave(lengths)
    return (torch.arange(len(starts), device=starts.device) - starts).unsqueeze(-1)


def keep(positions: Tensor, indices: Tensor) -> Tensor:
    """Take the positions of the tokens that are kept, as when patches are dropped or masked.

    Args:
        positions: ``(N, A)``, or ``(B, N, A)``.
        indices: ``(B, K)`` rows that each sample keeps, in any order.

    Returns:
        ``(B, K, A)``.

    Raises:
        ValueError: shapes other than these, or batches that differ.

    Example:
        >>> keep(sequence(6, offset=10), torch.tensor([[5, 0]]))[..., 0].tolist()
        [[15, 10]]
    """
    if positions.ndim not in (2, 3):
        raise ValueError(
            f"positions must be (N, A) or (B, N, A), got shape {tuple(positions.shape)}"
        )
    check_indices(indices, positions.shape[-2])
    indices = indices.long()
    if positions.ndim == 2:
        return positions[indices]
    if positions.shape[0] != indices.shape[0]:
        raise ValueError(
            f"positions and indices must have the same batch, got {positions.shape[0]} "
            f"and {indices.shape[0]}"
        )
    return positions.gather(1, indices.unsqueeze(-1).expand(-1, -1, positions.shape[-1]))


def _document_lengths(cumulative: Tensor) -> Tensor:
    if cumulative.ndim != 1 or cumulative.is_floating_point() or len(cumulative) == 0:
        raise ValueError(
            f"cumulative must be integers of shape (K + 1,), got shape {tuple(cumulative.shape)} "
            f"and dtype {cumulative.dtype}"
        )
    lengths = cumulative.long().diff()
    if bool(cumulative[0] != 0) or bool((lengths < 0).any()):
        raise ValueError(f"cumulative must start at 0 and never decrease, got {cumulative}")
    return lengths
