"""What a host of many layers hands to each of them: numbers, or where to find them."""

import torch
from torch import Tensor, nn

from posenc_mm.attention.calls import Call, check_modules
from posenc_mm.attention.choosing import choose
from posenc_mm.attention.surveying import is_traced, survey
from posenc_mm.bias import AttentionBias, ContextualBias


def for_layers(
    bias: nn.Module,
    q_positions: Tensor,
    k_positions: Tensor,
    tokens: Tensor,
    kv_heads: int,
    masks: tuple[bool, Tensor | None, Tensor | None],
    ordered: bool | None = None,
) -> dict[str, object]:
    """Evaluate a bias once for all layers, or leave it to them where that is leaner.

    Args:
        bias: an :class:`posenc_mm.AttentionBias` or :class:`posenc_mm.ContextualBias`.
        q_positions: ``(..., N, A)``
        k_positions: ``(..., M, A)``
        tokens: ``(B, N, D)`` that the layers make queries of.
        kv_heads: number of their key heads.
        masks: ``causal``, ``key_mask`` and ``segments`` of :func:`posenc_mm.attend`.
        ordered: as for :func:`posenc_mm.attend`.

    Returns:
        Keyword arguments of :func:`posenc_mm.attend`: the evaluated bias, or the module and what it
        takes.

    Raises:
        ValueError: it is neither.
    """
    if not isinstance(bias, (AttentionBias, ContextualBias)):
        raise ValueError(f"bias must be an AttentionBias or a ContextualBias, got {bias!r}")
    name = "after" if bias.after_softmax else "bias"
    if not ordered and is_traced(tokens):
        return {name: bias(q_positions, k_positions)}
    causal, key_mask, segments = masks
    # Of queries and keys only how many there are is known before the layers.
    q = tokens.new_empty(len(tokens), bias.heads, tokens.shape[1], 0)
    k = tokens.new_empty(len(tokens), kv_heads, k_positions.shape[-2], 0)
    late = bias if isinstance(bias, AttentionBias) and bias.after_softmax else None
    early = bias if late is None else None
    at = (q_positions, k_positions)
    call = Call(q, k, k, early, late, *at, causal, None, key_mask, segments, None, None)
    facts = survey(check_modules(call), ordered, "auto")._replace(trains=torch.is_grad_enabled())
    if choose(facts, "auto").backend in ("sdpa", "dense"):
        return {name: bias(q_positions, k_positions)}
    return {
        name: bias,
        "q_positions": q_positions,
        "k_positions": k_positions,
        "ordered": facts.ordered,
    }
