"""Linear networks solved for, not trained: ridge regression over all windows in one pass."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import Dataset

from timeseries.data.windows import Batch
from timeseries.networks.linear import Linear

PENALTIES = tuple(10.0 ** (half / 2) for half in range(-2, 11))
# Windows at a time, and how many numbers they may be: 128 MB of them.
_ROWS, _NUMBERS = 4096, 2**24


class Moments(NamedTuple):
    """Sums over windows and columns, in float64.

    Attributes:
        seen: ``(L + 1, L + 1)`` of what was seen with itself.
        cross: ``(H, L + 1, E)`` of what was seen with the encodings of each future row.
        future: ``(H, E, E)`` of the encodings with themselves.
        seen_target: ``(H, L + 1)`` of what was seen with the targets.
        future_target: ``(H, E)`` of the encodings with the targets.
        target: ``()`` of the squared targets.
        count: ``()`` how many targets there are.
    """

    seen: Tensor
    cross: Tensor
    future: Tensor
    seen_target: Tensor
    future_target: Tensor
    target: Tensor
    count: Tensor


class Solved(NamedTuple):
    """What was chosen.

    Attributes:
        penalty: of the squared weights.
        mse: mean squared error over the windows of validation, per penalty tried.
    """

    penalty: float
    mse: dict[float, float]


def solve(
    network: Linear,
    train: Dataset,
    val: Dataset,
    *,
    penalties: Iterable[float] = PENALTIES,
    tell: Callable[[float], None] | None = None,
) -> Solved:
    r"""Find the weights that minimise the penalised squared error.

    .. math:: \min_{w, u, b} \sum (y - \hat y)^2 + \lambda (\|w\|^2 + \|u\|^2 + b^2)

    Encodings differ from one future row to the next, what was seen does not: its part of the normal
    equations is inverted once per penalty, the rest by their Schur complement (Zhang, 2005,
    https://doi.org/10.1007/b105056).

    Args:
        network: whose weights are set.
        train: windows to minimise over.
        val: windows on which the penalty :math:`\lambda` is chosen.
        penalties: to choose from.
        tell: takes the share done, from 0 to 1.

    Returns:
        The penalty and the errors of all.
    """
    tell = tell or (lambda share: None)
    sums = sums_of(network, train, lambda share: tell(0.5 * share))
    held_out = sums_of(network, val, lambda share: tell(0.5 + 0.1 * share))
    penalties = tuple(penalties)
    errors: dict[float, float] = {}
    for tried, penalty in enumerate(penalties):
        errors[penalty] = error_of(held_out, *weights_of(sums, penalty))
        tell(0.6 + 0.4 * (tried + 1) / len(penalties))
    penalty = min(errors, key=lambda one: errors[one])
    look, read = weights_of(sums, penalty)
    with torch.no_grad():
        network.look.copy_(look)
        network.read.copy_(read)
    return Solved(penalty, errors)


def sums_of(network: Linear, windows: Dataset, tell: Callable[[float], None]) -> Moments:
    """Pass over all windows once: weights and errors follow from these sums alone."""
    length, steps, width = network.look.shape[0], *network.read.shape
    sums = Moments(
        *(
            torch.zeros(shape, dtype=torch.float64)
            for shape in (
                (length, length),
                (steps, length, width),
                (steps, width, width),
                (steps, length),
                (steps, width),
                (),
                (),
            )
        )
    )
    for batch, share in _batches(windows, network.shape.variates * length + steps * width):
        seen, future, target = _double(network, batch)
        flat = seen.flatten(0, 1)
        sums.seen.addmm_(flat.T, flat)
        sums.seen_target.addmm_(target.movedim(1, 2).flatten(0, 1).T, flat)
        by_row = future.movedim(1, 0)
        together = seen.sum(1)
        sums.cross.add_((together.T @ future.flatten(1)).unflatten(1, (steps, width)).movedim(1, 0))
        sums.future.baddbmm_(by_row.mT, by_row, alpha=seen.shape[1])
        sums.future_target.add_((by_row * target.sum(-1).T.unsqueeze(-1)).sum(1))
        sums.target.add_(target.square().sum())
        sums.count.add_(target.numel())
        tell(share)
    return sums


def weights_of(sums: Moments, penalty: float) -> tuple[Tensor, Tensor]:
    """Solve for ``look`` ``(L + 1, H)`` and ``read`` ``(H, E)``."""
    eye = torch.eye(len(sums.seen), dtype=torch.float64)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(sums.seen + penalty * eye))
    alone = sums.seen_target @ inverse
    if not sums.future_target.numel():
        return alone.T, sums.future_target
    through = inverse @ sums.cross
    width = sums.future.shape[-1]
    rest = sums.future + penalty * torch.eye(width, dtype=torch.float64)
    rest = rest - sums.cross.mT @ through
    target = sums.future_target - (sums.cross.mT @ alone.unsqueeze(-1)).squeeze(-1)
    read = torch.linalg.solve(rest, target)
    look = alone - (through @ read.unsqueeze(-1)).squeeze(-1)
    return look.T, read


def error_of(sums: Moments, look: Tensor, read: Tensor) -> float:
    """Mean squared error, from the sums alone."""
    targets = (look.T * sums.seen_target).sum() + (read * sums.future_target).sum()
    own = (look * (sums.seen @ look)).sum() + (
        read.unsqueeze(1) @ sums.future @ read.unsqueeze(-1)
    ).sum()
    mixed = (look.T.unsqueeze(1) @ sums.cross @ read.unsqueeze(-1)).sum()
    return float((sums.target - 2 * targets + own + 2 * mixed) / sums.count)


def _double(network: Linear, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """What forecasts are linear in, and what is left of the targets, in float64."""
    past = batch.past.double()
    seen, future = network.regressors(past, batch.moments, batch.known.double())
    return seen, future, batch.future.double() - past[:, -1:]


def _batches(windows: Dataset, numbers: int) -> Iterable[tuple[Batch, float]]:
    count = len(windows)  # type: ignore[arg-type]
    rows = max(1, min(_ROWS, _NUMBERS // numbers))
    for start in range(0, count, rows):
        end = min(start + rows, count)
        yield windows.__getitems__(list(range(start, end))), end / count  # type: ignore[attr-defined]
