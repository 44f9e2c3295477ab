"""When the tokens of a block are: given times, or steps at a rate, or steps that are counted."""

from collections.abc import Sequence
from numbers import Integral
from typing import NamedTuple, SupportsFloat, TypeAlias

import torch
from torch import Tensor

from posenc_mm.checks import check_number, check_whole

Times: TypeAlias = Sequence[SupportsFloat] | Tensor | int | None


class Ticks(NamedTuple):
    """When steps are: ``ticks (T,)`` at a ``rate`` per second.

    A rate keeps ids that are whole numbers whole: at 13 ids and 13 tokens a second each token is
    one id, which thirteenths of a second would miss by rounding. Without a rate steps are counted,
    and nothing says how long one takes.
    """

    ticks: Tensor
    rate: float | None


def seconds(name: str, times: object) -> Tensor:
    """Make float64 of times, and refuse what cannot hold them.

    Args:
        name: what the caller knows them by.
        times: ``(T,)`` numbers.

    Returns:
        ``(T,)`` in float64, on the CPU.

    Raises:
        ValueError: another shape, numbers that are not finite, or half precision, in which times
            were rounded before they came.
    """
    if isinstance(times, Tensor) and times.is_floating_point() and times.element_size() < 4:
        raise ValueError(
            f"{name} must come in float32, float64 or integers, got {times.dtype}, which has "
            f"rounded them already"
        )
    try:
        # Straight to float64: a list of Python floats would otherwise pass through float32.
        if not isinstance(times, Tensor):
            times = torch.as_tensor(times, dtype=torch.float64, device="cpu")
        values = times.detach().to("cpu", torch.float64, copy=True)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} must be numbers, got {times!r}") from error
    if values.ndim != 1 or not bool(values.isfinite().all()):
        raise ValueError(f"{name} must be a sequence of finite numbers, got {times!r}")
    return values


def settled(
    times: Times, named: str, count: int | None, paced: str, rate: float | None, start: float
) -> tuple[Tensor | None, int | None]:
    """Sort out times and a count, of which a caller gives one.

    Args:
        times: given times, or the count itself.
        named: what the caller knows the count by.
        count: number of steps.
        paced: what the caller knows the rate by.
        rate: steps per second.
        start: seconds at the first step.

    Returns:
        The times and the count, one of them None.

    Raises:
        ValueError: neither or both are given, a rate or start comes with times or a start without
            a rate, or numbers are not as said.
    """
    if isinstance(times, Integral) and not isinstance(times, bool) and count is None:
        times, count = None, int(times)
    if (times is None) == (count is None):
        raise ValueError(
            f"either times or {named} must be given, got times={times!r} and {named}={count}"
        )
    if rate is not None:
        check_number(above=True, **{paced: rate})
    check_number(-float("inf"), start=start)
    if count is not None:
        check_whole(0, **{named: count})
        if start and rate is None:
            raise ValueError(f"start is in seconds and needs {paced}, got start={start}")
        return None, count
    if rate is not None or start:
        raise ValueError(
            f"{paced} and start follow from times: leave them out, got {paced}={rate} and "
            f"start={start}"
        )
    return seconds("times", times), None


def ticks_of(
    times: Times, count: int | None, rate: float | None, patch: int, start: float
) -> Ticks:
    """Say when steps are, from what :func:`settled` left.

    Args:
        times: seconds ``(T,)``, or None.
        count: number of frames, if counted.
        rate: frames per second, if known.
        patch: frames in a step.
        start: seconds at the first frame.

    Returns:
        One tick per step.
    """
    if isinstance(times, Tensor):
        return Ticks(times, 1.0)
    steps = torch.arange(-(-(count or 0) // patch), dtype=torch.float64, device="cpu")
    if rate is None:
        return Ticks(steps, None)
    return Ticks(steps + start * rate / patch, rate / patch)
