"""Attention that applies a rotation and a bias, under every usual mask."""

import torch
from torch import Tensor
from torch.nn import functional

from posenc_mm.bias import AttentionBias, Contextual, ContextualBias
from posenc_mm.rotary import Rotation, rotate
from posenc_mm.visibility import check_start, visible_keys
from posenc_mm.weighing import weighted, with_vectors

BACKENDS = ("auto", "sdpa", "dense")


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    rotation: Rotation | None = None,
    k_rotation: Rotation | None = None,
    bias: AttentionBias | ContextualBias | Contextual | Tensor | None = None,
    after: AttentionBias | Tensor | None = None,
    q_positions: Tensor | None = None,
    k_positions: Tensor | None = None,
    causal: bool = False,
    q_start: int | Tensor | None = None,
    key_mask: Tensor | None = None,
    segments: Tensor | None = None,
    window: int | None = None,
    scale: float | None = None,
    backend: str = "auto",
) -> Tensor:
    r"""Attend with encodings applied: :math:`(\mathrm{softmax}(s \, q k^\top + b) + a) \, v`.

    ``causal``, ``window`` and ``segments`` go by row order, not by positions: query row i stands
    beside key row ``q_start + i``. Positions only feed the bias.

    Args:
        q: queries ``(B, H, N, D)``.
        k: keys ``(B, K, M, D)``; the K key heads divide the H query heads (grouped queries).
        v: values ``(B, K, M, E)``.
        rotation: of the queries, and of the keys too unless ``k_rotation`` is given.
        k_rotation: of the keys, where they are other rows than the queries.
        bias: a bias module, evaluated at the positions given, or its evaluated form, which
            broadcasts to ``(B, H, N, M)``; it is rounded to q's dtype. A module that acts after the
            softmax, such as :class:`posenc_mm.ERPE`, is taken as ``after``. One that is contextual
            meets queries and keys as they are multiplied, turned by any rotation.
        after: :math:`a`, likewise, added to the weights after the softmax: 0 where a key is hidden.
        q_positions: ``(..., N, A)``, for a bias module.
        k_positions: ``(..., M, A)``; those of the queries unless given.
        causal: whether a query sees only keys up to its own row.
        q_start: key row of the first query, an integer or ``(B,)``; :math:`M - N` unless given, so
            that the last query stands beside the last key.
        key_mask: ``(B, M)`` of booleans, true where a key is real.
        segments: ``(M,)`` or ``(B, M)``, the document of each key row; a query sees keys of the
            document at its own row.
        window: a query sees keys less than this many rows away, on either side.
        scale: :math:`s`; unless given that of a contextual bias which has one, or
            :math:`D^{-1/2}`.
        backend: ``"sdpa"`` forces torch's fused attention without a mask tensor and refuses what it
            cannot express, ``"dense"`` forces a mask tensor, ``"auto"`` picks. ``after`` is one
            matrix product more beside any of them.

    Returns:
        ``(B, H, N, E)`` in q's dtype. A query that sees no key gets zeros. What is masked must
        still be finite: zero times infinity is not a number.

    Raises:
        ValueError: shapes, heads or dtypes do not fit together, a bias module comes without
            positions or in the wrong place, or the backend is unknown or cannot do what is asked.

    Example:
        >>> from posenc_mm import Rotary, sequence
        >>> q = k = v = torch.ones(1, 2, 3, 8)
        >>> attend(q, k, v, rotation=Rotary(head_dim=8)(sequence(3)), causal=True).shape
        torch.Size([1, 2, 3, 8])
    """
    _check_shapes(q, k, v, backend)
    if k_rotation is not None or rotation is not None:
        q, k = _rotated(q, k, rotation, k_rotation)
    check_start(q_start, q.shape[0])
    if isinstance(bias, AttentionBias) and bias.after_softmax and after is None:
        bias, after = None, bias
    said = _evaluated("bias", bias, q_positions, k_positions, q)
    bias = said.logits(q, k) if isinstance(said, Contextual) else said
    if isinstance(said, Contextual) and scale is None:
        scale = said.scale
    beside = _evaluated("after", after, q_positions, k_positions, q)
    unmasked = bias is None and key_mask is None and segments is None and window is None
    # One query beside the last key sees every key: decoding needs no causal mask.
    last = causal and q_start is None and q.shape[2] == 1
    square = causal and q_start is None and q.shape[2] == k.shape[2]
    fused = unmasked and (not causal or last or square)
    if backend == "sdpa" and not fused:
        raise ValueError(
            "backend='sdpa' takes no bias, key_mask, segments, window, q_start, or causal rule "
            "with 1 < N != M: use backend='auto' or 'dense'"
        )
    fused = fused and backend != "dense"
    visible = None
    if beside is not None or not fused:
        visible = visible_keys(q, k, causal, q_start, key_mask, segments, window)
    if fused:
        out = functional.scaled_dot_product_attention(
            q,
            k,
            v,
            is_causal=causal and not last,
            scale=scale,
            enable_gqa=q.shape[1] != k.shape[1],
        )
    elif bias is not None and isinstance(said, Contextual) and said.of_values:
        out = with_vectors(q, k, v, _fitted("bias", bias, q, k), visible, scale, said)
    else:
        out = _dense(q, k, v, bias, visible, scale)
    if not isinstance(beside, Tensor):
        return out
    return out + weighted(_fitted("after", beside, q, k), q, v, visible)


def _dense(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    visible: Tensor | None,
    scale: float | None,
) -> Tensor:
    mask = None
    if bias is not None:
        mask = _fitted("bias", bias, q, k)
    blind = None
    if visible is not None:
        blind = ~visible.any(-1, keepdim=True)
        # A row that sees nothing attends to everything instead, and is zeroed below: no NaN arises
        # for the backward pass to spread.
        hidden = ~(visible | blind)
        if mask is None:
            mask = torch.zeros((), dtype=q.dtype, device=q.device)
        mask = mask.masked_fill(hidden, float("-inf"))
    if mask is not None:
        mask = mask.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    out = functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, scale=scale, enable_gqa=q.shape[1] != k.shape[1]
    )
    return out if blind is None else out.masked_fill(blind, 0.0)


def _fitted(name: str, bias: Tensor, q: Tensor, k: Tensor) -> Tensor:
    wanted = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    shape = (1,) * (4 - bias.ndim) + tuple(bias.shape)
    if not bias.is_floating_point():
        raise ValueError(
            f"{name} must be floating, since it is added, got dtype {bias.dtype}: who sees whom is "
            f"said by causal, key_mask, segments and window"
        )
    fits = len(shape) == 4 and shape[2:] == wanted[2:]
    if not fits or shape[0] not in (1, wanted[0]) or shape[1] not in (1, wanted[1]):
        raise ValueError(
            f"{name} must broadcast to (B, H, N, M)={wanted} and be whole in N and M, got shape "
            f"{tuple(bias.shape)}"
        )
    return bias.to(q.dtype)


def _rotated(
    q: Tensor, k: Tensor, rotation: Rotation | None, k_rotation: Rotation | None
) -> tuple[Tensor, Tensor]:
    if rotation is None:
        raise ValueError("k_rotation is given without rotation: give the queries' as rotation")
    if k_rotation is None:
        if q.shape[2] != k.shape[2]:
            raise ValueError(
                f"k_rotation must be given where queries and keys are other rows, got "
                f"N={q.shape[2]} and M={k.shape[2]}"
            )
        k_rotation = rotation
    kinds = [_kind(rotation), _kind(k_rotation)]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"rotation and k_rotation must be of one encoding: of one layout, number of "
            f"frequencies and of heads, got {kinds[0]} and {kinds[1]}"
        )
    return rotate(q, rotation), rotate(k, k_rotation)


def _kind(rotation: Rotation) -> tuple[object, ...]:
    more = [name for name in ("basis", "matrices") if getattr(rotation, name) is not None] + (
        [f"{rotation.blocks} blocks"] if rotation.blocks > 1 else []
    )
    heads = rotation.per_head and rotation.cos.shape[-3]
    return (rotation.layout, rotation.cos.shape[-1], heads, *more)


def _evaluated(
    name: str,
    bias: AttentionBias | ContextualBias | Contextual | Tensor | None,
    q_positions: Tensor | None,
    k_positions: Tensor | None,
    q: Tensor,
) -> Tensor | Contextual | None:
    if bias is None or isinstance(bias, Tensor):
        return bias
    if isinstance(bias, Contextual) and name == "bias":
        return bias
    if not isinstance(bias, (AttentionBias, ContextualBias)):
        raise ValueError(f"{name} must be an AttentionBias or a tensor, got {type(bias).__name__}")
    if bias.after_softmax != (name == "after"):
        place = "after the softmax" if name == "after" else "on the logits where after is given"
        raise ValueError(f"{name} must act {place}, got {type(bias).__name__}")
    if bias.heads != q.shape[1]:
        raise ValueError(f"{name} is for {bias.heads} heads, but q has {q.shape[1]}")
    if q_positions is None:
        raise ValueError(
            f"{name} is a module: give q_positions (and k_positions) to evaluate it at"
        )
    said: Tensor | Contextual = bias(
        q_positions, q_positions if k_positions is None else k_positions
    )
    return said


def _check_shapes(q: Tensor, k: Tensor, v: Tensor, backend: str) -> None:
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {BACKENDS}, got backend={backend!r}")
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
