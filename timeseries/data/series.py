"""Series, as they are handed on from whatever they were read from."""

from typing import NamedTuple

from torch import Tensor

from posenc_mm.timestamps import TimeAxis


class Series(NamedTuple):
    """One series: a row per stamp, in the order of time.

    Attributes:
        name: what tells it from others.
        axis: the moments of its rows.
        values: ``(T, V)`` what is to be forecast, float64.
        known: ``(T, F)`` covariates that are known in advance, float64.
        columns: names of the values.
        known_columns: names of the covariates.
    """

    name: str
    axis: TimeAxis
    values: Tensor
    known: Tensor
    columns: tuple[str, ...]
    known_columns: tuple[str, ...]

    def part(self, start: int, end: int) -> "Series":
        """Rows from ``start`` up to ``end``."""
        rows = slice(start, end)
        return self._replace(axis=self.axis[rows], values=self.values[rows], known=self.known[rows])


class Reading(NamedTuple):
    """What a table holds.

    Attributes:
        series: one, or one per group.
        notes: what was found out or done about it, for people.
    """

    series: list[Series]
    notes: list[str]
