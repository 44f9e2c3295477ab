"""A transformer over patches of each column, past and future, with the three slots."""

import torch
from einops import rearrange, repeat
from torch import Tensor, nn

from posenc_mm import AdditiveEncoding, AttentionBias, RotaryEncoding, Transformer
from posenc_mm.positions import patches
from timeseries.networks.base import Level, Network, Shape, at_moments
from timeseries.networks.linear import Linear

CLOCKS = {"time": slice(0, 1), "row": slice(1, 2), "both": slice(0, 2)}


class Patches(Network):
    """Each column by itself: patches of what was seen, then patches to fill in, in one sequence.

    A token stands at the centre of its patch in physical time: any patch, stride, rate and lookback
    are only other positions. A future token knows its position, what is known in advance, and
    nothing else. What comes out is added to the forecast of a linear network, if there is one.

    References:
        Nie et al.: A Time Series is Worth 64 Words: Long-term Forecasting with Transformers (2023),
        https://arxiv.org/abs/2211.14730

    Args:
        shape: what to fit.
        additive: added to the tokens.
        rotary: turns queries and keys.
        bias: added to the logits.
        patch: rows per token.
        stride: from one past patch to the next; ``patch`` unless given.
        dim: width of the tokens.
        depth: layers.
        heads: attention heads.
        mlp_ratio: hidden width of the perceptrons over ``dim``.
        dropout: in training.
        clock: what positions are: ``"time"`` moments, ``"row"`` the rows of the window, ``"both"``
            two axes, ``"token"`` the tokens, counted from the first.
        variate: encoding of the number of the column, added to all tokens of it.
        linear: encoding of future rows in the linear network beside, or whether there is one.

    Raises:
        ValueError: a patch longer than the lookback, or an unknown clock.
    """

    def __init__(
        self,
        shape: Shape,
        additive: AdditiveEncoding | None = None,
        rotary: RotaryEncoding | None = None,
        bias: AttentionBias | None = None,
        *,
        patch: int = 16,
        stride: int | None = None,
        dim: int = 64,
        depth: int = 2,
        heads: int = 4,
        mlp_ratio: float = 2.0,
        dropout: float = 0.1,
        clock: str = "time",
        variate: AdditiveEncoding | None = None,
        linear: AdditiveEncoding | bool = False,
    ) -> None:
        super().__init__(shape)
        if clock not in (*CLOCKS, "token"):
            raise ValueError(
                f"clock must be one of {', '.join(CLOCKS)}, token, got clock={clock!r}"
            )
        if not 1 <= patch <= shape.lookback:
            raise ValueError(
                f"patch must be between 1 and the lookback of {shape.lookback}, got patch={patch}"
            )
        self.patch, self.stride, self.clock = patch, stride or patch, clock
        self.linear = None if linear is False else _linear(shape, linear)
        self.variate = variate
        self.ahead = -(-shape.horizon // patch)
        self.embed = nn.Linear(patch * (1 + shape.known), dim)
        self.ask = nn.Parameter(torch.zeros(dim))
        self.embed_known = nn.Linear(patch * shape.known, dim) if shape.known else None
        self.transformer = Transformer(
            dim, depth, heads, additive=additive, rotary=rotary, bias=bias,
            mlp_ratio=mlp_ratio, dropout=dropout,
        )  # fmt: skip
        self.answer = nn.Linear(dim, patch * shape.outputs)
        if self.linear is not None:
            nn.init.zeros_(self.answer.weight)
            nn.init.zeros_(self.answer.bias)

    def forward(self, past: Tensor, moments: Tensor, known: Tensor) -> Tensor:
        level = Level.of(past)
        columns = past.shape[-1]
        tokens = self._tokens(level.normalise(past), known)
        if self.variate is not None:
            number = torch.arange(columns, device=past.device).unsqueeze(-1)
            own = repeat(self.variate(number), "v d -> (b v) 1 d", b=len(past))
            tokens = tokens + own.to(tokens.dtype)
        positions = repeat(self.positions(moments), "b n a -> (b v) n a", v=columns)
        seen = self.transformer(tokens, positions)[:, -self.ahead :]
        answers = rearrange(
            self.answer(seen), "(b v) n (p q) -> b (n p) v q", v=columns, q=self.shape.outputs
        )[:, : self.shape.horizon]
        if self.linear is None:
            return level.restore(answers)
        return self.linear(past, moments, known) + answers * level.scale.unsqueeze(-1)

    def positions(self, moments: Tensor) -> Tensor:
        """Positions ``(B, N, A)`` of the tokens, past and future."""
        if self.clock == "token":
            count = (self.shape.lookback - self.patch) // self.stride + 1 + self.ahead
            return at_moments(moments.new_zeros(len(moments), count))[..., 1:]
        rows = at_moments(self._whole(moments, step=True))[..., CLOCKS[self.clock]]
        before, after = rows.split([self.shape.lookback, self.ahead * self.patch], dim=1)
        return torch.cat(
            (patches(before, self.patch, self.stride), patches(after, self.patch)), dim=1
        )

    def places(self, moments: Tensor, columns: int) -> tuple[Tensor, str]:
        # In rows on any clock: seconds would be hard to read, and beside rows of no meaning.
        positions = self.positions(moments)
        if self.clock == "time":
            positions = (positions - positions[:, :1]) / moments.diff(dim=1).median()
        unit = "tokens" if self.clock == "token" else "rows"
        return repeat(positions[..., -1:], "b n a -> (b v) n a", v=columns), unit

    def _tokens(self, past: Tensor, known: Tensor) -> Tensor:
        batch, columns = past.shape[0], past.shape[-1]
        seen = rearrange(past, "b l v -> (b v) l 1")
        asked = self.ask.expand(batch * columns, self.ahead, -1)
        if self.embed_known is not None:
            rows = repeat(self._whole(known), "b n f -> (b v) n f", v=columns)
            before, after = rows.split([self.shape.lookback, self.ahead * self.patch], dim=1)
            seen = torch.cat((seen, before), dim=-1)
            asked = asked + self.embed_known(_cut(after, self.patch, self.patch))
        return torch.cat((self.embed(_cut(seen, self.patch, self.stride)), asked), dim=1)

    def _whole(self, rows: Tensor, step: bool = False) -> Tensor:
        """Lengthen future rows to whole patches, by repetition or by the last step."""
        more = self.ahead * self.patch - self.shape.horizon
        if not more:
            return rows
        last = rows[:, -1:]
        if not step:
            return torch.cat((rows, last.expand(-1, more, *rows.shape[2:])), dim=1)
        count = torch.arange(1, more + 1, device=rows.device, dtype=rows.dtype)
        return torch.cat((rows, last + count * (last - rows[:, -2:-1])), dim=1)


def _cut(rows: Tensor, patch: int, stride: int) -> Tensor:
    """Patches ``(B, P, patch * C)`` of rows ``(B, N, C)``; the newest rows always count."""
    surplus = (rows.shape[1] - patch) % stride
    return rows[:, surplus:].unfold(1, patch, stride).flatten(2)


def _linear(shape: Shape, linear: AdditiveEncoding | bool) -> Linear:
    return Linear(shape, None if linear is True else linear)
