"""Any-variate bias: whether two tokens are of one series, and nothing else about which."""

import torch
from torch import Tensor, nn

from posenc_mm.bias.base import AttentionBias, differences
from posenc_mm.bias.forms import ScoreMod, table_score_mod
from posenc_mm.checks import check_whole


class AnyVariateBias(AttentionBias):
    r"""One learned number per head for tokens of the same variate, another for all others.

    .. math:: b_{hij} = w[\delta(p_i, p_j), h], \quad
        \delta = 1 \text{ where the variates are the same, else } 0

    Any number of variates in any order: renumbering them changes nothing. The softmax leaves of the
    two numbers their difference :math:`w[1, h] - w[0, h]`.

    With variates as positions this is Moirai's ``BinaryAttentionBias``, number for number: its
    ``emb.weight`` is this ``weight``, other variates first. Moirai has one for each layer.

    Traps: it tells nothing of order or time: :class:`posenc_mm.BiasSum` adds it to a bias that
    does. Positions are numbers of series, and a moment beside them is another axis.

    References:
        Woo, Liu, Kumar, Xiong, Savarese, Sahoo: Unified Training of Universal Time Series
        Forecasting Transformers (2024), https://arxiv.org/abs/2402.02592

    Args:
        heads: number of attention heads :math:`H`.

    Shape:
        ``q_positions (..., N, 1), k_positions (..., M, 1) -> (..., H, N, M)``, in the dtype of
        the weight

    Raises:
        ValueError: ``heads`` is below 1; at the call, positions do not have one axis.

    Example:
        >>> AnyVariateBias(heads=2)(torch.tensor([[0], [0], [1]]), torch.tensor([[1], [0]])).shape
        torch.Size([2, 3, 2])
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        check_whole(heads=heads)
        self.heads = heads
        self.weight = nn.Parameter(torch.empty(2, heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the numbers anew, from the authors' normal distribution of deviation 1."""
        nn.init.normal_(self.weight)

    def forward(self, q_positions: Tensor, k_positions: Tensor) -> Tensor:
        same = differences(q_positions, k_positions, axes=1).squeeze(-1) == 0
        other, own = self.weight[:, :, None, None]
        return torch.where(same.unsqueeze(-3), own, other)

    @property
    def by_difference(self) -> bool:
        return True

    def score_mod(self, q_positions: Tensor, k_positions: Tensor) -> ScoreMod | None:
        return table_score_mod(self, q_positions, k_positions, reach=1, clipped=True)

    def extra_repr(self) -> str:
        return f"heads={self.heads}"
