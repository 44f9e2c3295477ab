"""The studies that are shipped as evidence: where their numbers are, and what they do not say."""

from collections.abc import Callable
from typing import Any, NamedTuple

from benchmarks.evidence_values import Value, designs, keys_found, lengths, lookbacks, sizes

Place = tuple[str, str, str]


class Run(NamedTuple):
    """A comparison of an application.

    Attributes:
        study: its name.
        folder: of its results, in the folder of runs.
        file: the table that it goes to.
        data: what was learnt from.
        modality: of the data.
        subject: what was compared.
        times: of series, whether they are regular.
        metric: what was measured.
        better: ``"higher"`` or ``"lower"``.
        read: makes values of a row of results, and of one of the runs.
        what: it is.
        limits: what it does not say.
    """

    study: str
    folder: str
    file: str
    data: str
    modality: str
    subject: str
    times: str
    metric: str
    better: str
    read: Callable[[dict[str, str], dict[str, Any]], list[Value]]
    what: str
    limits: str


class Page(NamedTuple):
    """A table that a page of an application shows, below the command that made it.

    Attributes:
        study: its name; the fields up to ``better`` are those of a :class:`Run`.
        path: of the page.
        header: the first line of the table.
        place: gives encoding, condition and setting of a cell, from the header, the cells of its
            line and its number; None if it is no measurement.
        factor: on the numbers of the page.
        seeds: of the numbers without a spread; 0 if nothing is random.
        repeats: seeds of those with one.
        baselines: names that are no encodings.
        what: it is.
        limits: what it does not say.
    """

    study: str
    path: str
    header: str
    file: str
    data: str
    modality: str
    subject: str
    times: str
    metric: str
    better: str
    place: Callable[[list[str], list[str], int], Place | None]
    factor: float
    seeds: int
    repeats: int
    baselines: tuple[str, ...]
    what: str
    limits: str


def _by_size(trained: str, other: str) -> Callable[[list[str], list[str], int], Place | None]:
    """Cells below sizes, one way a line."""

    def place(header: list[str], cells: list[str], number: int) -> Place | None:
        name = header[number].replace(",", "").removesuffix(" (trained)")
        if number == 0 or not name[:1].isdigit() or "made" in name:
            return None
        return cells[0], name, "trained" if name == trained else other

    return place


def _stretched(header: list[str], cells: list[str], number: int) -> Place | None:
    if header[number] != "mean" or "made" in cells[0]:
        return None
    length = cells[1].replace(",", "")
    return cells[0], length, "trained" if length == "8192" else "longer"


def _clocks(header: list[str], cells: list[str], number: int) -> Place | None:
    if number == 0 or "vic_elec.yaml" not in cells[0]:
        return None
    condition = "across a clock change" if header[number].startswith("across") else "all windows"
    return "civil" if number <= 2 else "utc", condition, "trained"


SMALL = "One small model, trained for minutes: not how encodings rank in larger ones, after longer "
RUNS = [
    Run(
        "digits", "vision/compare-digits", "vision.csv", "scikit-learn's digits, 8 px", "images",
        "encodings", "", "accuracy", "higher", sizes,
        "A small ViT on 1,797 pictures of digits, tested at its size and at larger ones",
        SMALL + "training or on photographs.",
    ),
    Run(
        "python", "text/compare-stdlib", "text.csv", "source text of Python's library", "text",
        "encodings", "", "bits per byte", "lower", lengths,
        "A small causal model of bytes, reading its length and up to eight times that",
        SMALL + "training or on prose.",
    ),
    Run(
        "keys", "text/probe", "text.csv", "letters with keys planted in them", "text",
        "encodings", "", "share of keys found", "higher", keys_found,
        "A small causal model that has to find what was said once, up to eight times its length",
        SMALL + "training. A made task of recall, not a language.",
    ),
    Run(
        "seattle", "timeseries/compare-seattle", "timeseries.csv", "hourly temperatures in Seattle",
        "series", "encodings", "regular", "MSE", "lower", lookbacks,
        "A small transformer over patches of a regular series, and what learns nothing",
        SMALL + "training. Averages of many years, without weather: very smooth.",
    ),
    Run(
        "parking", "timeseries/compare-parking", "timeseries.csv", "car parks in Birmingham",
        "series", "encodings", "irregular", "MSE", "lower", lookbacks,
        "A small transformer over patches of 28 series whose stamps jitter, without their nights",
        SMALL + "training or on other series. Only rotary encodings and none were compared.",
    ),
    Run(
        "spoken", "multimodal/compare", "multimodal.csv", "spoken digits, pictures and questions",
        "stream", "designs", "", "share of right answers", "higher", designs("all"),
        "A small transformer over sound, pictures and text on one clock; all questions",
        SMALL + "training. Rows are composed: no measure of speech or video.",
    ),
    Run(
        "ago", "multimodal/compare", "multimodal.csv", "spoken digits, pictures and questions",
        "stream", "designs", "", "share of right answers", "higher", designs("said 1 s ago"),
        "The same, where what was said one second before is asked for",
        SMALL + "training. Rows are composed: no measure of speech or video.",
    ),
]  # fmt: skip
PAGES = [
    Page(
        "cifar10", "vision/README.md", "| test accuracy in % | 32 px", "vision.csv", "CIFAR-10",
        "images", "encodings", "", "accuracy", "higher", _by_size("32 px", "larger"), 0.01, 1, 1,
        (), "A ViT of 0.8 million parameters on 45,000 pictures, 8 epochs",
        "One seed, two encodings, a short training.",
    ),
    Page(
        "resize", "vision/README.md", "| accuracy in % | 24 px | 32 px", "vision.csv", "CIFAR-10",
        "images", "sizes", "", "accuracy", "higher", _by_size("32 px", "larger"), 0.01, 0, 1,
        ("table of positions zeroed",),
        "A trained ViT of 0.8 million parameters with a learned table, at other sizes, untrained",
        "One model; pictures of 32 px enlarged. Its rules of resizing differ by less than can be "
        "told.",
    ),
    Page(
        "stories", "text/EXTEND.md", "|  | 512 | 1,024 | 2,048 |", "text.csv",
        "stories, stories260K", "text", "scalings", "", "loss", "lower", _by_size("512", "longer"),
        1.0, 0, 3, (), "A trained model of 260 thousand parameters, read up to four times its "
        "length",
        "One tiny model, one text, 16 windows; little in it lies further back than its length.",
    ),
    Page(
        "war_and_peace", "text/EXTEND.md", "|  | length | first window |", "text.csv",
        "War and Peace, SmolLM2-135M", "text", "scalings", "", "loss", "lower", _stretched, 1.0, 0,
        1, (), "A trained model of 135 million parameters, read at twice its length",
        "Two windows: too few to call a difference; the run ended before all methods had read.",
    ),
    Page(
        "victoria", "timeseries/README.md", "| MAE | clocks of Melbourne", "timeseries.csv",
        "electricity in Victoria", "series", "clocks", "regular", "MAE", "lower", _clocks, 1.0, 0,
        1, (), "A linear network that reads calendars on the clocks of the place, or on UTC",
        "Solved for, so without seeds; one series, and no transformer.",
    ),
]  # fmt: skip
