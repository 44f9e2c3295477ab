"""What was asked of attention: the arguments as one value, checked."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc_mm.attention.rotating import rotated
from posenc_mm.bias import AttentionBias, Contextual, ContextualBias
from posenc_mm.checks import check_whole
from posenc_mm.rotary import Rotation
from posenc_mm.visibility import check_key_mask, check_segments, check_start, visible_keys

Bias = AttentionBias | ContextualBias | Contextual | Tensor


class Call(NamedTuple):
    """The arguments of :func:`posenc_mm.attend`, rotation applied."""

    q: Tensor
    k: Tensor
    v: Tensor
    bias: Bias | None
    after: AttentionBias | Tensor | None
    q_positions: Tensor | None
    k_positions: Tensor | None
    causal: bool
    q_start: int | Tensor | None
    key_mask: Tensor | None
    segments: Tensor | None
    window: int | None
    scale: float | None

    @property
    def square(self) -> bool:
        """Whether query rows are the key rows."""
        return self.q_start is None and self.q.shape[2] == self.k.shape[2]

    @property
    def last(self) -> bool:
        """Whether the one query stands beside the last key: decoding needs no causal mask."""
        return self.q_start is None and self.q.shape[2] == 1

    @property
    def grouped(self) -> bool:
        """Whether several query heads share a key head."""
        return is_grouped(self.q, self.k)

    @property
    def visible(self) -> Tensor | None:
        """Which keys each query sees, as booleans; None if all do."""
        self.check_masks()
        return visible_keys(
            self.q, self.k, self.causal, self.q_start, self.key_mask, self.segments, self.window
        )

    def check_masks(self) -> None:
        """Refuse masks of other shapes or dtypes."""
        batch, keys = self.q.shape[0], self.k.shape[2]
        if self.key_mask is not None:
            check_key_mask(self.key_mask, batch, keys)
        if self.segments is not None:
            check_segments(self.segments, batch, keys)
        if self.window is not None:
            check_whole(window=self.window)

    def evaluated(self, name: str) -> Tensor | Contextual | None:
        """What ``bias`` or ``after`` says at the positions."""
        bias = self.bias if name == "bias" else self.after
        if isinstance(bias, (AttentionBias, ContextualBias)):
            said: Tensor | Contextual = bias(self.q_positions, self.k_positions)
            return said
        return bias

    def fitted(self, name: str, bias: Tensor) -> Tensor:
        """Refuse numbers that do not belong to these queries and keys; in q's dtype."""
        q, k = self.q, self.k
        wanted = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
        shape = (1,) * (4 - bias.ndim) + tuple(bias.shape)
        if not bias.is_floating_point():
            raise ValueError(
                f"{name} must be floating, since it is added, got dtype {bias.dtype}: who sees "
                f"whom is said by causal, key_mask, segments and window"
            )
        fits = len(shape) == 4 and shape[2:] == wanted[2:]
        if not fits or shape[0] not in (1, wanted[0]) or shape[1] not in (1, wanted[1]):
            raise ValueError(
                f"{name} must broadcast to (B, H, N, M)={wanted} and be whole in N and M, got "
                f"shape {tuple(bias.shape)}"
            )
        return bias.to(q.dtype)


def asked(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    rotation: Rotation | None,
    k_rotation: Rotation | None,
    bias: Bias | None,
    after: AttentionBias | Tensor | None,
    *others: Any,
) -> Call:
    """Make a call of what was asked, checked and with rotations applied.

    Args:
        q: and all others as for :func:`posenc_mm.attend`.
        k: likewise.
        v: likewise.
        rotation: likewise.
        k_rotation: likewise.
        bias: likewise.
        after: likewise.
        others: the other fields of :class:`Call`, in their order.

    Returns:
        The call.

    Raises:
        ValueError: something does not fit.
    """
    check_shapes(q, k, v)
    q, k = rotated(q, k, rotation, k_rotation)
    if isinstance(bias, AttentionBias) and bias.after_softmax and after is None:
        bias, after = None, bias
    return check_modules(Call(q, k, v, bias, after, *others))


def check_modules(call: Call) -> Call:
    """Refuse what does not begin at a key row, and encodings that do not fit or are misplaced.

    Args:
        call: whose ``k_positions`` are those of the queries unless given.

    Returns:
        The call with both positions.

    Raises:
        ValueError: ``q_start`` is no integer, or an encoding acts elsewhere, is of other heads or
            comes without positions of all rows.
    """
    check_start(call.q_start, call.q.shape[0])
    if call.k_positions is None:
        call = call._replace(k_positions=call.q_positions)
    for name, bias in (("bias", call.bias), ("after", call.after)):
        if bias is None or isinstance(bias, Tensor):
            continue
        if isinstance(bias, Contextual) and name == "bias":
            continue
        if not isinstance(bias, (AttentionBias, ContextualBias)):
            kind = type(bias).__name__
            raise ValueError(f"{name} must be an AttentionBias or a tensor, got {kind}")
        if bias.after_softmax != (name == "after"):
            place = "after the softmax" if name == "after" else "on the logits where after is given"
            raise ValueError(f"{name} must act {place}, got {type(bias).__name__}")
        if bias.heads != call.q.shape[1]:
            raise ValueError(f"{name} is for {bias.heads} heads, but q has {call.q.shape[1]}")
        if call.q_positions is None or call.k_positions is None:
            raise ValueError(
                f"{name} is a module: give q_positions (and k_positions) to evaluate it at"
            )
        rows = (call.q_positions.shape[-2], call.k_positions.shape[-2])
        if rows != (call.q.shape[2], call.k.shape[2]):
            raise ValueError(
                f"q_positions and k_positions, where {name} is evaluated, must be of N="
                f"{call.q.shape[2]} and M={call.k.shape[2]} rows, got {rows[0]} and {rows[1]}"
            )
    return call


def check_shapes(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Refuse queries, keys and values that do not belong together.

    Raises:
        ValueError: their shapes, heads or dtypes do not fit.
    """
    if not q.ndim == k.ndim == v.ndim == 4:
        raise ValueError(
            f"q, k and v must be (B, H, N, D), got shapes {tuple(q.shape)}, {tuple(k.shape)}, "
            f"{tuple(v.shape)}"
        )
    if not q.dtype == k.dtype == v.dtype:
        raise ValueError(f"q, k and v must have one dtype, got {q.dtype}, {k.dtype} and {v.dtype}")
    same = q.shape[0] == k.shape[0] == v.shape[0] and q.shape[3] == k.shape[3]
    if not same or k.shape[1:3] != v.shape[1:3]:
        raise ValueError(
            f"q, k and v must share B and D, and k and v their heads and rows, got shapes "
            f"{tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)}"
        )
    if k.shape[1] == 0 and q.shape[1] == 0:
        return
    if k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise ValueError(
            f"the key heads must divide the query heads, got H={q.shape[1]} and {k.shape[1]}"
        )


def is_grouped(q: Tensor, k: Tensor) -> bool:
    """Whether several query heads share a key head."""
    # A branch, since a compiler's symbolic truth is no bool to the kernel.
    return True if q.shape[1] != k.shape[1] else False


def working_dtype(q: Tensor) -> torch.dtype:
    """The dtype that the kernel multiplies in, which under an autocast is not q's."""
    kind = q.device.type
    cast = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
    return torch.get_autocast_dtype(kind) if cast and q.dtype != torch.float64 else q.dtype
