"""Layers of the smallest host: attention that takes evaluated encodings, and a perceptron."""

from einops import rearrange
from torch import Tensor, nn

from posenc_mm.attention import attend
from posenc_mm.bias import AttentionBias, Contextual, ContextualBias
from posenc_mm.cache import KVCache
from posenc_mm.rotary import Rotation, rotate


class Attention(nn.Module):
    """Multi-head self-attention that takes a rotation as tensors, and biases in any form.

    Args:
        dim: width of the tokens, a multiple of ``heads``.
        heads: number of query heads :math:`H`.
        kv_heads: number of key and value heads, a divisor of ``heads``; ``heads`` unless given.
        dropout: of the output, in training.
    """

    def __init__(
        self, dim: int, heads: int, *, kv_heads: int | None = None, dropout: float = 0.0
    ) -> None:
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        if heads < 1 or dim % heads:
            raise ValueError(f"heads must divide dim, got heads={heads} and dim={dim}")
        if kv_heads < 1 or heads % kv_heads:
            raise ValueError(
                f"kv_heads must divide heads, got kv_heads={kv_heads} and heads={heads}"
            )
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, dim // heads
        self.qkv = nn.Linear(dim, (heads + 2 * kv_heads) * self.head_dim)
        self.out = nn.Linear(dim, dim)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        x: Tensor,
        *,
        rotation: Rotation | None = None,
        k_rotation: Rotation | None = None,
        temperature: Tensor | None = None,
        factor: float = 1.0,
        bias: AttentionBias | ContextualBias | Contextual | Tensor | None = None,
        after: AttentionBias | Tensor | None = None,
        q_positions: Tensor | None = None,
        k_positions: Tensor | None = None,
        ordered: bool | None = None,
        causal: bool = False,
        key_mask: Tensor | None = None,
        segments: Tensor | None = None,
        window: int | None = None,
        cache: KVCache | None = None,
        layer: int = 0,
    ) -> Tensor:
        """Attend among tokens ``(B, N, D)``, and to those in the cache.

        Keyword arguments are those of :func:`posenc_mm.attend`, but for these: ``k_rotation``, of
        all keys where the cache keeps them raw, else of the new ones; ``temperature (..., N, 1)``,
        a factor of the queries; ``factor``, of the logits; ``layer``, which of the cache's this is.
        """
        parts = rearrange(self.qkv(x), "b n (h d) -> b h n d", d=self.head_dim)
        q, k, v = parts.split((self.heads, self.kv_heads, self.kv_heads), dim=1)
        if rotation is not None:
            q = rotate(q, rotation)
            k_rotation = rotation if k_rotation is None else k_rotation
        if temperature is not None:
            each = temperature if temperature.ndim == 2 else temperature.unsqueeze(-3)
            q = (q * each).to(q.dtype)
        if factor != 1.0:
            q = q * factor
        raw = cache is not None and bool(cache.raw)
        if k_rotation is not None and not raw:
            k = rotate(k, k_rotation)
        if cache is not None:
            k, v = cache.extend(layer, k, v)
        if k_rotation is not None and raw:
            k = rotate(k, k_rotation)
        seen = attend(
            q,
            k,
            v,
            bias=bias,
            after=after,
            q_positions=q_positions,
            k_positions=k_positions,
            ordered=ordered,
            causal=causal,
            key_mask=key_mask,
            segments=segments,
            window=window,
        )
        mixed: Tensor = self.dropout(self.out(rearrange(seen, "b h n d -> b n (h d)")))
        return mixed


class Block(nn.Module):
    """Attention and a two-layer perceptron, each normalised first and added to what came.

    Args:
        dim: width of the tokens.
        heads: number of query heads :math:`H`.
        kv_heads: number of key and value heads.
        mlp_ratio: hidden width of the perceptron over ``dim``.
        dropout: of both outputs, in training.
    """

    def __init__(
        self, dim: int, heads: int, *, kv_heads: int | None, mlp_ratio: float, dropout: float
    ) -> None:
        super().__init__()
        hidden = int(dim * mlp_ratio)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = Attention(dim, heads, kv_heads=kv_heads, dropout=dropout)
        self.mlp = nn.Sequential(
            nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim), nn.Dropout(dropout)
        )

    def forward(self, x: Tensor, **attention: object) -> Tensor:
        """Pass tokens ``(B, N, D)`` through; keywords go to :class:`Attention`."""
        x = x + self.attention(self.norm1(x), **attention)
        out: Tensor = x + self.mlp(self.norm2(x))
        return out
