"""What the applications' results say, row by row, as values of one form."""

from collections.abc import Callable
from typing import Any, NamedTuple

Row, Facts = dict[str, str], dict[str, Any]


class Value(NamedTuple):
    """What one run came to under one condition.

    Attributes:
        encoding: its name in the application.
        condition: under which it was tested.
        setting: what kind of condition that is: as ``trained``, ``longer``, ``larger``, other
            ``rates``, more ``lost``.
        seed: empty if nothing is random.
        value: None where it cannot be tested; of several of one seed, their mean counts.
        parameters: of the model, if known.
        asked: how many tests a share is of, if it is one.
    """

    encoding: str
    condition: str
    setting: str
    seed: str
    value: float | None
    parameters: int | None = None
    asked: int | None = None


def sizes(row: Row, run: Facts) -> list[Value]:
    """Read a row of ``python -m vision compare``."""
    setting = "trained" if int(row["size"]) == run["train_size"] else "larger"
    return [
        Value(row["encoding"], f"{row['size']} px", setting, row["seed"], float(row["accuracy"]),
              int(row["parameters"]), run["test_images"])
    ]  # fmt: skip


def lengths(row: Row, run: Facts) -> list[Value]:
    """Read a row of ``python -m text compare``."""
    setting = "trained" if int(row["length"]) == run["train_length"] else "longer"
    return [
        Value(row["encoding"], row["length"], setting, row["seed"], _number(row["bits_per_byte"]),
              int(row["parameters"]))
    ]  # fmt: skip


def keys_found(row: Row, run: Facts) -> list[Value]:
    """Read a row of ``python -m text probe``, one of several depths."""
    setting = "trained" if int(row["length"]) == run["train_length"] else "longer"
    asked = run["samples"] * len(run["depths"])
    return [
        Value(row["encoding"], row["length"], setting, row["seed"], _number(row["accuracy"]),
              run["parameters"], asked)
    ]  # fmt: skip


def lookbacks(row: Row, run: Facts) -> list[Value]:
    """Read a row of ``python -m timeseries compare``; what is not trained has no seed."""
    shortest = min(int(lookback) for one in run["results"] for lookback in one["scores"])
    setting = "trained" if int(row["lookback"]) == shortest else "longer"
    seed = row["seed"] if row["trained"] == "True" else ""
    return [
        Value(row["forecast"], f"L={row['lookback']}", setting, seed, float(row["mse"]),
              int(row["parameters"]))
    ]  # fmt: skip


def designs(kind: str) -> Callable[[Row, Facts], list[Value]]:
    """Read rows of ``python -m multimodal compare`` that are of one kind of question."""

    def read(row: Row, run: Facts) -> list[Value]:
        if row["kind"] != kind:
            return []
        settings = {"frames/s": "rates", "dropped": "lost", "words": "longer"}
        setting = settings.get(row["condition"].split()[-1], "trained")
        return [
            Value(row["design"], row["condition"], setting, row["seed"], float(row["accuracy"]),
                  run.get("parameters"), int(row["asked"]))
        ]  # fmt: skip

    return read


def _number(cell: str) -> float | None:
    return float(cell) if cell else None
