"""Tables of relative positions, one row per offset, for another window."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from posenc_mm.checks import check_whole
from posenc_mm.resizing.matrices import apply, check_grids, resample
from posenc_mm.resizing.rules import RULES, Rule, rule_of
from posenc_mm.timestamps.civil import real_of

GEOMETRIC = ("geometric", "geometric_cubic")
"""The rules for offsets alone, beside those for any axis."""


def resize_bias_table(
    table: Tensor,
    source: int | Sequence[int],
    target: int | Sequence[int],
    *,
    rule: str | Rule = "geometric",
    extra: int = 0,
) -> Tensor:
    r"""Resize a table of one row per offset between the cells of a window.

    The geometric rules keep near offsets where they are and stretch far ones: source offset
    :math:`\pm k` is placed at

    .. math:: \pm (1 + q + q^2 + \cdots + q^{k-1})

    with :math:`q` between 1.01 and 1.5, by bisection, such that the outermost comes to the
    outermost of the target; each target offset is read between those around it, by lines
    (``"geometric"``, as timm does) or by a cubic spline without knots next to the ends
    (``"geometric_cubic"``, as BEiT does). Beyond, the outermost row holds. An axis that keeps its
    size is placed so too, if another does not, as they do. Any rule of
    :data:`~posenc_mm.resizing.RULES` resizes the axes of offsets as if they were cells:
    ``"swin"`` is Swin's own, ``"timm"`` TinyViT's, and ``"bilinear"`` with one axis that of the
    decomposed tables of SAM, for which ``target`` is the larger of the numbers of queries and keys.

    References:
        Bao, Dong, Piao, Wei: BEiT (2021), https://arxiv.org/abs/2106.08254; Liu et al.: Swin
        Transformer (2021), https://arxiv.org/abs/2103.14030; decomposed: Li et al.: MViTv2 (2021),
        https://arxiv.org/abs/2112.01526

    Args:
        table: ``(K + extra, H)`` with :math:`K = \prod_a (2 S_a - 1)` offsets, row by row; or,
            without extra, ``(2 S_1 - 1, ..., 2 S_A - 1, H)``.
        source: cells :math:`S` per axis of the window that the table is for.
        target: cells wanted per axis.
        rule: ``"geometric"``, ``"geometric_cubic"``, a rule, or a name of ``RULES``.
        extra: trailing rows for pairs with a prefix token (BEiT has 3): kept as they are.

    Returns:
        The table for ``target`` in the same layout and dtype, computed in float64 where the device
        has it; the table itself where the windows are equal.

    Raises:
        ValueError: the rows do not fit the window, the windows have another number of axes, the
            rule is unknown, or a source window is too small for a cubic spline.

    Example:
        >>> far = torch.arange(-2.0, 3.0).abs().unsqueeze(1)
        >>> [round(x, 2) for x in resize_bias_table(far, 3, 4)[:, 0].tolist()]
        [2.0, 1.67, 1.0, 0.0, 1.0, 1.67, 2.0]
    """
    old, new = check_grids(source, target)
    check_whole(0, extra=extra)
    if rule not in GEOMETRIC and not isinstance(rule, Rule) and rule not in RULES:
        raise ValueError(
            f"rule must be a Rule or one of {sorted([*GEOMETRIC, *RULES])}, got rule={rule!r}"
        )
    offsets, wanted = ([2 * size - 1 for size in sizes] for sizes in (old, new))
    count, lead = math.prod(offsets), tuple(table.shape[:-1])
    flat = lead == (count + extra,)
    if not flat and (extra or lead != tuple(offsets)):
        raise ValueError(
            f"table must hold {count} offsets of a window of {old} and {extra} extra rows, as "
            f"({count + extra}, H) or, without extra, as {tuple(offsets)} and H; got shape "
            f"{tuple(table.shape)}: state the window that it was made for"
        )
    if old == new:
        return table
    cells = table[:count].reshape(*offsets, -1) if flat else table
    if isinstance(rule, str) and rule in GEOMETRIC:
        read = _lines if rule == "geometric" else _spline
        real = real_of(table.device)
        pairs = zip(old, new, strict=True)
        out = apply([_geometric(n, m, read).to(table.device, real) for n, m in pairs], cells)
    else:
        out = resample(cells, offsets, wanted, rule_of(rule))
    out = out.to(table.dtype)
    return torch.cat([out.flatten(0, -2), table[count:]]) if flat else out


def _geometric(source: int, target: int, read: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Weights ``(2 target - 1, 2 source - 1)`` that read a window's offsets for another's."""
    low, high, q = 1.01, 1.5, 1.5
    while high - low > 1e-6:
        q = (low + high) / 2
        if (1 - q ** (source - 1)) / (1 - q) > target - 1:
            high = q
        else:
            low = q
    right = [sum(q**power for power in range(far)) for far in range(source)]
    places = torch.tensor([-x for x in right[:0:-1]] + right, dtype=torch.float64)
    at = torch.arange(1 - target, target, dtype=torch.float64).clamp(places[0], places[-1])
    return read(places, at)


def _lines(places: Tensor, at: Tensor) -> Tensor:
    if len(places) == 1:
        return torch.ones(len(at), 1, dtype=at.dtype)
    left, width = _interval(places, at)
    share = ((at - places[left]) / width[left]).unsqueeze(1)
    one = torch.eye(len(places), dtype=at.dtype)
    return (1 - share) * one[left] + share * one[left + 1]


def _spline(places: Tensor, at: Tensor) -> Tensor:
    count = len(places)
    if count < 4:
        raise ValueError(
            f"rule='geometric_cubic' needs a source window of at least 3 cells per axis, got one "
            f"of {(count + 1) // 2}; use rule='geometric'"
        )
    left, width = _interval(places, at)
    one = torch.eye(count, dtype=at.dtype)
    slopes = (one[1:] - one[:-1]) / width.unsqueeze(1)
    # Curvatures: slopes are continuous inside, and one cubic spans both intervals at an end.
    system, right = torch.zeros_like(one), torch.zeros_like(one)
    for k in range(1, count - 1):
        system[k, k - 1 : k + 2] = torch.stack(
            [width[k - 1], 2 * (width[k - 1] + width[k]), width[k]]
        )
        right[k] = 6 * (slopes[k] - slopes[k - 1])
    for row, first in ((0, 0), (count - 1, count - 3)):
        a, b = width[first], width[first + 1]
        system[row, first : first + 3] = torch.stack([b, -(a + b), a])
    bent = torch.linalg.solve(system, right)
    gap = width[left].unsqueeze(1)
    after = (at - places[left]).unsqueeze(1)
    before = gap - after
    out: Tensor = (before * one[left] + after * one[left + 1]) / gap
    near = (before**3 / gap - gap * before) / 6 * bent[left]
    far = (after**3 / gap - gap * after) / 6 * bent[left + 1]
    out = out + near + far
    return out


def _interval(places: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
    """Which interval between places each position lies in, and how wide the intervals are."""
    left = torch.searchsorted(places, at, right=True) - 1
    return left.clamp(0, len(places) - 2), places.diff()
