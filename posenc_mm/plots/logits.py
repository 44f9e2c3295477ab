"""What is added to the attention logits, against how far apart query and key are."""

from typing import cast

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from posenc_mm.bias import AttentionBias, Contextual, ContextualBias
from posenc_mm.plots.against import against
from posenc_mm.plots.reading import Numbers, checked, kind, numbers, tick_of


def bias(
    encoding: AttentionBias | ContextualBias,
    positions: Tensor,
    *,
    unit: str | None = None,
    theme: str = "light",
) -> Figure:
    r"""Draw a bias against the distance from query to key, head by head.

    The query is the token in the middle. On a grid there is a map per head; on several axes one
    panel for each, along which the key moves alone.

    A bias that depends on what tokens hold is drawn by its size: the root of its mean square,
    exact, over queries and keys whose channels are independent and of unit variance.

    Args:
        encoding: any that is added to the logits, or to the weights behind the softmax.
        positions: ``(N, A)``
        unit: what positions count, for the label; tokens, or patches, unless given.
        theme: ``"light"`` or ``"dark"``.

    Returns:
        A figure.

    Raises:
        ValueError: another kind of encoding, ``theme`` unknown, or positions are not of one sample.

    Example:
        >>> from posenc_mm import ALiBi, sequence
        >>> made = bias(ALiBi(heads=4), sequence(9))
        >>> made.axes[0].get_lines()[0].get_ydata()[:2].tolist()
        [-1.0, -0.75]
    """
    kind(
        encoding,
        (AttentionBias, ContextualBias),
        "bias",
        "encodings that are added to the logits (for what is added to tokens: heatmap, similarity; "
        "for rotations: decay, plane, wavelengths)",
    )
    positions = checked(positions, encoding)
    if isinstance(encoding, ContextualBias):
        label = "root mean square of what is added to the logit (no unit)"
    elif encoding.after_softmax:
        label = "added to the weight, after the softmax (no unit)"
    else:
        label = "added to the logit (no unit)"
    return against(
        lambda query, keys: asked(encoding, query, keys),
        positions,
        title=f"{type(encoding).__name__}: bias by distance",
        label=label,
        tick=tick_of(encoding),
        unit=unit,
        theme=theme,
    )


def asked(encoding: nn.Module, query: Tensor, keys: Tensor) -> Numbers:
    """Numbers ``(H, M)`` that are added for one query."""
    with torch.no_grad():
        said = encoding(query, keys)
        if isinstance(said, Contextual):
            return _size(cast(ContextualBias, encoding), said, len(keys))
        return numbers(said[..., 0, :])


def _size(encoding: ContextualBias, said: Contextual, count: int) -> Numbers:
    # Linear in the query and in the key: what each channel of either adds, and what neither does.
    width, heads = encoding.head_dim, encoding.heads
    one = torch.eye(width).to(next(encoding.parameters()))
    zeros, still = one.new_zeros(width, width), one.new_zeros(1, width)
    q = torch.cat((one, zeros, still))[:, None, None, :].expand(-1, heads, 1, -1)
    k = torch.cat((zeros, one, still))[:, None, None, :].expand(-1, heads, count, -1)
    logits = numbers(said.logits(q, k)[:, :, 0])
    fixed = logits[-1]
    return cast(Numbers, np.sqrt(np.square(logits[:-1] - fixed).sum(0) + np.square(fixed)))
