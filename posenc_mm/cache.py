"""What a causal transformer keeps of the tokens that it has seen."""

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(eq=False)
class KVCache:
    """What a transformer has seen: per layer the rotated keys and the values, and the positions.

    Make an empty one and pass it to every call; each call adds its tokens.

    Attributes:
        keys: per layer ``(B, K, M, D)``.
        values: per layer ``(B, K, M, D)``.
        positions: ``(..., M, A)``, none while empty.
        key_mask: ``(B, M)``, true where a token is real; none while all are.

    Raises:
        ValueError: a call does not go on as the cached ones: another batch, number of axes or dtype
            of positions, or a mask of another shape.

    Example:
        >>> from posenc_mm import Rotary, Transformer, sequence
        >>> model = Transformer(16, depth=1, heads=2, rotary=Rotary(8), causal=True)
        >>> cache = KVCache()
        >>> prompt = model(torch.randn(1, 5, 16), sequence(5), cache=cache)
        >>> token = model(torch.randn(1, 1, 16), sequence(1, offset=len(cache)), cache=cache)
        >>> len(cache)
        6
    """

    keys: list[Tensor] = field(default_factory=list, repr=False)
    values: list[Tensor] = field(default_factory=list, repr=False)
    positions: Tensor | None = field(default=None, repr=False)
    key_mask: Tensor | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return 0 if self.positions is None else self.positions.shape[-2]

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append one layer's new keys and values.

        Args:
            layer: which.
            k: ``(B, K, n, D)`` new rotated keys.
            v: ``(B, K, n, D)`` new values.

        Returns:
            All keys and values of that layer.
        """
        if layer == len(self.keys):
            self.keys.append(k)
            self.values.append(v)
        else:
            self.keys[layer] = torch.cat((self.keys[layer], k), dim=2)
            self.values[layer] = torch.cat((self.values[layer], v), dim=2)
        return self.keys[layer], self.values[layer]

    def see(self, positions: Tensor, key_mask: Tensor | None, batch: int) -> None:
        """Append the positions and the mask of new tokens.

        Args:
            positions: ``(n, A)`` or ``(B, n, A)``.
            key_mask: ``(B, n)``; None if all are real.
            batch: number of samples.
        """
        seen, new = len(self), positions.shape[-2]
        if self.keys and self.keys[0].shape[0] != batch:
            raise ValueError(
                f"cache is of a batch of {self.keys[0].shape[0]}, got a batch of {batch}: make a "
                f"new KVCache per batch"
            )
        if key_mask is not None and key_mask.shape != (batch, new):
            raise ValueError(
                f"key_mask must be (B, N)=({batch}, {new}) of the new tokens, got shape "
                f"{tuple(key_mask.shape)}"
            )
        if self.positions is not None and (
            self.positions.shape[-1] != positions.shape[-1]
            or self.positions.dtype != positions.dtype
        ):
            raise ValueError(
                f"positions must go on as the cached ones, with {self.positions.shape[-1]} axes in "
                f"{self.positions.dtype}, got {positions.shape[-1]} axes in {positions.dtype}"
            )
        if key_mask is not None or self.key_mask is not None:
            known = positions.new_ones(batch, seen, dtype=torch.bool)
            fresh = positions.new_ones(batch, new, dtype=torch.bool)
            known = known if self.key_mask is None else self.key_mask
            fresh = fresh if key_mask is None else key_mask
            self.key_mask = torch.cat((known, fresh), dim=1)
        if self.positions is not None:
            old = self.positions
            # Shared positions may meet positions per sample.
            if old.ndim < positions.ndim:
                old = old.expand(batch, *old.shape)
            elif positions.ndim < old.ndim:
                positions = positions.expand(batch, *positions.shape)
            positions = torch.cat((old, positions), dim=-2)
        self.positions = positions
