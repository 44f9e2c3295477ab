"""What a config leaves open in its encodings, and the data and the network settle."""

import importlib
import json
import logging
from collections.abc import Iterator
from functools import lru_cache
from inspect import signature
from typing import Any

import torch
from jsonargparse import Namespace
from lightning.pytorch.utilities import rank_zero_info

from posenc_mm import tape
from posenc_mm.checks import check_whole
from posenc_mm.timestamps.seasons import find_seasons
from timeseries.building import SLOTS
from timeseries.data import Forecasting
from timeseries.networks import NETWORKS, Patches

# What positions are along each axis of the clock "both".
AXES = ("time", "row")


def read(data: Namespace | None) -> Forecasting:
    """Read the series that a config names, once: lengths, columns, step, span and zone of them.

    Args:
        data: ``class_path`` and ``init_args`` of a data module.

    Returns:
        The data module.

    Raises:
        ValueError: the data cannot be used so; it says why.
        FileNotFoundError: there are none.
    """
    if data is None:
        raise ValueError("data must be named: -c configs/timeseries/etth1.yaml, or --data=ETT")
    given = data.get("init_args", Namespace()).as_dict()
    module, _, name = data.class_path.rpartition(".")
    cls = getattr(importlib.import_module(module), name)
    for wanted in signature(cls).parameters.values():
        if wanted.default is wanted.empty and given.get(wanted.name, ()) is None:
            raise ValueError(f"--data.{wanted.name} must be given for {name}")
    return _read(cls, json.dumps(given, sort_keys=True, default=str))


def fill(model: Namespace, data: Forecasting) -> None:
    """Fill in what the encodings of a model, and their parts, leave open, in place.

    Widths are those of the network, tables have an entry per row or token, and a step is the time
    or the rows between two tokens, or for seasons between two samples. ``zone: auto`` is the zone
    of the data, a period called ``auto`` all seasons found in its training rows with at most so
    many harmonics each, and no frequencies, ``[]``, are those of tAPE.

    Args:
        model: arguments of a :class:`timeseries.module.Forecaster`, slots as descriptions.
        data: what is to be forecast.
    """
    widths, clocks = _settled(model.network, dict(model.network_args or {}), data)
    # Attention between columns has neither time nor rows.
    clock = "column" if model.network == "variates" else model.clock
    for part, own in (found for slot in SLOTS for found in _parts(model.get(slot), clock)):
        init, settled = part.init_args, {**widths, **clocks.get(own, {})}
        if part.class_path.endswith(".Seasonal"):
            settled["step"] = data.step
        for name, value in settled.items():
            if name in init and init[name] is None:
                init[name] = value
        if init.get("zone") == "auto":
            init.zone = data.zone or "UTC"
        if init.get("frequencies") == [] and "sizes" in settled:
            init.frequencies = [list(tape(init.dim // 2, settled["sizes"]))]
        if isinstance(init.get("periods"), dict) and "auto" in init.periods:
            init.periods = _with_seasons(init.periods, data)


def _settled(
    network: str, arguments: dict[str, Any], data: Forecasting
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Arguments of encodings by name: in any case, and by what positions are."""
    # A linear network has no width: that of patches is taken.
    classes = [cls for cls in (Patches, NETWORKS.get(network)) if cls is not None]
    parameters = [one for cls in classes for one in signature(cls).parameters.values()]
    given = {one.name: one.default for one in parameters} | arguments
    patch, stride = given["patch"], given["stride"] or given["patch"]
    check_whole(patch=patch, stride=stride, dim=given["dim"], heads=given["heads"])
    ahead = -(-data.horizon // patch)
    rows, before = data.lookback + ahead * patch, (data.lookback - patch) // stride + 1
    tokens, step, last = before + ahead, data.step * patch, data.lookback + data.horizon - 1
    years = torch.cat([one.axis[[0, -1]].fields("year") for one in data.series])
    widths = {
        "dim": given["dim"],
        "heads": given["heads"],
        "head_dim": given["dim"] // given["heads"],
        # Horizons may end in the next year, tokens of yearly rows even later.
        "years": (int(years.min()), int(years.max()) + 1 + int(patch * data.step / 31_536_000)),
    }
    return widths, {
        "time": {"step": step, "span": max(data.span, 2 * step)},
        "row": {"step": patch, "span": max(last, 2 * patch), "context": data.lookback}
        | dict.fromkeys(("sizes", "size"), rows),
        "token": {"step": 1, "span": tokens, "context": before}
        | dict.fromkeys(("sizes", "size"), tokens),
    }


def _parts(slot: Any, clock: str) -> Iterator[tuple[Namespace, str]]:
    """An encoding and all that it is made of, each with what its positions are."""
    if not isinstance(slot, Namespace) or slot.get("init_args") is None:
        return
    yield slot, clock
    axes = slot.init_args.get("axes")
    for value in list(vars(slot.init_args).values()):
        parts = value if isinstance(value, list) else [value]
        for row, part in enumerate(parts):
            own = axes[row] if isinstance(axes, list) and len(axes) == len(parts) else None
            alone = clock == "both" and isinstance(own, list) and len(own) == 1
            yield from _parts(part, AXES[own[0]] if alone else clock)


def _with_seasons(periods: dict[str | float, int], data: Forecasting) -> dict[str | float, int]:
    first, end, most = data.series[0], data.borders[0].train, periods["auto"]
    named = {name: count for name, count in periods.items() if name != "auto"}
    found = find_seasons(first.values[:end], first.axis[:end])
    for season in found:
        rank_zero_info(
            f"season in the training rows: {season.period}, strength {season.strength:.2f}, "
            f"confidence {season.confidence:.2f}: {season.evidence}"
        )
    if not named and not found:
        rank_zero_info("no season is clear of noise in the training rows: the year is taken")
        named["year"] = 1
    return {season.period: min(most, season.harmonics) for season in found} | named


@lru_cache(maxsize=4)
def _read(cls: type[Forecasting], arguments: str) -> Forecasting:
    data = cls(**json.loads(arguments))
    logger = logging.getLogger("lightning.pytorch.utilities.rank_zero")
    level = logger.level
    logger.setLevel(logging.WARNING)  # what is read here is described by who trains on it
    try:
        data.prepare_data()
        data.setup()
    finally:
        logger.setLevel(level)
    return data
