"""Attention for a block of queries at a time, so that no tensor has a number for all pairs."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from posenc_mm.attention.calls import Call
from posenc_mm.attention.dense import dense, masked, with_after
from posenc_mm.attention.surveying import learns
from posenc_mm.bias import AttentionBias

# Numbers of a mask that exist at a time, and the fewest and most rows that a block then has.
AT_ONCE, FEWEST, MOST = 2**23, 64, 512


class Table(NamedTuple):
    """A bias of consecutive rows: a number per head and difference, masks included.

    Attributes:
        numbers: ``(H, N + M - 1)``, or ``(1, N + M - 1)``; entry t is for key row j and query row i
            with j - i + N - 1 = t.
    """

    numbers: Tensor

    def seen_from(self, rows: range, keys: range, queries: int) -> Tensor:
        """A view ``(H, n, m)`` for rows of queries, last row first, and rows of keys."""
        shift = queries - rows.stop
        piece = self.numbers[:, shift + keys.start : shift + len(rows) - 1 + keys.stop]
        return piece.unfold(-1, len(keys), 1)


def in_blocks(call: Call, tabled: bool, traced: bool) -> Tensor:
    """Attend with the dense form of a block of queries at a time.

    A block sees only the keys that its rows may see by the causal rule and the window. In training
    it is computed again on the way back.

    Args:
        call: with a bias module, a bias tensor or none.
        tabled: whether the bias reads differences, and positions are known to be consecutive.
        traced: whether a compiler watches, which plans memory by itself.

    Returns:
        ``(B, H, N, E)``
    """
    call.check_masks()
    for name, bias in (("bias", call.bias), ("after", call.after)):
        if isinstance(bias, Tensor):
            call.fitted(name, bias)
    table = _table(call) if tabled else None
    queries = call.q.shape[2]

    def of_rows(first: int, last: int) -> Tensor:
        rows = range(first, last)
        keys = _keys(call, rows)
        if table is None:
            part = _part(call, rows, keys)
            return with_after(dense(part), part)
        part = _part(call._replace(bias=None, after=None), rows, keys)
        part = part._replace(q=part.q.flip(2))
        # Cast after it is spread, so that gradients are summed in the table's own dtype.
        mask = table.seen_from(rows, keys, queries).to(call.q.dtype).unsqueeze(0)
        return masked(part, mask, call.scale).flip(2)

    step = _rows_at_once(call)
    if table is not None and not table.numbers.requires_grad:
        # All that a block holds is its queries and what it returns: a sixteenth of either.
        step = min(max(queries // 16, 2 * FEWEST), MOST)
    pieces = [(first, min(first + step, queries)) for first in range(0, queries, step)]
    if len(pieces) < 2:
        return of_rows(0, queries)
    if torch.is_grad_enabled() and not traced and learns(call):
        each = [
            checkpoint(of_rows, *piece, use_reentrant=False, preserve_rng_state=False)
            for piece in pieces
        ]
        return torch.cat(each, dim=2)
    block = of_rows(*pieces[0])
    out = block.new_empty(*block.shape[:2], queries, block.shape[3])
    out[:, :, : pieces[0][1]] = block
    for first, last in pieces[1:]:
        out[:, :, first:last] = of_rows(first, last)
    return out


def _rows_at_once(call: Call) -> int:
    batch = call.q.shape[0] if call.key_mask is not None or call.segments is not None else 1
    row = batch * call.q.shape[1] * max(call.k.shape[2], 1)
    return min(max(AT_ONCE // max(row, 1), FEWEST), MOST)


def _keys(call: Call, rows: range) -> range:
    """The key rows that a block of query rows may see, or one where it sees none."""
    keys = call.k.shape[2]
    start = keys - call.q.shape[2] if call.q_start is None else call.q_start
    first, last = 0, keys
    if not isinstance(start, Tensor):
        if call.causal:
            last = start + rows.stop
        if call.window is not None:
            first = start + rows.start - call.window + 1
            last = min(last, start + rows.stop - 1 + call.window)
    last = min(max(last, 1), keys)
    return range(min(max(first, 0), max(last - 1, 0)), last)


def _part(call: Call, rows: range, keys: range) -> Call:
    """The same question for some of the queries and keys."""
    at, to = slice(rows.start, rows.stop), slice(keys.start, keys.stop)
    start = call.k.shape[2] - call.q.shape[2] if call.q_start is None else call.q_start
    positions = (call.q_positions, call.k_positions)
    q_at, k_at = (
        None if p is None else p[..., s, :] for p, s in zip(positions, (at, to), strict=True)
    )
    return call._replace(
        q=call.q[:, :, at],
        k=call.k[:, :, to],
        v=call.v[:, :, to],
        bias=call.bias[..., at, to] if isinstance(call.bias, Tensor) else call.bias,
        after=call.after[..., at, to] if isinstance(call.after, Tensor) else call.after,
        q_positions=q_at,
        k_positions=k_at,
        q_start=start + rows.start - keys.start,
        key_mask=None if call.key_mask is None else call.key_mask[:, to],
        segments=None if call.segments is None else call.segments[..., to],
    )


def _table(call: Call) -> Table | None:
    """The numbers of all differences, unless a mask tells more apart than differences do."""
    start = call.k.shape[2] - call.q.shape[2] if call.q_start is None else call.q_start
    queries, keys = call.q.shape[2], call.k.shape[2]
    others = call.key_mask is not None or call.segments is not None or call.after is not None
    # Rows that are keys see themselves: none is blind.
    if others or isinstance(start, Tensor) or start < 0 or start + queries > keys:
        return None
    q_at, k_at = call.q_positions, call.k_positions
    if q_at is None or k_at is None or not isinstance(call.bias, AttentionBias):
        return None
    ahead = torch.arange(1 - queries, keys, device=call.q.device)
    nearest = (q_at[..., 0, 0] - k_at[..., 0, 0]).flatten()[0]
    numbers = call.bias.of_differences(nearest - ahead)
    numbers = numbers if numbers.requires_grad else numbers.to(call.q.dtype)
    ahead = ahead - start
    if call.causal:
        numbers = numbers.masked_fill(ahead > 0, float("-inf"))
    if call.window is not None:
        numbers = numbers.masked_fill(ahead.abs() >= call.window, float("-inf"))
    return Table(numbers)
