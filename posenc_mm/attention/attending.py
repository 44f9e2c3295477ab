"""Attention that applies a rotation and a bias, under every usual mask."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack

from torch import Tensor

from posenc_mm.attention.blocked import in_blocks
from posenc_mm.attention.calls import Call, asked
from posenc_mm.attention.choosing import BACKENDS, Choice, choose
from posenc_mm.attention.dense import dense, plain, with_after
from posenc_mm.attention.flexing import flexed
from posenc_mm.attention.folding import folded
from posenc_mm.attention.surveying import survey
from posenc_mm.bias import AttentionBias, Contextual, ContextualBias
from posenc_mm.rotary import Rotation

# Each is told of a call for as long as it runs. A list, since compilers follow its being empty.
OBSERVERS: list[Callable[[Call], AbstractContextManager[None]]] = []


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
    ordered: bool | None = None,
    backend: str = "auto",
) -> Tensor:
    r"""Attend with encodings applied: :math:`(\mathrm{softmax}(s \, q k^\top + b) + a) \, v`.

    ``causal``, ``window`` and ``segments`` go by row order, not by positions: query row i stands
    beside key row ``q_start + i``. Positions only feed the bias.

    All backends compute the same numbers. ``"sdpa"`` is torch's fused attention without a mask
    tensor. ``"factors"`` is that, with a bias that is a product of few numbers per query and key,
    or a ``key_mask``, folded into a few more channels: ALiBi under a causal rule. ``"blocks"``
    makes a mask for a block of queries at a time, and once more on the way back; of a bias that
    reads differences of consecutive positions, such as T5's, a table of them serves instead.
    ``"flex"`` is torch's FlexAttention, compiled; it has no float64, and on a CPU no backward pass.
    ``"dense"`` makes a mask tensor for all pairs. ``"auto"`` picks, on a CPU, by what was measured;
    elsewhere ``"sdpa"`` or ``"dense"``. :func:`explain` says which one and why.

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
        ordered: whether no key up to a query's row has a position beyond the query's, on any axis,
            which folding ALiBi needs. Unless given, it is looked at where that costs nothing: on a
            CPU, outside compiled graphs. Said wrongly, the bias is wrong.
        backend: ``"auto"``, or the one to force. ``after`` is one matrix product more beside any.

    Returns:
        ``(B, H, N, E)`` in q's dtype. A query that sees no key gets zeros. What is masked must
        still be finite: zero times infinity is not a number.

    Raises:
        ValueError: shapes, heads or dtypes do not fit together, a bias module comes without
            positions or in the wrong place, or the backend is unknown or cannot do what is asked.

    Example:
        >>> import torch
        >>> from posenc_mm import Rotary, sequence
        >>> q = k = v = torch.ones(1, 2, 3, 8)
        >>> attend(q, k, v, rotation=Rotary(head_dim=8)(sequence(3)), causal=True).shape
        torch.Size([1, 2, 3, 8])
    """
    _check_backend(backend)
    call = asked(
        q,
        k,
        v,
        rotation,
        k_rotation,
        bias,
        after,
        q_positions,
        k_positions,
        causal,
        q_start,
        key_mask,
        segments,
        window,
        scale,
    )
    if not OBSERVERS:
        return _computed(call, ordered, backend)
    with ExitStack() as told:
        for observer in OBSERVERS:
            told.enter_context(observer(call))
        return _computed(call, ordered, backend)


def explain(
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
    ordered: bool | None = None,
    backend: str = "auto",
) -> Choice:
    """Say how :func:`attend` would compute this, and why not otherwise.

    Args:
        q: and all others as for :func:`attend`.
        k: likewise.
        v: likewise.
        rotation: likewise.
        k_rotation: likewise.
        bias: likewise.
        after: likewise.
        q_positions: likewise.
        k_positions: likewise.
        causal: likewise.
        q_start: likewise.
        key_mask: likewise.
        segments: likewise.
        window: likewise.
        scale: likewise.
        ordered: likewise.
        backend: likewise.

    Returns:
        The backend, the reason, and of each other one but ``"dense"`` why it is not taken.

    Raises:
        ValueError: as :func:`attend` does.

    Example:
        >>> import torch
        >>> from posenc_mm import ALiBi, sequence
        >>> q = k = v = torch.ones(1, 8, 1024, 8)
        >>> explain(q, k, v, bias=ALiBi(8), q_positions=sequence(1024), causal=True).backend
        'blocks'
        >>> explain(q, k, v, bias=ALiBi(8), q_positions=sequence(1024)).refused["factors"]
        'ALiBi is folded only under a causal rule along which positions never fall'
    """
    _check_backend(backend)
    call = asked(
        q,
        k,
        v,
        rotation,
        k_rotation,
        bias,
        after,
        q_positions,
        k_positions,
        causal,
        q_start,
        key_mask,
        segments,
        window,
        scale,
    )
    call.check_masks()
    return choose(survey(call, ordered, backend, every=True), backend)


def _computed(call: Call, ordered: bool | None, backend: str) -> Tensor:
    facts = survey(call, ordered, backend)
    way = choose(facts, backend).backend
    if way == "blocks":
        return in_blocks(call, facts.tabled, facts.traced)
    if way == "flex":
        return flexed(call, facts.traced)
    if way == "factors":
        return with_after(folded(call, facts.traced), call)
    return with_after(plain(call) if way == "sdpa" else dense(call), call)


def _check_backend(backend: str) -> None:
    if backend not in BACKENDS:
        raise ValueError(f"backend must be one of {BACKENDS}, got backend={backend!r}")
