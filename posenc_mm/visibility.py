"""Which keys a query sees: by row order, padding, document and window."""

from numbers import Integral

import torch
from torch import Tensor

from posenc_mm.checks import check_whole


def visible_keys(
    q: Tensor,
    k: Tensor,
    causal: bool,
    q_start: int | Tensor | None,
    key_mask: Tensor | None,
    segments: Tensor | None,
    window: int | None,
) -> Tensor | None:
    """Say which keys each query sees.

    Args:
        q: ``(B, H, N, D)``, for its shape and device.
        k: ``(B, K, M, D)``, for its shape.
        causal: whether a query sees only keys up to its own row.
        q_start: key row of the first query, an integer or ``(B,)``; :math:`M - N` when None.
        key_mask: ``(B, M)``, true where a key is real.
        segments: ``(M,)`` or ``(B, M)``, the document of each key row.
        window: a query sees keys less than this many rows away.

    Returns:
        Booleans that broadcast to ``(B, H, N, M)``; None when every query sees every key.

    Raises:
        ValueError: a shape or dtype is another one.
    """
    batch, queries, keys = q.shape[0], q.shape[2], k.shape[2]
    seen = None
    start = keys - queries if q_start is None else q_start
    if isinstance(start, Tensor):
        start = start.reshape(-1, 1, 1, 1)
    rows = torch.arange(queries, device=q.device)[:, None] + start
    ahead = torch.arange(keys, device=q.device) - rows
    if causal:
        seen = ahead <= 0
    if window is not None:
        check_whole(window=window)
        seen = _both(seen, ahead.abs() < window)
    if segments is not None:
        seen = _both(seen, _same_segment(segments, rows, batch, keys))
    if key_mask is not None:
        check_key_mask(key_mask, batch, keys)
        seen = _both(seen, key_mask[:, None, None, :])
    return seen


def _same_segment(segments: Tensor, rows: Tensor, batch: int, keys: int) -> Tensor:
    check_segments(segments, batch, keys)
    of_keys = segments.reshape(-1, 1, 1, keys)
    known = (rows >= 0) & (rows < keys)
    shape = (max(of_keys.shape[0], rows.shape[0] if rows.ndim == 4 else 1), 1, rows.shape[-2], 1)
    at = rows.clamp(0, max(keys - 1, 0)).expand(shape).transpose(-1, -2)
    of_queries = of_keys.expand(shape[0], 1, 1, keys).gather(-1, at).transpose(-1, -2)
    return (of_queries == of_keys) & known


def _both(a: Tensor | None, b: Tensor) -> Tensor:
    return b if a is None else a & b


def check_key_mask(key_mask: Tensor, batch: int, keys: int) -> None:
    """Refuse what does not say of every key of every sample whether it is real.

    Args:
        key_mask: what came.
        batch: number of samples.
        keys: number of keys.

    Raises:
        ValueError: it is another shape or dtype.
    """
    if key_mask.shape != (batch, keys) or key_mask.dtype != torch.bool:
        raise ValueError(
            f"key_mask must be booleans (B, M)=({batch}, {keys}), got shape "
            f"{tuple(key_mask.shape)} and dtype {key_mask.dtype}"
        )


def check_segments(segments: Tensor, batch: int, keys: int) -> None:
    """Refuse what does not say of every key row which document it belongs to.

    Args:
        segments: what came.
        batch: number of samples.
        keys: number of keys.

    Raises:
        ValueError: it is another shape or dtype.
    """
    if segments.shape not in ((keys,), (batch, keys)) or segments.is_floating_point():
        raise ValueError(
            f"segments must be integers (M,)=({keys},) or (B, M)=({batch}, {keys}), got shape "
            f"{tuple(segments.shape)} and dtype {segments.dtype}"
        )


def check_start(q_start: object, batch: int) -> None:
    """Refuse a first key row that is neither an integer nor one integer per sample.

    Args:
        q_start: what came, None included.
        batch: number of samples.

    Raises:
        ValueError: it is another type, shape or dtype.
    """
    if isinstance(q_start, Tensor):
        whole = not q_start.is_floating_point() and q_start.dtype != torch.bool
        fits = whole and q_start.shape in ((), (batch,))
    else:
        whole = isinstance(q_start, (Integral, torch.SymInt)) and not isinstance(q_start, bool)
        fits = q_start is None or whole
    if not fits:
        raise ValueError(f"q_start must be an integer or integers (B,)=({batch},), got {q_start!r}")
