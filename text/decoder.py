"""A decoder of the Llama family that takes any rotation and bias, to run trained weights in."""

from dataclasses import dataclass

from einops import rearrange
from torch import Tensor, nn
from torch.nn import functional as F

from posenc_mm import KVCache, attend
from posenc_mm.bias import AttentionBias
from posenc_mm.rotary import RotaryEncoding, Rotation
from text.decoder_distances import Distances
from text.decoder_slots import check_cache, check_slots, rotations, turn


@dataclass(frozen=True)
class Shape:
    """The sizes of a decoder.

    Args:
        vocab: number of tokens that it knows.
        dim: width of its tokens.
        hidden: width of its perceptrons.
        depth: number of layers.
        heads: query heads :math:`H`.
        kv_heads: key and value heads, a divisor of ``heads``.
        head_dim: channels :math:`D` of a head.
        eps: of its norms.
        tied: whether the output reads tokens off the embedding itself.
        qkv_bias: whether queries, keys and values have a constant added (Qwen2).

    Raises:
        ValueError: a size is below 1, ``kv_heads`` does not divide ``heads``.
    """

    vocab: int
    dim: int
    hidden: int
    depth: int
    heads: int
    kv_heads: int
    head_dim: int
    eps: float = 1e-5
    tied: bool = True
    qkv_bias: bool = False

    def __post_init__(self) -> None:
        sizes = ("vocab", "dim", "hidden", "depth", "heads", "kv_heads", "head_dim")
        small = {name: getattr(self, name) for name in sizes if getattr(self, name) < 1}
        if small or self.heads % self.kv_heads:
            raise ValueError(
                f"sizes must be at least 1 and kv_heads divide heads, got {small or self}"
            )


class Layer(nn.Module):
    """Attention with grouped keys and a gated perceptron, each normalised first.

    Args:
        shape: of the decoder.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        dim, bias, self.head_dim = shape.dim, shape.qkv_bias, shape.head_dim
        queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.norm1, self.norm2 = nn.RMSNorm(dim, shape.eps), nn.RMSNorm(dim, shape.eps)
        self.q, self.k, self.v = (nn.Linear(dim, n, bias=bias) for n in (queries, keys, keys))
        self.out = nn.Linear(queries, dim, bias=False)
        self.gate, self.up = (nn.Linear(dim, shape.hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(shape.hidden, dim, bias=False)

    def forward(
        self,
        x: Tensor,
        *,
        rotation: Rotation | None,
        k_rotation: Rotation | None,
        bias: Tensor | None,
        sharpness: Tensor | None,
        window: int | None,
        distances: Distances | None,
        key_mask: Tensor | None,
        cache: KVCache | None,
        layer: int,
    ) -> Tensor:
        """Pass tokens ``(B, N, D)`` through."""
        y = self.norm1(x)
        q, k, v = (
            rearrange(part(y), "b n (h d) -> b h n d", d=self.head_dim)
            for part in (self.q, self.k, self.v)
        )
        if sharpness is not None:
            q = q * (sharpness if sharpness.ndim == 2 else sharpness.unsqueeze(-3)).to(q.dtype)
        if distances is not None and rotation is not None:
            seen = distances.attend(q, k, v, rotation)
        else:
            q, k, v = turn(q, k, v, rotation, k_rotation, cache, layer)
            seen = attend(q, k, v, bias=bias, causal=True, key_mask=key_mask, window=window)
        x = x + self.out(rearrange(seen, "b h n d -> b n (h d)"))
        y = self.norm2(x)
        out: Tensor = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return out


class Decoder(nn.Module):
    r"""A causal language model: embedding, layers, a norm, and logits of the next token.

    The two slots are those of :class:`posenc_mm.Transformer`, and may be changed at any time: a
    trained model goes on with other speeds. Each is evaluated once per call.

    References:
        Touvron et al.: LLaMA: Open and Efficient Foundation Language Models (2023),
        https://arxiv.org/abs/2302.13971

    Args:
        shape: its sizes.
        rotary: turns queries and keys, for heads of ``shape.head_dim`` channels.
        bias: added to the attention logits, for ``shape.heads`` heads.

    Shape:
        ``tokens (B, N), positions (..., N, A) -> logits (B, N, V)``

    Raises:
        ValueError: an encoding is for other heads, or of a kind that acts elsewhere.
    """

    def __init__(
        self,
        shape: Shape,
        *,
        rotary: RotaryEncoding | None = None,
        bias: AttentionBias | None = None,
    ) -> None:
        super().__init__()
        check_slots(shape, rotary, bias)
        self.shape, self.rotary, self.bias = shape, rotary, bias
        self.embedding = nn.Embedding(shape.vocab, shape.dim)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.depth))
        self.norm = nn.RMSNorm(shape.dim, shape.eps)
        self.head = None if shape.tied else nn.Linear(shape.dim, shape.vocab, bias=False)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        *,
        key_mask: Tensor | None = None,
        cache: KVCache | None = None,
        sharpness: Tensor | None = None,
        window: int | None = None,
        distances: Distances | None = None,
    ) -> Tensor:
        """Give logits of the token after each.

        Args:
            tokens: ``(B, N)`` integers.
            positions: ``(N, A)`` or ``(B, N, A)`` of these tokens.
            key_mask: ``(B, N)``, true where a token is real.
            cache: what earlier calls saw; this call's tokens come after it and are added to it.
            sharpness: ``(N, 1)`` or ``(B, N, 1)``, a factor on the logits of each query.
            window: a query sees only keys less than this many tokens back.
            distances: how far keys are seen, where that differs from near ones.

        Returns:
            ``(B, N, V)``

        Raises:
            ValueError: shapes do not fit, or ``distances`` comes with what it cannot go with.
        """
        x = self.states(
            tokens,
            positions,
            key_mask=key_mask,
            cache=cache,
            sharpness=sharpness,
            window=window,
            distances=distances,
        )
        return self.logits(x)

    def states(
        self,
        tokens: Tensor,
        positions: Tensor,
        *,
        key_mask: Tensor | None = None,
        cache: KVCache | None = None,
        sharpness: Tensor | None = None,
        window: int | None = None,
        distances: Distances | None = None,
    ) -> Tensor:
        """Give what :meth:`logits` reads, ``(B, N, D)``; arguments are those of a call."""
        if tokens.ndim != 2 or positions.shape[-2] != tokens.shape[1]:
            raise ValueError(
                f"tokens must be (B, N) and positions (..., N, A), got shapes "
                f"{tuple(tokens.shape)} and {tuple(positions.shape)}"
            )
        others = (key_mask, cache, window, self.bias)
        if distances is not None and any(other is not None for other in others):
            raise ValueError("distances go with no key_mask, cache, window or bias: leave them out")
        k_positions: Tensor | None = positions
        if cache is not None:
            check_cache(self.rotary, cache)
            cache.see(positions, key_mask, len(tokens), align=window is not None)
            key_mask, k_positions = cache.key_mask, cache.positions
        rotation, k_rotation = rotations(self.rotary, positions, k_positions)
        if distances is not None and k_rotation is not None:
            raise ValueError("distances turn queries and keys alike: take another rotary than XPos")
        bias = None if self.bias is None else self.bias(positions, k_positions)
        x = self.embedding(tokens)
        for number, layer in enumerate(self.layers):
            x = layer(
                x,
                rotation=rotation,
                k_rotation=k_rotation,
                bias=bias,
                sharpness=sharpness,
                window=window,
                distances=distances,
                key_mask=key_mask,
                cache=cache,
                layer=number,
            )
        normed: Tensor = self.norm(x)
        return normed

    def logits(self, states: Tensor) -> Tensor:
        """Read the logits of the next token off states ``(B, N, D)``: ``(B, N, V)``."""
        weight = self.embedding.weight if self.head is None else self.head.weight
        return F.linear(states, weight)
