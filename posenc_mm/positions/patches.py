"""Where a patch of neighbouring rows is: at its centre."""

import torch
from torch import Tensor

from posenc_mm.checks import check_whole
from posenc_mm.timestamps.civil import real_of


def patches(
    positions: Tensor, patch: int, stride: int | None = None, *, align: str = "end"
) -> Tensor:
    r"""Place each patch of consecutive rows at their mean.

    .. math:: p'_j = \frac{1}{P} \sum_{i=0}^{P-1} p_{jS + i}

    A patch then is where it is in time, not how many came before: other sampling rates, lengths,
    patches and strides are only other positions. Moments are averaged in whole ticks, and rounded
    once.

    References:
        Nie, Nguyen, Sinthong, Kalagnanam: A Time Series is Worth 64 Words: Long-Term Forecasting
        with Transformers (2023), https://arxiv.org/abs/2211.14730

    Args:
        positions: ``(..., N, A)``, rows in order.
        patch: rows :math:`P` of a patch.
        stride: :math:`S`, rows from one patch to the next; ``patch`` unless given.
        align: where patches do not come out even, ``"end"`` leaves out the first rows, so that the
            newest count, and ``"start"`` the last (PatchTST, without its padding).

    Returns:
        ``(..., K, A)`` in float64, with :math:`K = \lfloor (N - P) / S \rfloor + 1` patches.

    Raises:
        ValueError: ``patch`` or ``stride`` is below 1, ``align`` unknown, or positions are booleans
            or fewer rows than a patch.

    Example:
        >>> from posenc_mm import sequence
        >>> patches(sequence(9, offset=100), patch=4)[:, 0].tolist()
        [102.5, 106.5]
    """
    stride = patch if stride is None else stride
    check_whole(patch=patch, stride=stride)
    if align not in ("end", "start"):
        raise ValueError(f"align must be 'end' or 'start', got align={align!r}")
    if positions.ndim < 2 or positions.shape[-2] < patch or positions.dtype == torch.bool:
        raise ValueError(
            f"positions must be numbers (..., N, A) of at least patch={patch} rows, got shape "
            f"{tuple(positions.shape)} and dtype {positions.dtype}"
        )
    first = (positions.shape[-2] - patch) % stride if align == "end" else 0
    rows = positions[..., first:, :].unfold(-2, patch, stride)
    real = real_of(positions.device)
    if positions.is_floating_point():
        start = rows[..., :1].to(real)
        return (start + (rows - start).mean(-1, keepdim=True)).squeeze(-1)
    rows = rows.long()
    whole, rest = (rows // patch).sum(-1), (rows % patch).sum(-1)
    return (whole + rest // patch).to(real) + (rest % patch).to(real) / patch
