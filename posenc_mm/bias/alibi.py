"""ALiBi: a penalty on the logits that grows linearly with distance."""

import math

import torch
from torch import Tensor, nn

from posenc_mm.bias.base import AttentionBias, checked_step, differences
from posenc_mm.bias.forms import Factors, ScoreMod, linear_factors, linear_score_mod
from posenc_mm.checks import check_whole
from posenc_mm.frequencies import Row


def alibi_slopes(heads: int) -> Row:
    r"""List the authors' slopes.

    For a power of two, :math:`m_h = 2^{-8 (h + 1) / H}`; for other counts those of the largest
    power of two below, followed by every other one of twice that power.

    References:
        Press, Smith, Lewis: Train Short, Test Long: Attention with Linear Biases Enables Input
        Length Extrapolation (2022), https://arxiv.org/abs/2108.12409

    Args:
        heads: number of heads :math:`H`.

    Returns:
        ``(H,)``

    Raises:
        ValueError: ``heads`` is below 1.

    Example:
        >>> alibi_slopes(3)
        (0.0625, 0.00390625, 0.25)
    """
    check_whole(heads=heads)
    whole = 2 ** int(math.log2(heads))
    first = tuple(2.0 ** (-8 * (h + 1) / whole) for h in range(whole))
    between = tuple(2.0 ** (-8 * (h + 1) / (2 * whole)) for h in range(0, 2 * whole, 2))
    return first + between[: heads - whole]


class ALiBi(AttentionBias):
    r"""Linear penalty on distance, one slope per head.

    .. math:: b_{hij} = -m_h \lVert p_i - p_j \rVert / \tau

    Nothing is learned and nothing is stored: a model trained on short inputs reads longer ones as
    they come. Symmetric by itself; under a causal rule only the past is left, and the penalty is
    the authors' causal one.

    At moments, ``step`` says in which unit of time the past fades, however irregular the stamps:
    positions in seconds and ``step=3600.0`` count hours. Differences are taken before anything is
    divided, and so are exact for int64 and float64.

    Traps: codes that penalise a key by its own position instead (BLOOM) are the same under a causal
    rule alone. Steep heads never see what is far, whatever it says. For counts of heads
    that are no power of two the slopes are those of the authors' code, not of a formula.

    References:
        Press, Smith, Lewis: Train Short, Test Long: Attention with Linear Biases Enables Input
        Length Extrapolation (2022), https://arxiv.org/abs/2108.12409; in 2-D, with
        ``distance="l2"``: Fuller, Millard, Green: CROMA (2023), https://arxiv.org/abs/2311.00566

    Args:
        heads: number of attention heads :math:`H`; slopes follow the authors' rule for any count.
        distance: ``"l1"`` sums the axes' distances, ``"l2"`` is the straight line.
        biased_heads: how many heads, the first ones, carry the penalty, with the slopes of that
            count; the others see no position. All unless given.
        step: :math:`\tau`, the distance that counts as one, in units of position; 1 unless given.

    Shape:
        ``q_positions (..., N, A), k_positions (..., M, A) -> (..., H, N, M)``, in float64 where the
        positions are, else in float32

    Raises:
        ValueError: ``heads`` is below 1, ``biased_heads`` not between 0 and ``heads``, ``distance``
            is unknown, ``step`` not positive; at the call, the two positions differ in their number
            of axes.

    Example:
        >>> from posenc_mm import sequence
        >>> ALiBi(heads=2)(sequence(1, offset=3), sequence(4))[0]
        tensor([[-0.1875, -0.1250, -0.0625, -0.0000]])
    """

    def __init__(
        self,
        heads: int,
        *,
        distance: str = "l1",
        biased_heads: int | None = None,
        step: float | None = None,
    ) -> None:
        super().__init__()
        check_whole(heads=heads)
        _check_distance(distance)
        biased = heads if biased_heads is None else biased_heads
        check_whole(0, biased_heads=biased)
        if biased > heads:
            raise ValueError(
                f"biased_heads must be between 0 and heads={heads}, got biased_heads={biased}"
            )
        self.heads, self.distance, self.biased_heads = heads, distance, biased
        self.step = checked_step(step)
        self.slopes = (alibi_slopes(biased) if biased else ()) + (0.0,) * (heads - biased)

    def forward(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        far = _distances(q_positions, k_positions, self.distance) / self.step
        slopes = torch.tensor(self.slopes, device=far.device, dtype=far.dtype)
        return -slopes[:, None, None] * far.unsqueeze(-3)

    @property
    def by_difference(self) -> bool:
        return True

    def factors(self, q_positions: Tensor, k_positions: Tensor) -> Factors | None:
        if not _is_linear(self.distance, q_positions):
            return None
        return linear_factors(self._slopes(k_positions), q_positions, k_positions, self.step)

    def score_mod(self, q_positions: Tensor, k_positions: Tensor) -> ScoreMod | None:
        if not _is_linear(self.distance, q_positions):
            return None
        return linear_score_mod(self._slopes(k_positions), q_positions, k_positions, self.step)

    def extra_repr(self) -> str:
        return (
            f"heads={self.heads}, distance={self.distance!r}, biased_heads={self.biased_heads}, "
            f"step={self.step}"
        )

    def _slopes(self, like: Tensor) -> Tensor:
        wide = torch.float32 if like.device.type == "mps" else torch.float64
        return torch.tensor(self.slopes, device=like.device, dtype=wide)


class LearnedALiBi(AttentionBias):
    r"""ALiBi with slopes that train, from the authors' on.

    .. math:: b_{hij} = -e^{s_h} \lVert p_i - p_j \rVert / \tau

    The logarithm keeps a slope from turning into a reward for distance. At moments this is a
    learned exponential decay: the softmax multiplies each weight by :math:`e^{-|t_i - t_j| / T_h}`,
    where the time constant :math:`T_h = \tau e^{-s_h}` of a head trains.

    Traps: weight decay pulls the logarithms to 0, which is a slope of 1, steeper than any of the
    authors': leave them out of it.

    References:
        Press, Smith, Lewis: Train Short, Test Long (2022), https://arxiv.org/abs/2108.12409, whose
        own slopes are fixed.

    Args:
        heads: number of attention heads :math:`H`.
        distance: ``"l1"`` sums the axes' distances, ``"l2"`` is the straight line.
        step: :math:`\tau`, the distance that counts as one, in units of position; 1 unless given.

    Shape:
        ``q_positions (..., N, A), k_positions (..., M, A) -> (..., H, N, M)``, in float64 where the
        positions are, else in float32

    Raises:
        ValueError: ``heads`` is below 1, ``distance`` unknown, ``step`` not positive; at the call,
            the two positions differ in their number of axes.

    Example:
        >>> from posenc_mm import sequence
        >>> LearnedALiBi(heads=2)(sequence(1, offset=3), sequence(4)).shape
        torch.Size([2, 1, 4])
    """

    def __init__(self, heads: int, *, distance: str = "l1", step: float | None = None) -> None:
        super().__init__()
        check_whole(heads=heads)
        _check_distance(distance)
        self.heads, self.distance, self.step = heads, distance, checked_step(step)
        self.log_slopes = nn.Parameter(torch.empty(heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start from the authors' slopes again."""
        with torch.no_grad():
            self.log_slopes.copy_(torch.tensor(alibi_slopes(self.heads), device="cpu").log())

    def forward(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        far = _distances(q_positions, k_positions, self.distance) / self.step
        slopes = self.log_slopes.to(far.dtype).exp()
        return -slopes[:, None, None] * far.unsqueeze(-3)

    @property
    def by_difference(self) -> bool:
        return True

    def factors(self, q_positions: Tensor, k_positions: Tensor) -> Factors | None:
        if not _is_linear(self.distance, q_positions):
            return None
        return linear_factors(self._slopes(k_positions), q_positions, k_positions, self.step)

    def score_mod(self, q_positions: Tensor, k_positions: Tensor) -> ScoreMod | None:
        if not _is_linear(self.distance, q_positions):
            return None
        return linear_score_mod(self._slopes(k_positions), q_positions, k_positions, self.step)

    def extra_repr(self) -> str:
        return f"heads={self.heads}, distance={self.distance!r}, step={self.step}"

    def _slopes(self, like: Tensor) -> Tensor:
        wide = torch.float32 if like.device.type == "mps" else torch.float64
        return self.log_slopes.to(wide).exp()


def _check_distance(distance: str) -> None:
    if distance not in ("l1", "l2"):
        raise ValueError(f"distance must be 'l1' or 'l2', got distance={distance!r}")


def _is_linear(distance: str, positions: Tensor) -> bool:
    return distance == "l1" or positions.shape[-1] == 1


def _distances(q_positions: Tensor, k_positions: Tensor, distance: str) -> Tensor:
    offsets = differences(q_positions, k_positions)
    offsets = offsets if offsets.dtype == torch.float64 else offsets.float()
    if distance == "l2" and offsets.shape[-1] > 1:
        norm: Tensor = torch.linalg.vector_norm(offsets, dim=-1)
        return norm
    return offsets.abs().sum(-1)
