"""What needs the weights of attention themselves, which the fused kernels do not show."""

import torch
from torch import Tensor

from posenc_mm.bias import Contextual


def weighted(weights: Tensor, q: Tensor, v: Tensor, visible: Tensor | None) -> Tensor:
    """Sum values by weights that stand beside the softmax's.

    Args:
        weights: broadcast to ``(B, H, N, M)``.
        q: ``(B, H, N, D)``, for its shape.
        v: ``(B, K, M, E)``
        visible: which keys each query sees; all unless given.

    Returns:
        ``(B, H, N, E)``
    """
    weights = weights[(None,) * (4 - weights.ndim)]
    if visible is not None:
        weights = weights.masked_fill(~visible, 0.0)
    weights = weights.expand(-1, q.shape[1], -1, -1)
    grouped = (v.shape[1], q.shape[1] // max(v.shape[1], 1))
    weights = weights.reshape(weights.shape[0], *grouped, *weights.shape[2:])
    # Weights that all samples share are not repeated for each.
    if weights.shape[0] == 1:
        return torch.einsum("kgnm,bkme->bkgne", weights[0], v).flatten(1, 2)
    return torch.einsum("bkgnm,bkme->bkgne", weights, v).flatten(1, 2)


def with_vectors(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor,
    visible: Tensor | None,
    scale: float | None,
    said: Contextual,
) -> Tensor:
    """Attend to values that have a learned vector added, another one for each query.

    Args:
        q: ``(B, H, N, D)``
        k: ``(B, K, M, D)``
        v: ``(B, K, M, E)``
        bias: added to the logits, ``(B, H, N, M)``.
        visible: which keys each query sees; all unless given.
        scale: of queries times keys; :math:`D^{-1/2}` unless given.
        said: whose ``of_values`` are the vectors.

    Returns:
        ``(B, H, N, E)``; zeros where a query sees no key.

    Raises:
        ValueError: the vectors are not as wide as the values.
    """
    widths = {term.table.shape[-1] for term in said.of_values}
    if widths != {v.shape[-1]}:
        raise ValueError(
            f"values must be as wide as the vectors added to them, {sorted(widths)}, got "
            f"{v.shape[-1]}"
        )
    group = q.shape[1] // max(k.shape[1], 1)
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    logits = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale) + bias
    if visible is not None:
        logits = logits.masked_fill(~visible, float("-inf"))
        # A row that sees nothing is no softmax of anything: zeros, and no NaN on the way back.
        blind = ~visible.any(-1, keepdim=True)
        logits = logits.masked_fill(blind, 0.0)
    wide = torch.promote_types(q.dtype, torch.float32)
    weights = logits.softmax(-1, dtype=wide).to(q.dtype)
    if visible is not None:
        weights = weights.masked_fill(blind, 0.0)
    return sum((term.mixed(weights) for term in said.of_values), weights @ v)
