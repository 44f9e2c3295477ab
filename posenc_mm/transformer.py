"""The smallest host of all three kinds: where each one acts, as a program."""

from einops import rearrange
from torch import Tensor, nn

from posenc_mm.additive import AdditiveEncoding
from posenc_mm.attention import attend
from posenc_mm.bias import AttentionBias
from posenc_mm.cache import KVCache
from posenc_mm.checks import check_whole
from posenc_mm.rotary import RotaryEncoding, Rotation, rotate


class Attention(nn.Module):
    """Multi-head self-attention that takes a rotation and biases as tensors.

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
        bias: Tensor | None = None,
        after: Tensor | None = None,
        causal: bool = False,
        key_mask: Tensor | None = None,
        segments: Tensor | None = None,
        cache: KVCache | None = None,
        layer: int = 0,
    ) -> Tensor:
        """Attend among tokens ``(B, N, D)``, and to those in the cache."""
        parts = rearrange(self.qkv(x), "b n (h d) -> b h n d", d=self.head_dim)
        q, k, v = parts.split((self.heads, self.kv_heads, self.kv_heads), dim=1)
        if rotation is not None:
            q, k = rotate(q, rotation), rotate(k, rotation)
        if cache is not None:
            k, v = cache.extend(layer, k, v)
        seen = attend(
            q, k, v, bias=bias, after=after, causal=causal, key_mask=key_mask, segments=segments
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


class Transformer(nn.Module):
    r"""A pre-norm transformer with the three slots; all empty is a transformer without positions.

    Each encoding is evaluated once per call; layers receive tensors.

    References:
        Vaswani et al.: Attention Is All You Need (2017), https://arxiv.org/abs/1706.03762

    Args:
        dim: width :math:`D` of the tokens.
        depth: number of layers.
        heads: number of query heads :math:`H`.
        additive: added to the tokens, of width ``dim``.
        rotary: turns queries and keys, for heads of ``dim / heads`` channels.
        bias: added to the attention logits, or to the weights after the softmax where its class
            says so, for ``heads`` heads.
        causal: whether a token sees only itself and what came before.
        kv_heads: number of key and value heads (grouped queries); ``heads`` unless given.
        mlp_ratio: hidden width of the perceptrons over ``dim``.
        dropout: in training.

    Shape:
        ``tokens (B, N, D), positions (..., N, A) -> (B, N, D)``

    Raises:
        ValueError: a width or number of heads does not divide, or differs from an encoding's; a
            cache comes without ``causal``, or with ``segments``.

    Example:
        >>> import torch
        >>> from posenc_mm import Rotary, grid
        >>> model = Transformer(dim=32, depth=2, heads=4, rotary=Rotary(head_dim=8, axes=2))
        >>> model(torch.randn(2, 15, 32), grid(3, 5)).shape
        torch.Size([2, 15, 32])
    """

    def __init__(
        self,
        dim: int,
        depth: int,
        heads: int,
        *,
        additive: AdditiveEncoding | None = None,
        rotary: RotaryEncoding | None = None,
        bias: AttentionBias | None = None,
        causal: bool = False,
        kv_heads: int | None = None,
        mlp_ratio: float = 4.0,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_whole(dim=dim, depth=depth, heads=heads)
        self.blocks = nn.ModuleList(
            Block(dim, heads, kv_heads=kv_heads, mlp_ratio=mlp_ratio, dropout=dropout)
            for _ in range(depth)
        )
        kinds = {"additive": AdditiveEncoding, "rotary": RotaryEncoding, "bias": AttentionBias}
        for name, given in {"additive": additive, "rotary": rotary, "bias": bias}.items():
            if given is not None and not isinstance(given, kinds[name]):
                raise ValueError(f"{name} must be a {kinds[name].__name__}, got {given!r}")
        if additive is not None and additive.dim != dim:
            raise ValueError(f"additive is {additive.dim} wide, but the tokens are dim={dim}")
        if rotary is not None and rotary.head_dim != dim // heads:
            raise ValueError(
                f"rotary is for heads of {rotary.head_dim} channels, but dim={dim} and "
                f"heads={heads} make {dim // heads}"
            )
        if rotary is not None and rotary.heads not in (None, heads):
            raise ValueError(f"rotary is for {rotary.heads} heads, but heads={heads}")
        if rotary is not None and rotary.heads and kv_heads not in (None, heads):
            raise ValueError(
                f"rotary has a rotation per head, which needs as many key heads: got "
                f"heads={heads} and kv_heads={kv_heads}"
            )
        if bias is not None and bias.heads != heads:
            raise ValueError(f"bias is for {bias.heads} heads, but heads={heads}")
        self.additive, self.rotary, self.bias = additive, rotary, bias
        self.causal = causal
        self.norm = nn.LayerNorm(dim)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        *,
        key_mask: Tensor | None = None,
        segments: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Encode tokens at positions.

        Args:
            tokens: ``(B, N, D)``
            positions: ``(N, A)`` or ``(B, N, A)`` of these tokens.
            key_mask: ``(B, N)``, true where a token is real.
            segments: ``(N,)`` or ``(B, N)``, the document of each token.
            cache: what earlier calls saw; this call's tokens come after it, and are added to it.

        Returns:
            ``(B, N, D)``

        Raises:
            ValueError: the shapes do not fit each other or the cache.
        """
        fits = tokens.ndim == 3 and positions.ndim in (2, 3)
        if fits and positions.ndim == 3:
            fits = positions.shape[0] in (1, tokens.shape[0])
        if not fits or positions.shape[-2] != tokens.shape[1]:
            raise ValueError(
                f"tokens must be (B, N, D) and positions (N, A) or (B, N, A), got shapes "
                f"{tuple(tokens.shape)} and {tuple(positions.shape)}"
            )
        k_positions: Tensor | None = positions
        if cache is not None:
            if not self.causal or segments is not None:
                raise ValueError("cache needs a causal model, and takes no segments")
            if len(cache.keys) not in (0, len(self.blocks)):
                raise ValueError(
                    f"cache is of {len(cache.keys)} layers, but this model has {len(self.blocks)}"
                )
            cache.see(positions, key_mask, len(tokens))
            key_mask, k_positions = cache.key_mask, cache.positions
        x = tokens
        if self.additive is not None:
            x = x + self.additive(positions).to(x.dtype)
        rotation = None if self.rotary is None else self.rotary(positions)
        added = {}
        if self.bias is not None:
            slot = "after" if self.bias.after_softmax else "bias"
            added[slot] = self.bias(positions, k_positions)
        for layer, block in enumerate(self.blocks):
            x = block(
                x,
                rotation=rotation,
                **added,
                causal=self.causal,
                key_mask=key_mask,
                segments=segments,
                cache=cache,
                layer=layer,
            )
        encoded: Tensor = self.norm(x)
        return encoded
