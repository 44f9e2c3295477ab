"""The usual advice, with where it comes from: a starting point, not a finding."""

from dataclasses import dataclass

from posenc_mm.choosing.situation import Situation

VASWANI = "Vaswani et al. 2017, https://arxiv.org/abs/1706.03762"
SHAW = "Shaw et al. 2018, https://arxiv.org/abs/1803.02155"
SU = "Su et al. 2021, https://arxiv.org/abs/2104.09864"
PRESS = "Press et al. 2022, https://arxiv.org/abs/2108.12409"
PENG = "Peng et al. 2023, https://arxiv.org/abs/2309.00071"
DEVLIN = "Devlin et al. 2018, https://arxiv.org/abs/1810.04805"
DOSOVITSKIY = "Dosovitskiy et al. 2021, https://arxiv.org/abs/2010.11929"
BEYER = "Beyer et al. 2022, https://arxiv.org/abs/2205.01580"
FLEXI = "Beyer et al. 2022, https://arxiv.org/abs/2212.08013"
LIU = "Liu et al. 2021, https://arxiv.org/abs/2103.14030"
FANG = "Fang et al. 2023, https://arxiv.org/abs/2303.11331"
HEO = "Heo et al. 2024, https://arxiv.org/abs/2403.13298"
ARNAB = "Arnab et al. 2021, https://arxiv.org/abs/2103.15691"
WEI = "Wei et al. 2025, https://arxiv.org/abs/2502.05173"
ZHAO = "Zhao et al. 2025, https://arxiv.org/abs/2502.15894"
ZHOU = "Zhou et al. 2021, https://arxiv.org/abs/2012.07436"
WANG = "Wang et al. 2024, https://arxiv.org/abs/2409.12191"
BAI = "Bai et al. 2025, https://arxiv.org/abs/2502.13923"
LORE = "practice"


@dataclass(frozen=True)
class Classic:
    """An advice.

    Attributes:
        advice: in words.
        options: names of what it means, the first one first.
        source: authors, year and address.
        stretched: likewise in comparisons of models that were trained before and then stretched.
        note: what a comparison of encodings leaves out of it.
        beyond: whether it is meant for more than was trained, too.
    """

    advice: str
    options: tuple[str, ...]
    source: str
    stretched: tuple[str, ...] = ()
    note: str = ""
    beyond: bool = True

    def names(self, subject: str) -> tuple[str, ...]:
        """Give the names of what it means in comparisons of a subject."""
        return self.stretched if subject == "scalings" else self.options


def classics(situation: Situation) -> tuple[Classic, ...]:
    """Give the advice for a situation, the most fitting first.

    Args:
        situation: what a model is for.
    """
    if situation.pretrained != "no":
        return _trained(situation)
    return {
        "text": _text, "images": _images, "video": _video, "series": _series, "stream": _stream
    }[situation.modality](situation)  # fmt: skip


def _baseline(source: str) -> Classic:
    """What to compare with: its sines of larger positions are ones that no training saw."""
    return Classic("parameter-free baseline: sinusoidal", ("sinusoidal",), source, beyond=False)


def _text(situation: Situation) -> tuple[Classic, ...]:
    baseline = _baseline(VASWANI)
    distance = Classic("distance matters: rotary or relative", ("rope", "t5"), f"{SU}; {SHAW}")
    if situation.length == "fixed":
        return (Classic("fixed length: learned", ("learned",), DEVLIN), distance, baseline)
    longer = Classic(
        "longer than trained: rotary with scaling", ("rope",), f"{SU}; {PENG}", ("yarn", "ntk"),
        "rope was read without scaling there",
    )  # fmt: skip
    simple = Classic("simplest extrapolation: ALiBi", ("alibi",), PRESS)
    return (longer, simple, distance, baseline)


def _images(situation: Situation) -> tuple[Classic, ...]:
    baseline = _baseline(BEYER)
    distance = Classic(
        "distance matters: rotary or relative", ("axial_rope", "relative_bias"), f"{HEO}; {LIU}"
    )
    if situation.grid == "fixed":
        return (Classic("fixed size: learned", ("learned",), DOSOVITSKIY), distance, baseline)
    other = Classic("other sizes: rotary on both axes", ("mixed_rope", "axial_rope"), HEO)
    return (other, distance, baseline)


def _video(situation: Situation) -> tuple[Classic, ...]:
    tables = Classic("fixed size: learned, a table for each axis", ("learned",), ARNAB)
    turned = Classic("longer, larger, unevenly: rotary on three axes", ("axial_rope",), WEI)
    baseline = _baseline(VASWANI)
    moves = situation.beyond or situation.times == "irregular"
    return (turned, baseline) if moves else (tables, turned, baseline)


def _series(situation: Situation) -> tuple[Classic, ...]:
    calendar = Classic("people's series: the calendar", ("calendar",), ZHOU)
    true = Classic("uneven times: positions that are times", ("rope_time",), f"{SU}; {LORE}")
    baseline = _baseline(VASWANI)
    longer = Classic("longer than trained: rotary", ("rope_time", "rope_rows"), SU)
    if situation.times == "irregular":
        return (true, calendar, baseline)
    if situation.length == "growing":
        return (longer, calendar, baseline)
    fixed = Classic("fixed length: learned", ("learned",), DEVLIN)
    return (calendar, fixed, baseline)


def _stream(situation: Situation) -> tuple[Classic, ...]:
    seconds = Classic("times matter: absolute seconds on the first axis", ("streams",), BAI)
    shared = Classic("mixed tokens: M-RoPE", ("mrope",), WANG)
    return (seconds, shared) if situation.times == "irregular" else (shared, seconds)


def _trained(situation: Situation) -> tuple[Classic, ...]:
    keep = Classic("trained weights: keep their encoding", ("none",), LORE)
    if not situation.beyond:
        return (keep,)
    if situation.pretrained == "learned":
        if situation.modality != "images":
            return (Classic("more than trained: resize the table", ("resized",), DOSOVITSKIY),)
        resize = Classic("another size: resize the table", ("bicubic",), DOSOVITSKIY)
        patches = ("patches resized instead, as many as before",)
        return (resize, Classic("another size: resize the patches", patches, FLEXI))
    if situation.pretrained == "bias":
        if situation.modality in ("text", "series"):
            return (Classic("ALiBi and T5 go on by themselves", ("none",), PRESS),)
        return (Classic("another size: resize the bias table", ("resized_bias",), LIU),)
    if situation.modality in ("text", "series"):
        return (
            Classic("longer than trained: YaRN", ("yarn",), PENG, ("yarn",)),
            Classic("longer than trained, untuned: a larger base", ("ntk",), PENG, ("ntk",)),
        )
    if situation.length == "growing" and situation.modality == "video":
        return (Classic("longer videos: RIFLEx", ("riflex",), ZHAO),)
    if situation.length == "growing":
        return (Classic("longer than trained: YaRN, along time alone", ("yarn",), PENG),)
    if situation.modality != "images":
        return (keep,)
    rescaled = Classic("other sizes: positions of the trained grid", ("rescaled",), FANG)
    return (rescaled, Classic("other sizes: positions go on as they are", ("none",), HEO))
