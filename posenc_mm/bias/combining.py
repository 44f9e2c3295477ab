"""Several biases as one, each at the axes of the positions that it reads."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from posenc_mm.bias.base import AttentionBias
from posenc_mm.bias.forms import Factors, ScoreMod
from posenc_mm.parts import check_parts, describe, read, reset


class BiasSum(AttentionBias):
    r"""Adds biases.

    .. math:: b_{hij} = \sum_k b^{(k)}_{hij}(p_{i S_k}, p_{j S_k})

    Of positions (moment, variate), for instance, one part reads how far apart two tokens are in
    time and another whether they are of one series.

    Traps: one part without a fast exact form leaves the sum without it. All parts add up in the
    same logits, so that the steepest decides.

    References:
        Woo, Liu, Kumar, Xiong, Savarese, Sahoo: Unified Training of Universal Time Series
        Forecasting Transformers (2024), https://arxiv.org/abs/2402.02592, whose logits are such a
        sum over time and variates.

    Args:
        biases: the parts :math:`b^{(k)}`, for one number of heads :math:`H`.
        axes: the axes :math:`S_k` of the positions that each part reads, in its order, a list of
            axis numbers per part; all axes unless given.

    Shape:
        ``q_positions (..., N, A), k_positions (..., M, A) -> (..., H, N, M)``, in the widest dtype
        of the parts

    Raises:
        ValueError: there is no part, one is no bias or acts after the softmax, their heads differ,
            or ``axes`` are not as said; at the call, positions lack an axis, or a part refuses
            them.

    Example:
        >>> import torch
        >>> from posenc_mm.bias import ALiBi, AnyVariateBias
        >>> both = BiasSum([ALiBi(2, step=60.0), AnyVariateBias(2)], axes=[[0], [1]])
        >>> both(torch.tensor([[0, 0], [60, 1]]), torch.tensor([[0, 0]])).shape
        torch.Size([2, 2, 1])
    """

    def __init__(
        self, biases: Sequence[AttentionBias], axes: Sequence[Sequence[int]] | None = None
    ) -> None:
        super().__init__()
        parts, self.axes = check_parts("biases", biases, AttentionBias, axes)
        self.biases = nn.ModuleList(parts)
        late = [type(bias).__name__ for bias in parts if bias.after_softmax]
        if late:
            raise ValueError(
                f"biases must act on the logits to be added there, but {', '.join(late)} acts "
                f"after the softmax: give it to attend as after, beside the others as bias"
            )
        heads = [bias.heads for bias in parts]
        if len(set(heads)) > 1:
            raise ValueError(f"biases must be for one number of heads, got heads {heads}")
        self.heads = heads[0]

    def reset_parameters(self) -> None:
        """Start all parts anew."""
        reset(self.biases)

    def forward(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        parts = [bias(q, k) for bias, q, k in self._sides(q_positions, k_positions)]
        total: Tensor = sum(parts[1:], parts[0])
        return total

    @property
    def by_difference(self) -> bool:
        return self.axes is None and all(bias.by_difference for bias in self.biases)

    def factors(self, q_positions: Tensor, k_positions: Tensor) -> Factors | None:
        parts = [bias.factors(q, k) for bias, q, k in self._sides(q_positions, k_positions)]
        found = [part for part in parts if part is not None]
        if len(found) < len(parts):
            return None
        shift = found[0].shift
        for part in found[1:]:
            shift = shift + part.shift
        q, k = _beside([part.q for part in found]), _beside([part.k for part in found])
        return Factors(q, k, shift, any(part.past_only for part in found))

    def score_mod(self, q_positions: Tensor, k_positions: Tensor) -> ScoreMod | None:
        parts = [bias.score_mod(q, k) for bias, q, k in self._sides(q_positions, k_positions)]
        mods = [part for part in parts if part is not None]
        if len(mods) < len(parts):
            return None

        def in_turn(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            for mod in mods:
                score = mod(score, b, h, i, j)
            return score

        return in_turn

    def _sides(
        self, q_positions: Tensor, k_positions: Tensor
    ) -> list[tuple[AttentionBias, Tensor, Tensor]]:
        count = len(self.biases)
        parts = [bias for bias in self.biases if isinstance(bias, AttentionBias)]
        queries, keys = (read(p, self.axes, count) for p in (q_positions, k_positions))
        return list(zip(parts, queries, keys, strict=True))

    def with_prefix(self, bias: Tensor, count: int) -> Tensor:
        total = super().with_prefix(bias, count)
        for part in self.biases:
            # Inside it adds zeros: only the borders of the parts are left to add.
            border: Callable[[Tensor, int], Tensor] = part.with_prefix  # type: ignore[assignment]
            total = total + border(torch.zeros_like(bias), count)
        return total

    def extra_repr(self) -> str:
        return describe("biases", self.biases, self.axes)


def _beside(parts: list[Tensor]) -> Tensor:
    """Set columns side by side, whatever the rows of each broadcast to."""
    rows = parts[0][..., :1]
    for part in parts[1:]:
        rows = rows + part[..., :1]
    return torch.cat([part.expand(*rows.shape[:-1], part.shape[-1]) for part in parts], dim=-1)
