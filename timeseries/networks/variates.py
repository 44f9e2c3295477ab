"""A transformer over the columns of a series: each is one token."""

import torch
from torch import Tensor, nn

from posenc_mm import AdditiveEncoding, AttentionBias, RotaryEncoding, Transformer
from timeseries.networks.base import Level, Network, Shape
from timeseries.networks.linear import Linear


class Variates(Network):
    """Columns attend to each other, covariates known in advance among them.

    The additive encoding says when: it reads the moment of the first future row, for all tokens.
    Rotary, bias and ``variate`` say which: their positions are the columns' numbers, covariates
    last.

    References:
        Liu et al.: iTransformer: Inverted Transformers Are Effective for Time Series Forecasting
        (2024), https://arxiv.org/abs/2310.06625

    Args:
        shape: what to fit.
        additive: of the moment, added to the tokens.
        rotary: turns queries and keys, at the number of the column.
        bias: added to the logits, at the number of the column.
        dim: width of the tokens.
        depth: layers.
        heads: attention heads.
        mlp_ratio: hidden width of the perceptrons over ``dim``.
        dropout: in training.
        variate: encoding of the number of the column, added to its token.
        linear: encoding of future rows in the linear network beside, or whether there is one.
    """

    def __init__(
        self,
        shape: Shape,
        additive: AdditiveEncoding | None = None,
        rotary: RotaryEncoding | None = None,
        bias: AttentionBias | None = None,
        *,
        dim: int = 64,
        depth: int = 2,
        heads: int = 4,
        mlp_ratio: float = 2.0,
        dropout: float = 0.1,
        variate: AdditiveEncoding | None = None,
        linear: AdditiveEncoding | bool = False,
    ) -> None:
        super().__init__(shape)
        self.linear = None
        if linear is not False:
            self.linear = Linear(shape, None if linear is True else linear)
        self.additive, self.variate = additive, variate
        self.embed = nn.Linear(shape.lookback, dim)
        rows = shape.lookback + shape.horizon
        self.embed_known = nn.Linear(rows, dim) if shape.known else None
        self.transformer = Transformer(
            dim, depth, heads, rotary=rotary, bias=bias, mlp_ratio=mlp_ratio, dropout=dropout
        )
        self.answer = nn.Linear(dim, shape.horizon * shape.outputs)
        if self.linear is not None:
            nn.init.zeros_(self.answer.weight)
            nn.init.zeros_(self.answer.bias)

    def forward(self, past: Tensor, moments: Tensor, known: Tensor) -> Tensor:
        level = Level.of(past)
        columns, lookback = past.shape[-1], self.shape.lookback
        tokens = self.embed(level.normalise(past).mT)
        if self.embed_known is not None:
            tokens = torch.cat((tokens, self.embed_known(known.mT)), dim=1)
        number = torch.arange(tokens.shape[1], device=past.device).unsqueeze(-1)
        if self.additive is not None:
            first = moments[:, lookback : lookback + 1, None]
            tokens = tokens + self.additive(first).to(tokens.dtype)
        if self.variate is not None:
            tokens = tokens + self.variate(number).to(tokens.dtype)
        seen = self.transformer(tokens, number)[:, :columns]
        answers = self.answer(seen).unflatten(-1, (self.shape.horizon, self.shape.outputs))
        answers = answers.movedim(1, 2)
        if self.linear is None:
            return level.restore(answers)
        return self.linear(past, moments, known) + answers * level.scale.unsqueeze(-1)

    def places(self, moments: Tensor, columns: int) -> tuple[Tensor, str]:
        tokens = torch.arange(columns + self.shape.known, device=moments.device)
        return tokens.unsqueeze(-1), "columns"
