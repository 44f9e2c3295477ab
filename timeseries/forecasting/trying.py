"""Which encodings to forecast with: each is tried on top of those that were kept before it."""

import argparse
from collections.abc import Sequence
from typing import NamedTuple

from posenc_mm.timestamps.zones import offsets_at
from timeseries.forecasting.choosing import Choice, Part
from timeseries.forecasting.fitting import PENALTIES, Fit, Sums, columns_of, fit
from timeseries.forecasting.preparing import Ready
from timeseries.forecasting.reading import Data, clock
from timeseries.forecasting.telling import Telling, listed

RIDGE = "ridge (lookback alone)"


class Tried(NamedTuple):
    """Regressions, each with one more encoding than those that were kept before it.

    Attributes:
        fits: all of them, the first without any.
        builds_on: the number of the one that each builds on.
        kept: whether each was kept.
        best: the number of the one to forecast with.
    """

    fits: list[Fit]
    builds_on: list[int]
    kept: list[bool]
    best: int


def other_clock(data: Data, ready: Ready, options: argparse.Namespace) -> str | None:
    """Other clocks to compare with: UTC, or those that values seem to go by."""
    if data.zone is None or ready.step > 86_400:
        return None
    if data.followed is not None:
        return data.followed
    moments = ready.split.train.moments
    offsets = offsets_at(moments.long(), clock(data.zone))
    changes = not isinstance(offsets, int) and bool((offsets != offsets[0]).any())
    return "UTC" if changes and options.tz is not None else None


def attempt(
    sums: Sums,
    ready: Ready,
    choice: Choice,
    others: Sequence[Part],
    other: str | None,
    options: argparse.Namespace,
) -> Tried:
    """Fit with one more encoding at a time, and keep it if it lowers the error on validation.

    Args:
        sums: of all columns.
        ready: windows.
        choice: encodings, and whether validation says which are kept.
        others: the same on other clocks.
        other: these clocks, None if there are none.
        options: of the command line.

    Returns:
        All regressions, and which is best.
    """
    columns, known = columns_of([*choice.parts, *others], ready.known_width)
    own, moved = columns[: len(choice.parts)], columns[len(choice.parts) :]
    fits, builds_on, kept, best = [fit(sums, RIDGE, [])], [0], [True], 0
    taken: list[int] = []
    if known:
        fits.append(fit(sums, f"+ known ({listed(ready.known_columns)})", known))
        builds_on, kept, best = [0, 0], [True, True], 1
    for row, part in enumerate(choice.parts):
        seen = [number for one in taken for number in own[one]] + own[row] + known
        tried = fit(sums, f"+ {part.name}", seen)
        builds_on.append(best)
        fits.append(tried)
        kept.append(not choice.auto or tried.val < fits[best].val)
        if kept[-1]:
            best, taken = len(fits) - 1, [*taken, row]
    if other is not None and taken:
        seen = [number for one in taken for number in moved[one]] + known
        tried = fit(sums, f"the same on clocks of {other}", seen)
        builds_on.append(best)
        fits.append(tried)
        # Clocks that were asked for are not given up for others.
        kept.append(choice.auto and options.tz is None and tried.val < fits[best].val)
        best = len(fits) - 1 if kept[-1] else best
    return Tried(fits, builds_on, kept, best)


def described(tried: Tried, choice: Choice, options: argparse.Namespace) -> str:
    """Name the model by all that it sees."""
    names, row = [], tried.best
    while row:
        names.append(tried.fits[row].name.removeprefix("+ "))
        row = tried.builds_on[row]
    ridge = " + ".join(["ridge", *reversed(names)]) if names else RIDGE
    if options.network == "linear":
        return ridge
    return " + ".join(["patches", *choice.attention]) + f" beside {ridge}"


def tell_choice(model: str, best: Fit, choice: Choice, other: str | None, telling: Telling) -> None:
    """Tell which encodings were kept."""
    why = "each of its encodings lowered the error on validation" if choice.auto else "as asked"
    if choice.auto and best.name == RIDGE:
        why = "no encoding lowered the error on validation" if choice.parts else "no encodings"
    if other is not None and best.name.endswith(f"clocks of {other}"):
        telling.decide(
            "clocks of encodings", other, "values go by them: the error on validation is lower",
            f"--tz UTC keeps UTC, --tz {other} has stamps on them too",
        )  # fmt: skip
    telling.decide("model", model, why, "--encodings, --network")
    telling.decide("penalty", f"{best.penalty:g}", f"best on validation of {len(PENALTIES)}")
