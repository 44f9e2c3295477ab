"""Attention that sees near and far keys by different rotations."""

import torch
from torch import Tensor

from posenc_mm.rotary import Rotation, rotate


class Distances:
    r"""What each layer needs to see two ranges of distances at two resolutions.

    Keys nearer than ``near`` are seen by the first rotation, those further by the other two:
    queries and keys turn at positions of their own there.

    Args:
        near: distance in tokens from which on the second rotations act.
        queries: rotation of the queries for far keys.
        keys: rotation of the keys for far queries.
    """

    def __init__(self, near: int, queries: Rotation, keys: Rotation) -> None:
        self.near, self.queries, self.keys = near, queries, keys

    def attend(self, q: Tensor, k: Tensor, v: Tensor, rotation: Rotation) -> Tensor:
        """Attend causally among raw queries and keys of the same tokens.

        Args:
            q: ``(B, H, N, D)``
            k: ``(B, K, N, D)``
            v: ``(B, K, N, D)``
            rotation: for near keys.

        Returns:
            ``(B, H, N, D)``
        """
        groups = q.shape[1] // k.shape[1]
        k, v = (each.repeat_interleave(groups, dim=1) for each in (k, v))
        logits = rotate(q, rotation) @ rotate(k, rotation).mT
        far = rotate(q, self.queries) @ rotate(k, self.keys).mT
        rows = torch.arange(q.shape[2], device=q.device)
        distance = rows[:, None] - rows
        logits = torch.where(distance < self.near, logits, far) * q.shape[-1] ** -0.5
        out: Tensor = logits.masked_fill(distance < 0, float("-inf")).softmax(-1) @ v
        return out
