"""The library's own learned encodings at other sizes."""

import copy
from collections.abc import Sequence
from typing import Any, TypeVar

from torch import Tensor, nn

from posenc_mm.additive import Learned
from posenc_mm.bias import RelativeBias
from posenc_mm.resizing.matrices import check_grids
from posenc_mm.resizing.relative import resize_bias_table
from posenc_mm.resizing.rules import Rule
from posenc_mm.resizing.tables import resize_table

Encoding = TypeVar("Encoding", bound=nn.Module)


def resized(
    encoding: Encoding, sizes: int | Sequence[int], *, rule: str | Rule | None = None
) -> Encoding:
    """Make an encoding of other sizes that holds a learned one's table, resized.

    Positions then count the cells of the new grid; :func:`posenc_mm.rescale` instead reads the
    table as it is at another resolution, by lines between entries.

    References:
        Dosovitskiy et al.: An Image is Worth 16x16 Words (2021), https://arxiv.org/abs/2010.11929

    Args:
        encoding: a ``Learned``, joint or factorised, or a ``RelativeBias``; left as it is.
        sizes: cells wanted per axis.
        rule: a rule or its name, as in :func:`~posenc_mm.resizing.resize_table` or, for a
            ``RelativeBias``, :func:`~posenc_mm.resizing.resize_bias_table`; by default theirs.

    Returns:
        A new encoding with tables of its own, in the same dtype and place, frozen where the old
        one's were.

    Raises:
        ValueError: another encoding, another number of axes, or a rule that does not apply.

    Example:
        >>> from posenc_mm import Learned
        >>> resized(Learned(dim=8, sizes=(4, 9)), (8, 18)).table.shape
        torch.Size([8, 18, 8])
    """
    if not isinstance(encoding, (Learned, RelativeBias)):
        raise ValueError(
            f"encoding must be a Learned or a RelativeBias, which hold tables for a grid, got a "
            f"{type(encoding).__name__}"
        )
    old, new = check_grids(encoding.sizes, sizes)
    # A copy keeps whatever else the encoding was made with.
    out: Any = copy.deepcopy(encoding)
    out.sizes = new
    if isinstance(encoding, RelativeBias):
        table = resize_bias_table(encoding.table, old, new, rule=rule or "geometric")
        out.table = _own(table, encoding.table)
    elif encoding.joint:
        table = resize_table(encoding.table, old, new, rule=rule or "timm")
        out.table = _own(table, encoding.table)
    else:
        pairs = zip(encoding.tables, old, new, strict=True)
        each = [(resize_table(one, n, m, rule=rule or "timm"), one) for one, n, m in pairs]
        out.tables = nn.ParameterList(_own(table, one) for table, one in each)
    return out  # type: ignore[no-any-return]


def _own(table: Tensor, old: nn.Parameter) -> nn.Parameter:
    return nn.Parameter(table.detach().clone(), requires_grad=old.requires_grad)
