"""The command ``plot``: a picture of anything that has a name, written to a file."""

import argparse
import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from posenc_mm.catalogue.finding import Entry, find

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROGRAM = "python -m posenc_mm plot"
PICTURES = ("heatmap", "similarity", "decay", "plane", "bias", "wavelengths", "seasons", "stream")
_SPECIAL = ("overview", "seasons", "streams")
_EPILOG = """\
names:
  any that "python -m posenc_mm list" shows, in upper or lower case; or one line of Python;
  overview   eight pictures in one
  seasons    a year on the clocks of a zone (--zone Europe/London --year 2024)
  streams    where text, an image, a video and a sound are (one design: its name, as mrope_i)

for instance:
  python -m posenc_mm plot Sinusoidal --dim 128
  python -m posenc_mm plot Learned --sizes 14 14 --picture similarity --theme dark
  python -m posenc_mm plot Rotary --head_dim 128 --scaling "YaRN(4.0, 4096)"
  python -m posenc_mm plot "BiasSum([ALiBi(8), T5Bias(8)])" --out both.svg

python -m posenc_mm plot NAME --help lists the arguments of one.
"""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``plot``.

    Args:
        commands: what ``ArgumentParser.add_subparsers`` returned.
    """
    shown = commands.add_parser(
        "plot",
        help="a picture of an encoding, a preset, a scaling or a position design",
        usage=f"{PROGRAM} NAME [options]",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    shown.add_argument("name", metavar="NAME", help="what to draw")
    options = shown.add_argument(
        "options", nargs=argparse.REMAINDER, help="for it, and for the picture"
    )
    options.required = False  # before Python 3.13 a remainder is said to be missing
    shown.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Draw, write, and say where the picture is.

    Args:
        arguments: as parsed: ``name`` and the ``options`` behind it.

    Raises:
        ValueError: matplotlib is missing, nothing has that name, an argument or a picture does not
            fit, memory does not suffice, or the file cannot be written.
    """
    if find_spec("matplotlib") is None:
        raise ValueError('plot needs matplotlib: pip install "posenc_mm[plot]"')
    name = arguments.name
    entry = None if name.casefold() in _SPECIAL or "(" in name else _one(name)
    asked, unknown = _parser(name, entry).parse_known_args(arguments.options)
    if unknown:
        raise ValueError(_unknown(name, entry, unknown, asked))
    try:
        made, told, stem = _drawn(name, entry, asked)
        path = _path(asked.out, stem)
        path.parent.mkdir(parents=True, exist_ok=True)
        more: dict[str, Any] = {"pil_kwargs": {"optimize": True}} if path.suffix == ".png" else {}
        made.savefig(path, **more)
        if stem == "overview" and more:
            _fewer_colours(path)
    except OSError as wrong:
        raise ValueError(f"the picture cannot be written: {wrong}; give another --out") from None
    except MemoryError as wrong:
        raise ValueError(f"too large to draw: {wrong}; give smaller sizes") from None
    print(told)
    print(f"The picture is at {path}")


def _fewer_colours(path: Path) -> None:
    """Keep five bits of each colour: of so many panels that saves a third of the bytes."""
    from matplotlib.image import imread, imsave

    drawn = (255 * imread(path)).round().astype("uint8")
    imsave(path, drawn & 0xF8 | drawn >> 5, pil_kwargs={"optimize": True})


def _path(out: str | None, stem: str) -> Path:
    """Where the picture is to be: matplotlib adds a suffix without a word."""
    path = Path(out or f"{stem}.png")
    if path.is_dir():
        return path / f"{stem}.png"
    return path if path.suffix else path.with_suffix(".png")


def _unknown(name: str, entry: Entry | None, words: list[str], asked: argparse.Namespace) -> str:
    known = [f"--{key.removeprefix('own.')}" for key in vars(asked)]
    near = [flag for word in words for flag in difflib.get_close_matches(word, known, n=2)]
    hint = f"; near: {', '.join(dict.fromkeys(near))}" if near else ""
    called = entry.name if entry else repr(name)
    return f"unrecognized arguments: {' '.join(words)}{hint}. {PROGRAM} {called} --help lists all"


def _one(name: str) -> Entry:
    found = find(name)
    if len(found) > 1:
        raise ValueError(
            f"{len(found)} have the name {name}, say which: "
            f"{', '.join(each.full_name for each in found)}"
        )
    return found[0]


def _parser(name: str, entry: Entry | None) -> argparse.ArgumentParser:
    called = f"{PROGRAM} {entry.name if entry else repr(name)}"
    made = argparse.ArgumentParser(prog=called, usage=f"{called} [options]", allow_abbrev=False)
    shown = made.add_argument_group("picture")
    shown.add_argument("--picture", choices=PICTURES, help="the most telling one unless given")
    shown.add_argument("--out", help="file; its suffix says the format; NAME.png unless given")
    shown.add_argument("--theme", default="light", choices=("light", "dark"))
    shown.add_argument("--trained", type=float, help="length that a model was trained on")
    shown.add_argument("--wanted", type=float, help="length that it is to read")
    where = made.add_argument_group("positions")
    where.add_argument("--length", type=int, help="tokens on one axis; 128 unless given")
    where.add_argument("--size", type=int, nargs="+", help="cells of a grid, such as 14 14")
    where.add_argument("--since", default="2024-01-01", help="first moment, in UTC")
    where.add_argument("--every", default="1h", help="from one moment to the next")
    where.add_argument("--year", type=int, default=2024, help="of seasons")
    if name.casefold() == "seasons":
        where.add_argument("--zone", default="Europe/London", help="whose clocks")
    if entry is not None:
        own = made.add_argument_group(f"arguments of {entry.name}, as in Python")
        for each in inspect.signature(entry.target).parameters.values():
            flags = dict.fromkeys((f"--{each.name}", f"--{each.name.replace('_', '-')}"))
            if each.name not in ("size", "length"):
                default = "" if each.default is each.empty else f"{each.default!r} unless given"
                own.add_argument(
                    *flags, nargs="*", metavar="VALUE", dest=f"own.{each.name}",
                    help=default.replace("%", "%%"),
                )  # fmt: skip
    return made


def _drawn(name: str, entry: Entry | None, asked: argparse.Namespace) -> tuple["Figure", str, str]:
    """The figure, what to say about it, and a name for its file."""
    from posenc_mm import plots
    from posenc_mm.plots import fitting, words

    special = name.casefold()
    if special in ("overview", "seasons") and asked.picture not in (None, special):
        raise ValueError(f"{special} is a picture itself, got --picture {asked.picture}")
    if special == "overview":
        return plots.overview(theme=asked.theme), "Eight pictures of encodings", special
    if special == "seasons":
        told = f"The clocks of {asked.zone} in {asked.year}"
        return plots.seasons(asked.zone, asked.year, theme=asked.theme), told, special
    if special == "streams":
        from posenc_mm.streams import Layout

        made: Any = Layout()
    elif entry is None:
        made = words.expression(name)
        if isinstance(made, str):
            raise ValueError(f"NAME must be a name or one line of Python, got {name!r}")
    else:
        made = fitting.make(entry, _given(entry, asked, words.value))
    stem = entry.name if entry else special if special == "streams" else type(made).__name__
    subject = fitting.subject(made, asked.length, asked.size, asked.since, asked.every)
    fits = fitting.pictures(subject.made)
    if asked.picture is not None and asked.picture not in fits:
        raise ValueError(
            f"picture must be one that fits {stem}: {', '.join(fits)}, got {asked.picture}"
        )
    picture = asked.picture or _telling(stem, fits, asked)
    others = [each for each in fits if each != picture]
    told = f"{picture} of {stem if picture == 'stream' else _short(subject.made)}"
    if isinstance(subject.made, nn.Module) and any(True for _ in subject.made.parameters()):
        told += "\nUntrained: what it learns is as it starts"
    told += f"\nOther pictures of it: {', '.join(others)} (--picture)" if others else ""
    return _picture(picture, subject, asked, entry), told, stem


def _telling(stem: str, fits: Sequence[str], asked: argparse.Namespace) -> str:
    """The most telling picture, or that of lengths if there are any."""
    if asked.trained is None and asked.wanted is None:
        return fits[0]
    if "wavelengths" not in fits:
        raise ValueError(f"trained and wanted are for wavelengths, of which {stem} has none")
    return "wavelengths"


def _given(entry: Entry, asked: argparse.Namespace, read: Any) -> dict[str, Any]:
    said = {key: words for key, words in vars(asked).items() if key.startswith("own.")}
    given = {key[4:]: read(words) for key, words in said.items() if words is not None}
    parameters: Mapping[str, Any] = inspect.signature(entry.target).parameters
    for name, value in tuple(given.items()):
        kind = str(parameters[name].annotation)
        if isinstance(value, str) and "Sequence[str]" in kind and "str |" not in kind:
            given[name] = [value]  # one word, where words are wanted
    if "size" in parameters and asked.size:
        given["size"] = asked.size[0] if len(asked.size) == 1 else asked.size
    if "length" in parameters and asked.length and "scaling" in given:
        given["length"] = asked.length
    return given


def _picture(
    picture: str, subject: Any, asked: argparse.Namespace, entry: Entry | None
) -> "Figure":
    from posenc_mm import plots

    draw: Callable[..., Figure] = getattr(plots, picture)
    if picture == "stream":
        title = {"title": f"{entry.name}: where the tokens of a stream are"} if entry else {}
        return draw(subject.made, **title, theme=asked.theme)
    if picture == "wavelengths":
        ends = {"trained": asked.trained, "wanted": asked.wanted}
        return draw(subject.made, **ends, theme=asked.theme)
    if picture == "seasons":
        return draw(subject.made, asked.year, theme=asked.theme)
    positions = subject.positions
    if picture == "plane":
        # Along all axes at once: every pair turns.
        one = positions[:, :1] if positions.shape[1] == 1 else positions[:, -1:].unique(dim=0)
        positions = one[:24].expand(-1, positions.shape[1])
    more = {"size": subject.size} if picture == "similarity" else {}
    return draw(subject.made, positions, **more, theme=asked.theme)


def _short(made: Any) -> str:
    said: Sequence[str] = repr(made).splitlines()
    whole = said[0] + " ... )" if len(said) > 1 else said[0]
    return whole if len(whole) <= 200 else f"{whole[:196]} ..."
