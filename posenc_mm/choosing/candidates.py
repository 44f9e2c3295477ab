"""The options of each modality, by the names under which the applications measured them."""

from posenc_mm.choosing.describing import Part
from posenc_mm.choosing.options import (
    DIM,
    HEAD_DIM,
    Option,
    added,
    biased,
    both,
    option,
    turned,
)
from posenc_mm.choosing.situation import Situation

_FREE = "Nothing to learn and nothing stored; any position can be read."
_RELATIVE = "Scores depend on how far apart two tokens are, so a shift changes nothing."
_CACHE = "Keys are cached after they were turned, and stay right as the text grows."
_FADES = "Far tokens fade by a fixed slope, so that a longer input brings nothing new."


def _calendar(situation: Situation) -> dict[str, Part]:
    zone = {"zone": "Europe/Berlin"}
    fields = [
        Part("Calendar", {}, {"fields": ["hour", "day_of_week"], "code": "one_hot", **zone}),
        Part("Calendar", {}, {"fields": ["day_of_year"], **zone}),
    ]
    return {"additive": Part("Projected", {"dim": DIM}, {"encodings": fields})}


def _timed(situation: Situation) -> dict[str, Part]:
    return {"rotary": Part("TimeRotary", {"head_dim": HEAD_DIM, "step": "1h", "span": "7D"})}


def _counted(situation: Situation) -> dict[str, Part]:
    return {"rotary": Part("TimeRotary", {"head_dim": HEAD_DIM, "step": 1, "span": 24})}


SINUSOIDAL = option(
    "sinusoidal",
    "sines and cosines of the position, added to the tokens",
    added("Sinusoidal"),
    "rows",
    _FREE,
    explain="Sinusoidal",
)
LEARNED = option(
    "learned", "a learned table, added to the tokens", added("Learned"), "rows",
    "Learns whatever order the data have; ends with the length trained at.", explain="Learned",
)  # fmt: skip
ROPE = option("rope", "rotary", turned(), "rows", _FREE, _RELATIVE, _CACHE, explain="Rotary")
ALIBI = option("alibi", "ALiBi", biased("ALiBi"), "rows", _FREE, _FADES, explain="ALiBi")
T5 = option(
    "t5", "T5's buckets of distance", biased("T5Bias"), "rows", _RELATIVE,
    "Distances beyond the last bucket share its number.", explain="T5Bias",
)  # fmt: skip
ROPE_ALIBI = option(
    "rope_alibi", "rotary and ALiBi together", both(turned(), biased("ALiBi")), "rows", _FREE,
    _RELATIVE, _FADES, explain="ALiBi",
)  # fmt: skip
TEXT = (ROPE, ALIBI, ROPE_ALIBI, T5, LEARNED, SINUSOIDAL)
IMAGES = (
    option(
        "learned", "a learned table of rows and columns", added("Learned"), "table",
        "At another size it is read between its entries, as a resized table is.",
        explain="Learned",
    ),
    option(
        "axial_rope", "rotary on rows and columns", turned(base=100.0), "grid", _FREE, _RELATIVE,
        explain="Rotary",
    ),
    option(
        "mixed_rope", "rotary with learned directions per head", turned("MixedRotary", base=10.0),
        "grid", _RELATIVE, "Needs as many key heads as query heads: no grouped queries.",
        explain="MixedRotary",
    ),
    option(
        "relative_bias", "a learned bias for each difference of rows and columns",
        biased("RelativeBias"), "table", _RELATIVE, explain="RelativeBias",
    ),
    option(
        "sinusoidal", "sines and cosines of row and column", added("Sinusoidal"), "grid", _FREE,
        explain="Sinusoidal",
    ),
    option(
        "alibi_2d", "ALiBi on distances in the picture", biased("ALiBi", distance="l2"), "grid",
        _FREE, "Knows distances, but no directions.", explain="ALiBi",
    ),
)  # fmt: skip
VIDEO = (
    option(
        "axial_rope", "rotary on time, rows and columns", turned(), "frames", _FREE, _RELATIVE,
        "Times may be seconds at any spacing.", explain="Rotary",
    ),
    option(
        "learned", "learned tables of time, rows and columns", added("Learned", joint=False),
        "table", "A table for each axis: small, and read between entries.", explain="Learned",
    ),
    option(
        "sinusoidal", "sines and cosines of time, row and column", added("Sinusoidal"), "frames",
        _FREE, explain="Sinusoidal",
    ),
)  # fmt: skip
SERIES = (
    option(
        "rope_time", "rotary in physical time", _timed, "seconds", _RELATIVE,
        "An hour is an hour in any window, however irregular the stamps.", explain="TimeRotary",
        config={"clock": "time"},
    ),
    option(
        "calendar+rope_time", "rotary in physical time, and the calendar added",
        both(_calendar, _timed), "seconds", _RELATIVE,
        "Hours and weekdays are read on the clocks of the place, clock changes included.",
        explain="Calendar", config={"clock": "time"},
    ),
    option(
        "calendar", "the calendar, added to the tokens", _calendar, "seconds",
        "Hours and weekdays are read on the clocks of the place, clock changes included.",
        explain="Calendar", config={"clock": "time"},
    ),
    option(
        "rope_rows", "rotary over row numbers", _counted, "rows", _FREE, _RELATIVE,
        "On a regular series it is what true times are.", explain="TimeRotary",
        config={"clock": "row"},
    ),
    option(
        "sinusoidal", "sines and cosines of the row", added("Sinusoidal"), "rows", _FREE,
        explain="Sinusoidal", config={"clock": "row"},
    ),
    option(
        "learned", "a learned table of rows", added("Learned"), "rows", explain="Learned",
        config={"clock": "row"},
    ),
)  # fmt: skip
STREAM = (
    option(
        "streams", "rotary over seconds, rows and columns, by a Layout of posenc_mm.streams",
        turned(base=100.0), "layout", _FREE,
        "Seconds carry over to other frame rates, and to frames that are lost.", explain="Rotary",
    ),
    option(
        "mrope", "M-RoPE, as Qwen2-VL was trained", turned(), "mrope", _FREE,
        "Positions that Qwen2-VL and models after it were trained with; how it deals pairs to axes "
        "is posenc_mm.presets.qwen2_vl_text.", explain="Rotary",
    ),
    option(
        "row_by_time", "rotary over the token's number in order of time, rows and columns",
        turned(base=100.0), "order", _FREE, "Knows the order, and no durations.", explain="Rotary",
    ),
)  # fmt: skip
OF: dict[str, tuple[Option, ...]] = {
    "text": TEXT, "images": IMAGES, "video": VIDEO, "series": SERIES, "stream": STREAM
}  # fmt: skip
