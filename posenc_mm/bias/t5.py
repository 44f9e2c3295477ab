"""T5's bias: one learned number per head for each bucket of distances."""

import math

import torch
from torch import Tensor, nn

from posenc_mm.bias.base import AttentionBias, checked_step, differences
from posenc_mm.bias.forms import ScoreMod, table_score_mod
from posenc_mm.checks import check_inside, check_whole


def t5_buckets(
    relative: Tensor,
    *,
    buckets: int = 32,
    max_distance: int = 128,
    bidirectional: bool = True,
) -> Tensor:
    """Sort signed distances into T5's buckets: exact when near, logarithmic when far.

    Boundaries come from exact integer arithmetic, so that no logarithm can fall one short.

    References:
        Raffel et al.: Exploring the Limits of Transfer Learning with a Unified Text-to-Text
        Transformer (2020), https://arxiv.org/abs/1910.10683

    Args:
        relative: key's position minus query's, integers or floats (floats are cut to whole steps).
        buckets: number of buckets; bidirectional ones give half to each side.
        max_distance: from here on all share the last bucket.
        bidirectional: whether keys to the right have buckets of their own; else they count as
            distance 0.

    Returns:
        int64 of the shape of ``relative``, from 0 to ``buckets - 1``.

    Raises:
        ValueError: too few ``buckets``, or ``max_distance`` within the exact ones.

    Example:
        >>> t5_buckets(torch.tensor([0, 1, -1, -127, 1000])).tolist()
        [0, 17, 1, 15, 31]
    """
    half = _side(buckets, max_distance, bidirectional)
    return _sorted_into(relative, _bucket_of_distance(half, int(max_distance)), half, bidirectional)


class T5Bias(AttentionBias):
    r"""One learned number per head and bucket of distance.

    .. math:: b_{hij} = w[\mathrm{bucket}((p_j - p_i) / \tau), h]

    One instance serves all layers, as in T5.

    Traps: T5 does not divide its logits by :math:`\sqrt{D}`: to run its weights, pass ``scale=1.0``
    to :func:`posenc_mm.attend`. Its decoder's buckets are others than its encoder's, by
    ``bidirectional``: with the wrong ones every distance reads another number.

    At moments, ``step`` makes buckets of durations: positions in seconds and ``step=60.0`` tell
    minutes apart when near, and scales when far; what is less than a step apart shares a bucket.
    Whole ticks are divided exactly. Seconds of today in float64 are a quarter of a microsecond
    wide: three steps of 0.1 between two of them may count as two, between ticks never.

    References:
        Raffel et al.: Exploring the Limits of Transfer Learning with a Unified Text-to-Text
        Transformer (2020), https://arxiv.org/abs/1910.10683

    Args:
        heads: number of attention heads :math:`H`.
        buckets: number of buckets.
        max_distance: from here on all distances share the last bucket.
        bidirectional: whether keys to the right have buckets of their own (T5's encoder); else
            (decoder) they count as distance 0.
        step: :math:`\tau`, the distance that counts as one, in units of position; 1 unless given.

    Shape:
        ``q_positions (..., N, 1), k_positions (..., M, 1) -> (..., H, N, M)``, in the dtype of
        the weight

    Raises:
        ValueError: ``heads`` is below 1, too few ``buckets``, ``max_distance`` within the exact
            ones, ``step`` not positive; at the call, positions do not have one axis.

    Example:
        >>> from posenc_mm import sequence
        >>> T5Bias(heads=2)(sequence(3), sequence(5)).shape
        torch.Size([2, 3, 5])
    """

    def __init__(
        self,
        heads: int,
        *,
        buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
        step: float | None = None,
    ) -> None:
        super().__init__()
        check_whole(heads=heads)
        self.side = _side(buckets, max_distance, bidirectional)
        self.heads, self.buckets = heads, int(buckets)
        self.max_distance, self.bidirectional = int(max_distance), bidirectional
        self.step = checked_step(step)
        self.steps = _bucket_of_distance(self.side, self.max_distance)
        self.weight = nn.Parameter(torch.empty(buckets, heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the numbers anew."""
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        relative = -differences(q_positions, k_positions, axes=1).squeeze(-1)
        relative = _in_steps(relative, self.step)
        bucket = _sorted_into(relative, self.steps, self.side, self.bidirectional)
        return self.weight[bucket].movedim(-1, -3)

    @property
    def by_difference(self) -> bool:
        return True

    def score_mod(self, q_positions: Tensor, k_positions: Tensor) -> ScoreMod | None:
        last = math.ceil(self.max_distance * self.step)
        # Steps may be so long that a table of the rows at hand is the smaller one.
        short = last < 2**16
        return table_score_mod(self, q_positions, k_positions, last if short else None, short)

    def extra_repr(self) -> str:
        return (
            f"heads={self.heads}, buckets={self.buckets}, max_distance={self.max_distance}, "
            f"bidirectional={self.bidirectional}, step={self.step}"
        )


def _in_steps(relative: Tensor, step: float) -> Tensor:
    if relative.is_floating_point() or not step.is_integer():
        return relative if step == 1 else relative.double() / step
    return torch.div(relative, int(step), rounding_mode="trunc")


def _sorted_into(
    relative: Tensor, steps: tuple[int, ...], half: int, bidirectional: bool
) -> Tensor:
    if relative.is_floating_point():
        far = 10**18
        check_inside("distances", relative.unsqueeze(-1), [-far], [far], 0, "are they numbers?")
    whole = relative.trunc().long() if relative.is_floating_point() else relative.long()
    distance = whole.abs() if bidirectional else (-whole).clamp(min=0)
    bucket = torch.tensor(steps, device=relative.device)[distance.clamp(max=len(steps) - 1)]
    return bucket + (whole > 0) * half if bidirectional else bucket


def _side(buckets: int, max_distance: int, bidirectional: bool) -> int:
    """Buckets on one side of the query."""
    check_whole(buckets=buckets, max_distance=max_distance)
    buckets = int(buckets)
    half = buckets // 2 if bidirectional else buckets
    if half < 2 or (bidirectional and buckets % 2):
        raise ValueError(
            f"buckets must be at least 2 (bidirectional: even, at least 4), got buckets={buckets} "
            f"and bidirectional={bidirectional}"
        )
    if max_distance <= half // 2:
        raise ValueError(
            f"max_distance must be more than the {half // 2} distances with a bucket each, got "
            f"max_distance={max_distance}"
        )
    return half


def _bucket_of_distance(half: int, max_distance: int) -> tuple[int, ...]:
    """The bucket of each distance from 0 to max_distance, by integer powers instead of logs."""
    exact = half // 2
    rest = half - exact
    found = []
    for distance in range(max_distance + 1):
        if distance < exact:
            found.append(distance)
            continue
        step = 0
        while step < rest - 1 and (
            distance**rest * exact ** (step + 1) >= max_distance ** (step + 1) * exact**rest
        ):
            step += 1
        found.append(exact + step)
    return tuple(found)
