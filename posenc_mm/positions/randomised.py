"""Positions of a longer sequence, drawn at random while a model trains."""

from dataclasses import dataclass

import torch
from torch import Tensor

from posenc_mm.checks import check_whole
from posenc_mm.positions.sequences import sequence


@dataclass(frozen=True)
class RandomisedSequence:
    r"""Makes the positions of a sequence and, in training, draws them from a longer one.

    .. math:: p_0 < p_1 < \ldots < p_{N-1}, \quad \{p_n\} \subset \{0, \ldots, L - 1\}

    every subset as likely as any other. A model so trained has met the positions, and the distances
    between them, of sequences up to :math:`L` long, at the cost of short ones. Order is kept;
    neighbours are no longer one apart, so a bias on distances should reach as far as :math:`L`.

    Nothing is drawn unless a call says ``training=True``. Say it in evaluation too for what the
    authors did there.

    References:
        Ruoss et al.: Randomized Positional Encodings Boost Length Generalization of Transformers
        (2023), https://arxiv.org/abs/2305.16843

    Args:
        longest: :math:`L`, at least the longest sequence of training.

    Shape:
        ``(length) -> (N, 1)``, or ``(B, N, 1)`` with ``samples=B``, in int64

    Raises:
        ValueError: ``longest`` is below 1; at the call, the length is longer, or ``samples`` or
            ``generator`` is given without ``training``.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> drawn = RandomisedSequence(longest=100)(4, training=True)
        >>> bool((drawn.diff(dim=0) > 0).all()), int(drawn.max()) < 100
        (True, True)
        >>> RandomisedSequence(longest=100)(4)[:, 0].tolist()
        [0, 1, 2, 3]
    """

    longest: int

    def __post_init__(self) -> None:
        check_whole(longest=self.longest)

    def __call__(
        self,
        length: int,
        *,
        device: torch.device | str | None = None,
        training: bool = False,
        samples: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Make the positions of a sequence.

        Args:
            length: number of tokens :math:`N`.
            device: where the result lives.
            training: whether to draw; 0, 1, 2, ... otherwise.
            samples: number of draws :math:`B`, one per sample; one for the whole batch unless
                given.
            generator: of the draws, on ``device``; torch's global one unless given.

        Returns:
            ``(N, 1)``, or ``(B, N, 1)`` with ``samples``.
        """
        if not training:
            if samples is not None or generator is not None:
                raise ValueError(
                    f"samples and generator are of the draws of training: say training=True, got "
                    f"samples={samples} and generator={generator}"
                )
            return sequence(length, device=device)
        check_whole(0, length=length)
        if length > self.longest:
            raise ValueError(
                f"length must be at most longest={self.longest} to draw from, got length={length}"
            )
        if samples is not None:
            check_whole(samples=samples)
        draws = [
            torch.randperm(self.longest, device=device, generator=generator)[:length]
            for _ in range(1 if samples is None else samples)
        ]
        drawn = torch.stack(draws).sort(dim=-1).values.unsqueeze(-1)
        return drawn[0] if samples is None else drawn
