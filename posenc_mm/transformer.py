"""The smallest host of all three kinds: where each one acts, as a program."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from torch import Tensor, nn

from posenc_mm.additive import AdditiveEncoding
from posenc_mm.attention import for_layers
from posenc_mm.bias import AttentionBias, ContextualBias
from posenc_mm.blocks import Block
from posenc_mm.cache import KVCache
from posenc_mm.checks import check_whole
from posenc_mm.rotary import RotaryEncoding, Rotation, XPos
from posenc_mm.schedule import distinct, per_layer, spread

Bias: TypeAlias = AttentionBias | ContextualBias
Temperature: TypeAlias = Callable[[Tensor], Tensor]


class Transformer(nn.Module):
    r"""A pre-norm transformer with the three slots; all empty is a transformer without positions.

    Each encoding is evaluated once per call; layers receive tensors. What acts in the layers may be
    one for all of them, or a sequence of one per layer, None for none, such as
    :func:`posenc_mm.schedule.every` makes: layers without positions, bases of local and of global
    layers. Layers that share an object share its parameters, and its one evaluation.

    References:
        Vaswani et al.: Attention Is All You Need (2017), https://arxiv.org/abs/1706.03762

    Args:
        dim: width :math:`D` of the tokens.
        depth: number of layers.
        heads: number of query heads :math:`H`.
        additive: added to the tokens, of width ``dim``.
        rotary: turns queries and keys, for heads of ``dim / heads`` channels; or one per layer.
        bias: added to the attention logits, or to the weights after the softmax where its class
            says so, for ``heads`` heads; or one per layer.
        temperature: makes the factor of each query from its position, such as
            :class:`posenc_mm.temperature.StepTemperature`; or one per layer.
        window: a token sees those less than this many rows away; or one per layer. Rows of padding
            count only between real tokens, where a cache has none.
        causal: whether a token sees only itself and what came before.
        kv_heads: number of key and value heads (grouped queries); ``heads`` unless given.
        mlp_ratio: hidden width of the perceptrons over ``dim``.
        dropout: in training.

    Shape:
        ``tokens (B, N, D), positions (..., N, A) -> (B, N, D)``

    Raises:
        ValueError: a width or number of heads does not divide, or differs from an encoding's; a
            sequence is not of one per layer; a cache comes without ``causal``, with ``segments``,
            or keeps rotated keys where the encoding needs raw ones.

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
        rotary: RotaryEncoding | Sequence[RotaryEncoding | None] | None = None,
        bias: Bias | Sequence[Bias | None] | None = None,
        temperature: Temperature | Sequence[Temperature | None] | None = None,
        window: int | Sequence[int | None] | None = None,
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
        if additive is not None and not isinstance(additive, AdditiveEncoding):
            raise ValueError(f"additive must be an AdditiveEncoding, got {additive!r}")
        if additive is not None and additive.dim != dim:
            raise ValueError(f"additive is {additive.dim} wide, but the tokens are dim={dim}")
        rotaries, self._rotary_of = distinct(per_layer("rotary", rotary, depth))
        biases, self._bias_of = distinct(per_layer("bias", bias, depth))
        for turning in rotaries:
            _check_rotary(turning, dim, heads, kv_heads)
        for added in biases:
            _check_bias(added, dim, heads)
        self.additive = additive
        self.rotary = nn.ModuleList(rotaries) if isinstance(rotary, Sequence) else rotary
        self.bias = nn.ModuleList(biases) if isinstance(bias, Sequence) else bias
        self._temperatures, self._temperature_of = distinct(
            per_layer("temperature", temperature, depth)
        )
        self.windows = per_layer("window", window, depth)
        for width in self.windows:
            if width is not None:
                check_whole(window=width)
        self.causal, self._kv_heads = causal, heads if kv_heads is None else kv_heads
        self.norm = nn.LayerNorm(dim)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        *,
        key_mask: Tensor | None = None,
        segments: Tensor | None = None,
        cache: KVCache | None = None,
        ordered: bool | None = None,
    ) -> Tensor:
        """Encode tokens at positions.

        Args:
            tokens: ``(B, N, D)``
            positions: ``(N, A)`` or ``(B, N, A)`` of these tokens.
            key_mask: ``(B, N)``, true where a token is real.
            segments: ``(N,)`` or ``(B, N)``, the document of each token.
            cache: what earlier calls saw; this call's tokens come after it, and are added to it.
            ordered: whether positions never fall from one row to the next, as for
                :func:`posenc_mm.attend`.

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
        k_positions = positions
        if cache is not None:
            if not self.causal or segments is not None:
                raise ValueError("cache needs a causal model, and takes no segments")
            key_mask, k_positions = self._seen(cache, positions, key_mask, len(tokens))
        x = tokens
        if self.additive is not None:
            x = x + self.additive(positions).to(x.dtype)
        raw = cache is not None and bool(cache.raw)
        rotations = spread(
            _each(self.rotary), self._rotary_of, lambda r: _turned(r, positions, k_positions, raw)
        )
        masked = (self.causal, key_mask, segments)
        biases = spread(
            _each(self.bias),
            self._bias_of,
            lambda b: for_layers(b, positions, k_positions, x, self._kv_heads, masked, ordered),
        )
        factors = spread(self._temperatures, self._temperature_of, lambda t: t(positions))
        layers = zip(self.blocks, rotations, biases, factors, self.windows, strict=True)
        for layer, (block, rotation, bias, factor, window) in enumerate(layers):
            x = block(
                x,
                **(rotation or {}),
                **(bias or {}),
                temperature=factor,
                window=window,
                causal=self.causal,
                key_mask=key_mask,
                segments=segments,
                cache=cache,
                layer=layer,
            )
        encoded: Tensor = self.norm(x)
        return encoded

    def _seen(
        self, cache: KVCache, positions: Tensor, key_mask: Tensor | None, batch: int
    ) -> tuple[Tensor | None, Tensor]:
        if len(cache.keys) not in (0, len(self.blocks)):
            raise ValueError(
                f"cache is of {len(cache.keys)} layers, but this model has {len(self.blocks)}"
            )
        needs_raw = any(isinstance(rotary, XPos) for rotary in _each(self.rotary))
        if cache.raw is None:
            cache.raw = needs_raw
        if needs_raw and not cache.raw:
            raise ValueError("cache must keep raw keys for XPos, got raw=False: leave raw out")
        aligned = any(window is not None for window in self.windows)
        cache.see(positions, key_mask, batch, align=aligned)
        return cache.key_mask, positions if cache.positions is None else cache.positions


def _each(slot: nn.Module | None) -> Iterable[nn.Module]:
    if isinstance(slot, nn.ModuleList):
        return slot
    return [] if slot is None else [slot]


def _turned(
    rotary: nn.Module, positions: Tensor, k_positions: Tensor, raw: bool
) -> dict[str, Rotation | float]:
    if isinstance(rotary, XPos):
        rotation, k_rotation = rotary.pair(positions, k_positions)
        return {"rotation": rotation, "k_rotation": k_rotation}
    turned = {"rotation": rotary(positions), "factor": getattr(rotary, "softmax_factor", 1.0)}
    return {**turned, "k_rotation": rotary(k_positions)} if raw else turned


def _check_rotary(rotary: nn.Module, dim: int, heads: int, kv_heads: int | None) -> None:
    if not isinstance(rotary, RotaryEncoding):
        raise ValueError(f"rotary must be a RotaryEncoding, got {rotary!r}")
    if rotary.head_dim != dim // heads:
        raise ValueError(
            f"rotary is for heads of {rotary.head_dim} channels, but dim={dim} and "
            f"heads={heads} make {dim // heads}"
        )
    if rotary.heads not in (None, heads):
        raise ValueError(f"rotary is for {rotary.heads} heads, but heads={heads}")
    if rotary.heads and kv_heads not in (None, heads):
        raise ValueError(
            f"rotary has a rotation per head, which needs as many key heads: got "
            f"heads={heads} and kv_heads={kv_heads}"
        )


def _check_bias(bias: nn.Module, dim: int, heads: int) -> None:
    if not isinstance(bias, (AttentionBias, ContextualBias)):
        raise ValueError(f"bias must be an AttentionBias or a ContextualBias, got {bias!r}")
    if bias.heads != heads:
        raise ValueError(f"bias is for {bias.heads} heads, but heads={heads}")
    if isinstance(bias, ContextualBias) and bias.head_dim != dim // heads:
        raise ValueError(
            f"bias is for heads of {bias.head_dim} channels, but dim={dim} and heads={heads} "
            f"make {dim // heads}"
        )
