"""What a causal transformer keeps of the tokens that it has seen."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from posenc_mm.checks import check_inside


@dataclass(eq=False)
class KVCache:
    """What a transformer has seen: per layer the keys and the values, and the positions.

    Make an empty one and pass it to every call; each call adds its tokens. Rows of a batch may be
    of different lengths, padded on either side, whole or in chunks: a ``key_mask`` says which
    tokens are real, and ``sequence(n, offset=cache.lengths)`` is where each row goes on.

    Attributes:
        keys: per layer ``(B, K, M, D)``.
        values: per layer ``(B, K, M, D)``.
        positions: ``(..., M, A)``, none while empty.
        key_mask: ``(B, M)``, true where a token is real; none while all are.
        raw: whether keys are kept as they were before a rotation, and turned when they are read:
            slower, but right where a later call turns earlier keys otherwise. Unless given, the
            first call decides: so only where the encoding needs it.
        dropped: real tokens that :meth:`crop` took from the front, ``(B,)`` or one number for all.

    Raises:
        ValueError: a call does not go on as the cached ones: another batch, number of axes or dtype
            of positions, or a mask of another shape; or the call before failed on its way.

    Example:
        >>> from posenc_mm import Rotary, Transformer, sequence
        >>> model = Transformer(16, depth=1, heads=2, rotary=Rotary(8), causal=True)
        >>> cache = KVCache()
        >>> prompt = model(torch.randn(1, 5, 16), sequence(5), cache=cache)
        >>> token = model(torch.randn(1, 1, 16), sequence(1, offset=cache.lengths), cache=cache)
        >>> len(cache)
        6
    """

    keys: list[Tensor] = field(default_factory=list, repr=False)
    values: list[Tensor] = field(default_factory=list, repr=False)
    positions: Tensor | None = field(default=None, repr=False)
    key_mask: Tensor | None = field(default=None, repr=False)
    raw: bool | None = None
    dropped: Tensor | int = field(default=0, repr=False)
    _order: Tensor | None = field(default=None, init=False, repr=False)

    def __len__(self) -> int:
        return 0 if self.positions is None else self.positions.shape[-2]

    @property
    def lengths(self) -> Tensor:
        """How many real tokens each sample has had, ``(B,)``, those dropped included."""
        if not self.keys:
            raise ValueError("lengths are those of a batch, and this cache is empty: start at 0")
        if self.key_mask is not None:
            return self.key_mask.sum(-1) + self.dropped
        batch, device = self.keys[0].shape[0], self.keys[0].device
        return torch.full((batch,), len(self), device=device) + self.dropped

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append one layer's new keys and values.

        Args:
            layer: which.
            k: ``(B, K, n, D)`` new keys, rotated unless the cache is ``raw``.
            v: ``(B, K, n, D)`` new values.

        Returns:
            All keys and values of that layer.
        """
        if layer < len(self.keys):
            k = torch.cat((self.keys[layer], k), dim=2)
            v = torch.cat((self.values[layer], v), dim=2)
        else:
            self.keys.append(k)
            self.values.append(v)
        if self._order is not None:
            k, v = _rows(k, self._order), _rows(v, self._order)
        self.keys[layer], self.values[layer] = k, v
        return k, v

    def see(
        self, positions: Tensor, key_mask: Tensor | None, batch: int, *, align: bool = False
    ) -> None:
        """Append the positions and the mask of new tokens.

        Args:
            positions: ``(n, A)`` or ``(B, n, A)``.
            key_mask: ``(B, n)``; None if all are real.
            batch: number of samples.
            align: whether to move padding before the real tokens that it stands between, as windows
                that count rows need it.
        """
        self._check(positions, key_mask, batch)
        seen, new = len(self), positions.shape[-2]
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
        self._order = None
        if align and self.key_mask is not None:
            # Padding at the very end stays, so that the new tokens keep their rows.
            later = self.key_mask.flip(1).cumsum(1).flip(1) > 0
            self._order = self._move(~self.key_mask & later)

    def reorder(self, indices: Tensor) -> None:
        """Take other samples, some twice and some not at all: beams.

        Args:
            indices: ``(B',)``, of which cached sample each new one goes on.

        Raises:
            ValueError: not integers of one dimension, or a sample that is not there.
        """
        whole = not indices.is_floating_point() and indices.dtype != torch.bool
        if indices.ndim != 1 or not whole or not self.keys:
            raise ValueError(
                f"indices must be integers (B,) of samples in a cache that is not empty, got shape "
                f"{tuple(indices.shape)}, dtype {indices.dtype} and {len(self)} cached tokens"
            )
        samples = self.keys[0].shape[0]
        check_inside("indices", indices.unsqueeze(-1), [0], [samples - 1], 0, "count from 0")
        self._each(lambda x: x.index_select(0, indices))
        if self.positions is not None and self.positions.ndim == 3 and len(self.positions) > 1:
            self.positions = self.positions.index_select(0, indices)
        if self.key_mask is not None:
            self.key_mask = self.key_mask.index_select(0, indices)
        if isinstance(self.dropped, Tensor):
            self.dropped = self.dropped.index_select(0, indices)

    def crop(self, first: int | None = None, last: int | None = None) -> None:
        """Keep the tokens from row ``first`` to row ``last``, as a slice does.

        ``crop(first=-8)`` keeps the last 8, which is all that a window of 9 sees from the next
        token; padding goes first. ``crop(last=-2)`` takes the last two back, which are then not
        counted in ``lengths``.

        Args:
            first: row of the first token kept; negative ones count from the end.
            last: row after the last token kept.
        """
        if self.positions is None:
            return
        if first is not None and self.key_mask is not None:
            order = self._move(~self.key_mask)
            self._each(lambda x: _rows(x, order))
        start = slice(first, last).indices(len(self))[0]
        if self.key_mask is None:
            self.dropped = self.dropped + start
        else:
            self.dropped = self.dropped + self.key_mask[:, :start].sum(-1)
            self.key_mask = self.key_mask[:, first:last]
        self.positions = self.positions[..., first:last, :]
        self._each(lambda x: x[:, :, first:last])

    def _each(self, change: Callable[[Tensor], Tensor]) -> None:
        self.keys = [change(k) for k in self.keys]
        self.values = [change(v) for v in self.values]

    def _move(self, ahead: Tensor) -> Tensor:
        """Put rows in front, in positions and mask, and say which rows that takes, ``(B, M)``."""
        order = (~ahead).long().argsort(dim=-1, stable=True)
        if self.positions is not None and self.key_mask is not None:
            whole = self.positions.expand(len(order), *self.positions.shape[-2:])
            index = order.unsqueeze(-1).expand(whole.shape)
            self.positions = whole.gather(1, index)
            self.key_mask = self.key_mask.gather(1, order)
        return order

    def _check(self, positions: Tensor, key_mask: Tensor | None, batch: int) -> None:
        new = positions.shape[-2]
        rows = {k.shape[2] for k in self.keys} or {0}
        if rows != {len(self)}:
            raise ValueError(
                f"cache must hold each token in all layers, got positions of {len(self)} and keys "
                f"of {sorted(rows)}, as a call that failed on its way leaves them: make a new "
                f"KVCache, or go on from a copy of before"
            )
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


def _rows(x: Tensor, order: Tensor) -> Tensor:
    return x.gather(2, order[:, None, :, None].expand(*x.shape[:2], -1, x.shape[-1]))
