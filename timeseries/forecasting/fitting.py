"""Ridge regressions over all windows, one per set of encodings, from one pass over the data."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from posenc_mm import AdditiveEncoding
from timeseries.data import Split
from timeseries.forecasting.choosing import Part, features
from timeseries.forecasting.preparing import Ready
from timeseries.networks import Linear, Shape
from timeseries.ridge import Moments, error_of, sums_of, weights_of

# The largest leave nothing but the last value seen: a walk that no one can tell the way of.
PENALTIES = tuple(10.0**power for power in range(-1, 10))
# Multiplications of a pass over all windows that take a quarter of a minute on one core.
_AFFORDABLE = 1e11


class Fit(NamedTuple):
    """One regression.

    Attributes:
        name: for people.
        columns: of all encodings of future rows, those that it sees.
        penalty: chosen on the windows of validation.
        val: mean squared error on these.
        test: on those of the test.
        look: ``(L + 1, H)`` weights of what was seen.
        read: ``(H, E)`` weights of the columns.
    """

    name: str
    columns: list[int]
    penalty: float
    val: float
    test: float
    look: Tensor
    read: Tensor


class Sums(NamedTuple):
    """Sums over the windows of each split."""

    train: Moments
    val: Moments
    test: Moments


class Tabled(AdditiveEncoding):
    """An encoding that has been evaluated at every row of the data, once.

    Args:
        encoding: of moments, with nothing to learn.
        split: windows of these rows.
    """

    def __init__(self, encoding: AdditiveEncoding, split: Split) -> None:
        super().__init__()
        self.encoding, self.dim = encoding, encoding.dim
        self.at = torch.cat([windows.moments for windows in split]).unique()
        with torch.inference_mode():
            self.table = encoding(self.at.unsqueeze(-1))

    def forward(self, positions: Tensor) -> Tensor:
        moments = positions[..., 0].contiguous()
        rows = torch.searchsorted(self.at, moments).clamp(max=len(self.at) - 1)
        if not torch.equal(self.at[rows], moments):
            return self.encoding(positions)
        return self.table[rows]


def network_of(ready: Ready, parts: Sequence[Part]) -> Linear:
    """A linear network that all encodings of all regressions are in, side by side."""
    shape = Shape(ready.lookback, ready.horizon, ready.variates, ready.known_width)
    encoding = features(parts)
    return Linear(shape, None if encoding is None else Tabled(encoding, ready.split))


def stride_of(ready: Ready, width: int) -> int:
    """Rows from one window of training to the next, such that a pass takes seconds."""
    seen = (ready.lookback + 1) * (ready.lookback + 1) * ready.variates
    work = seen + ready.horizon * width * (ready.lookback + 1 + width)
    return max(1, round(len(ready.split.train) * work / _AFFORDABLE))


def measure(ready: Ready, network: Linear, stride: int, tell: Callable[[float], None]) -> Sums:
    """Pass over all windows once.

    Args:
        ready: windows of each split.
        network: with all encodings that any regression sees.
        stride: rows from one window of training to the next.
        tell: takes the share done.

    Returns:
        Sums that all regressions follow from.
    """
    split = ready.split
    counts = [len(split.train) // stride, len(split.val), len(split.test)]
    parts, done = [], 0
    for windows, count in zip(split, counts, strict=True):
        thinned = windows.thinned(stride if windows is split.train else 1)
        before, share = done / sum(counts), count / sum(counts)

        def told(part: float, before: float = before, share: float = share) -> None:
            tell(before + share * part)

        parts.append(sums_of(network, thinned, told))
        done += count
    # Fewer windows count for all, so that penalties weigh as much, and the rows of each split.
    parts[0] = Moments(*(stride * part for part in parts[0]))
    return Sums(*parts)


def fit(sums: Sums, name: str, columns: Sequence[int]) -> Fit:
    """Solve for the weights with every penalty, and keep those that are best on validation.

    Args:
        sums: of all columns.
        name: for people.
        columns: that the regression sees.

    Returns:
        Weights that have not seen the test.
    """
    train, val, test = (_only(part, list(columns)) for part in sums)
    errors = {one: error_of(val, *weights_of(train, one)) for one in PENALTIES}
    penalty = min(PENALTIES, key=lambda one: errors[one])
    weights = weights_of(train, penalty)
    error = error_of(test, *weights)
    return Fit(name, list(columns), penalty, errors[penalty], error, *weights)


def refit(sums: Sums, fitted: Fit) -> Fit:
    """Solve again with the penalty that was chosen, on the windows of all splits."""
    together = Moments(*(sum(parts[1:], parts[0]) for parts in zip(*sums, strict=True)))
    look, read = weights_of(_only(together, fitted.columns), fitted.penalty)
    return fitted._replace(look=look, read=read)


def columns_of(parts: Sequence[Part], known: int) -> tuple[list[list[int]], list[int]]:
    """Number the columns of each part, and those of what is known in advance, which come last."""
    ends = [0]
    for part in parts:
        ends.append(ends[-1] + part.encoding.dim)
    own = [list(range(start, end)) for start, end in zip(ends, ends[1:], strict=False)]
    return own, list(range(ends[-1], ends[-1] + known))


def _only(sums: Moments, columns: list[int]) -> Moments:
    return sums._replace(
        cross=sums.cross[:, :, columns],
        future=sums.future[:, columns][:, :, columns],
        future_target=sums.future_target[:, columns],
    )
