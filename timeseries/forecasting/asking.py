"""What is asked for on the command line, and what to say where the data need a decision."""

import argparse
import re
from pathlib import Path

from posenc_mm.timestamps import frequency_of, holiday_dates, zone_of

DESCRIPTION = """Forecast any table of CSV or Parquet: looks at it as a careful person would,
compares the forecasts with what needs no model on every window of the last rows, says what each
encoding of time bought, and writes forecast.csv, forecast.png and report.json. Every decision is
printed with the option that changes it. Finished stages are kept in --out: the same command goes on
where it stopped. Exit codes: 0 all is well, 2 the data need a decision, 1 they cannot be used."""
# How the readers' options are called here, and whether naming one is all that is missing.
_OPTIONS = (
    (r"Say which by day_first=true or day_first=false", "Say which: --day-first or --month-first"),
    (r"fill them, or say interpolate=true", "fill them, or say --fill for straight lines"),
    (r"say group='([^']*)'", r"say --group '\1'"),
    (r"name it by time=", "name it: --time COLUMN"),
    (r"leave tz out", "leave --tz out"),
    (r"say tz= to keep", "say --tz ZONE to keep"),
    (r"tz='([^']*)'", r"--tz \1"),
    (r"state freq\b", "state --freq"),
    (r"\bregion='([^']*)'", r"\1"),
    (r"\bfreq='([^']*)'", r"\1"),
)  # fmt: skip
_DECISIONS = 5
_NAMES = {
    **{"targets": "--target", "region": "--holidays"},
    **{name: f"--{name}" for name in ("known", "group", "time", "tz", "freq")},
}


class UndecidedError(Exception):
    """The data may be meant in several ways, or lack something: an option decides."""


class UnusableError(Exception):
    """There is nothing to forecast in the data, or not as was asked."""


def spoken(text: str) -> str:
    """Call options as the command line does."""
    for pattern, words in _OPTIONS:
        text = re.sub(pattern, words, text)
    return re.sub(rf"^({'|'.join(_NAMES)})(?= must)", lambda match: _NAMES[match[1]], text, count=1)


def refusal(error: Exception) -> Exception:
    """Say what a reader refused in the words of the command line, with the exit code it takes."""
    text = str(error)
    undecided = any(re.search(pattern, text) for pattern, _ in _OPTIONS[:_DECISIONS])
    return (UndecidedError if undecided else UnusableError)(spoken(text))


def parse(argv: list[str]) -> argparse.Namespace:
    """Read the command line, and refuse what no data could make right."""
    parser = _parser()
    options = parser.parse_args(_joined(argv))
    options.day_first = True if options.day_first else False if options.month_first else None
    if not 0.0 < options.level < 1.0:
        parser.error(f"--level must be between 0 and 1, got {options.level}")
    for name in ("horizon", "lookback", "epochs"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1, got {getattr(options, name)}")
    try:
        if options.tz is not None:
            zone_of(options.tz)
        if options.freq is not None:
            options.freq = frequency_of(options.freq)
        if options.holidays is not None:
            holiday_dates(options.holidays, 2020, 2020)
    except (ValueError, ImportError) as error:
        parser.error(spoken(str(error)))
    if options.out is None:
        stem = options.path.name.partition(".")[0]
        options.out = Path("runs") / "timeseries" / f"forecast-{stem}"
    return options


def _joined(argv: list[str]) -> list[str]:
    """Join what looks like an option and is a value, such as the zone -08:00."""
    words: list[str] = []
    for word in argv:
        if words and words[-1] in ("--tz", "--least") and re.match(r"-\d", word):
            words[-1] += f"={word}"
        else:
            words.append(word)
    return words


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m timeseries forecast",
        usage="python -m timeseries forecast DATA [options]; --help lists them",
        description=DESCRIPTION,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("path", type=Path, metavar="DATA", help="CSV (any delimiter, gzip or not) or Parquet")
    add("--time", nargs="+", metavar="COL", help="column(s) of stamps; found unless given")
    add(
        "--target",
        nargs="+",
        metavar="COL",
        help="what to forecast; all other columns of numbers unless given",
    )
    add("--known", nargs="+", metavar="COL", help="columns known in advance, see --future")
    add("--future", type=Path, metavar="FILE", help="table of the known columns for rows to come")
    add("--group", metavar="COL", help="column that tells series apart, one below the other")
    add("--only", nargs="+", metavar="NAME", help="of the group, these series alone")
    add("--horizon", type=int, metavar="H", help="rows to forecast; by the frequency unless given")
    add("--lookback", type=int, metavar="L", help="rows seen; by the frequency unless given")
    add("--tz", metavar="ZONE", help="whose clocks the stamps go by, e.g. Australia/Melbourne")
    add("--freq", help="step of the stamps, e.g. 30min or MS; found unless given")
    add("--holidays", metavar="REGION", help="public holidays, e.g. DE or AU-VIC")
    add(
        "--encodings",
        nargs="+",
        default=["auto"],
        metavar="NAME",
        help="auto, none, or any of: seasons, calendar, holidays; a period with harmonics or not, "
        "such as day, week:3, 12.42h:2; with --network patches also rope_time, alibi_time",
    )
    add(
        "--network",
        choices=("linear", "patches"),
        default="linear",
        help="linear is solved exactly in seconds (default); patches trains a transformer",
    )
    add("--epochs", type=int, default=10, help="of patches, at most; default: 10")
    add("--seed", type=int, default=0, help="of patches; default: 0")
    add("--level", type=float, default=0.9, help="of the intervals; default: 0.9")
    add(
        "--least",
        type=float,
        metavar="NUMBER",
        help="that values can be, where bounds end; 0 for counts unless given",
    )
    add("--fill", action="store_true", help="fill missing values along a line, however many")
    order = parser.add_mutually_exclusive_group()
    order.add_argument("--day-first", action="store_true", help="3/4/2024 is 3 April")
    order.add_argument("--month-first", action="store_true", help="3/4/2024 is March 4")
    add("--out", type=Path, metavar="DIR", help="default: runs/timeseries/forecast-DATA")
    add("--again", action="store_true", help="use no finished stage of before")
    return parser
