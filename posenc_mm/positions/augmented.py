"""Coordinates that are shifted and scaled at random while a model trains."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from posenc_mm.checks import check_number, check_whole
from posenc_mm.positions.grids import normalised_grid


@dataclass(frozen=True)
class AugmentedGrid:
    r"""Makes the positions of a grid and, in training, moves and scales them all together.

    .. math:: p' = (p + s) \cdot e^{j} \cdot e^{r}, \quad s_a \sim U(-S, S), \;
        j_a \sim U(-\log J, \log J), \; r \sim U(-\log R, \log R)

    Every axis has its own shift and jitter; all share the rescaling. A model so trained reads
    pictures of other sizes and aspects. Draws come in the authors' order, shift, jitter, rescale,
    and only for what is given, so that one seed gives the numbers of their code.

    Nothing is drawn unless a call says ``training=True``: ``functools.partial(grid,
    training=True)`` is what to give to a host that does not say it.

    References:
        Siméoni et al.: DINOv3 (2025), https://arxiv.org/abs/2508.10104

    Args:
        grid: what makes the positions to start from, called as :func:`posenc_mm.grid` is.
        shift: :math:`S`, in the units of the positions; None for none.
        jitter: :math:`J`, at least 1; None for none.
        rescale: :math:`R`, at least 1; None for none.

    Shape:
        ``(*sizes) -> (N, A)``, or ``(B, N, A)`` with ``samples=B``

    Raises:
        ValueError: ``shift`` is negative, or ``jitter`` or ``rescale`` below 1; at the call,
            ``samples`` or ``generator`` is given without ``training``.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> augmented = AugmentedGrid(rescale=2.0)
        >>> augmented(1, 2)[:, 1].tolist()
        [-0.5, 0.5]
        >>> augmented(1, 2, training=True, samples=3)[..., 1].abs().unique().shape
        torch.Size([3])
    """

    grid: Callable[..., Tensor] = normalised_grid
    shift: float | None = None
    jitter: float | None = None
    rescale: float | None = None

    def __post_init__(self) -> None:
        if self.shift is not None:
            check_number(shift=self.shift)
        for name in ("jitter", "rescale"):
            if getattr(self, name) is not None:
                check_number(1.0, **{name: getattr(self, name)})

    def __call__(
        self,
        *sizes: int,
        device: torch.device | str | None = None,
        training: bool = False,
        samples: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Make the positions of a grid.

        Args:
            sizes: cells per axis.
            device: where the result lives.
            training: whether to draw; the plain positions otherwise.
            samples: number of draws :math:`B`, one per sample; one for the whole batch unless
                given.
            generator: of the draws, on ``device``; torch's global one unless given.

        Returns:
            ``(N, A)``, or ``(B, N, A)`` with ``samples``.
        """
        points = self.grid(*sizes, device=device)
        if not training:
            if samples is not None or generator is not None:
                raise ValueError(
                    f"samples and generator are of the draws of training: say training=True, got "
                    f"samples={samples} and generator={generator}"
                )
            return points
        if samples is not None:
            check_whole(samples=samples)
        points = points if points.is_floating_point() else points.float()

        def draw(reach: float, width: int) -> Tensor:
            shape = (width,) if samples is None else (samples, 1, width)
            return points.new_empty(shape).uniform_(-reach, reach, generator=generator)

        axes = points.shape[-1]
        if self.shift is not None:
            points = points + draw(self.shift, axes)
        if self.jitter is not None:
            points = points * draw(math.log(self.jitter), axes).exp()
        if self.rescale is not None:
            points = points * draw(math.log(self.rescale), 1).exp()
        return points
