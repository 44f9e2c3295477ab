"""A causal transformer of tokens: the library's own, between an embedding and its transpose."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from posenc_mm import (
    AdditiveEncoding,
    AttentionBias,
    KVCache,
    RotaryEncoding,
    Transformer,
    sequence,
)

SLOTS = ("additive", "rotary", "bias")


class TokenTransformer(nn.Module):
    r"""Predicts the next token: :math:`E^\top \mathrm{Transformer}(\sqrt{D} E_{x})`.

    One matrix :math:`E` embeds tokens and reads them off again (tied). Scaled as by Vaswani et al.,
    embeddings are about as large as the sines that may be added to them.

    Args:
        tokens: how many there are.
        dim: width :math:`D`.
        depth: number of layers.
        heads: number of query heads.
        additive: encoding added to the tokens.
        rotary: encoding that turns queries and keys.
        bias: encoding added to the logits of the attention.
        kv_heads: number of key and value heads; ``heads`` unless given.
        mlp_ratio: hidden width of the perceptrons over ``dim``.
        dropout: in training.

    Shape:
        ``tokens (B, N), positions (N, 1) or (B, N, 1) -> logits (B, N, tokens)``

    Raises:
        ValueError: a width or number of heads does not divide, or differs from an encoding's.
    """

    def __init__(
        self,
        tokens: int,
        dim: int,
        depth: int,
        heads: int,
        *,
        additive: AdditiveEncoding | None = None,
        rotary: RotaryEncoding | None = None,
        bias: AttentionBias | None = None,
        kv_heads: int | None = None,
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.transformer = Transformer(
            dim, depth, heads, additive=additive, rotary=rotary, bias=bias, causal=True,
            kv_heads=kv_heads, mlp_ratio=mlp_ratio, dropout=dropout,
        )  # fmt: skip
        self.embedding = nn.Embedding(tokens, dim)
        nn.init.normal_(self.embedding.weight, std=dim**-0.5)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        *,
        segments: Tensor | None = None,
        key_mask: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        x = self.embedding(tokens) * self.embedding.embedding_dim**0.5
        x = self.transformer(x, positions, segments=segments, key_mask=key_mask, cache=cache)
        return F.linear(x, self.embedding.weight)

    @torch.no_grad()
    def refusal(self, length: int) -> str | None:
        """Say why an encoding cannot read a length, such as a table that ends before it.

        Args:
            length: tokens.

        Returns:
            What the encoding says; None where all of them read it.
        """
        positions = sequence(length, device=self.embedding.weight.device)
        encodings = [getattr(self.transformer, slot) for slot in SLOTS]
        try:
            for encoding in filter(None, encodings[:2]):
                encoding(positions)
            if encodings[2] is not None:
                encodings[2](positions[-1:], positions)  # the last query has all the distances
        except ValueError as error:
            return str(error)
        return None
