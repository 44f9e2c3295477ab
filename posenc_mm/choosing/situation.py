"""What is asked before an encoding is named: the data, the model, and what has to run fast."""

from dataclasses import dataclass

MODALITIES = ("text", "images", "video", "series", "stream")
LENGTHS = ("fixed", "growing")
GRIDS = ("fixed", "changes")
TIMES = ("regular", "irregular")
PRETRAINED = ("no", "rotary", "learned", "bias")
KERNELS = ("any", "flash", "flex")
# Which modality has what.
WITH_LENGTH = ("text", "video", "series", "stream")
WITH_GRID = ("images", "video", "stream")
WITH_TIMES = ("video", "series", "stream")


@dataclass(frozen=True)
class Question:
    """One thing to know of a situation.

    Attributes:
        field: of :class:`Situation`.
        words: the question.
        answers: what may be answered, the default first, each with what it means.
        of: the modalities that it is asked of.
    """

    field: str
    words: str
    answers: tuple[tuple[str, str], ...]
    of: tuple[str, ...] = MODALITIES

    def answer(self, value: str | bool) -> str:
        """Give the answer that a value of the field is."""
        return value if isinstance(value, str) else "yes" if value else "no"

    def value(self, answer: str) -> str | bool:
        """Give the value of the field that an answer means."""
        return answer == "yes" if self.field in ("causal", "kv_cache") else answer

    def default(self, modality: str) -> str:
        """Give the answer that is taken where none is given: text is mostly written forwards."""
        return "yes" if (self.field, modality) == ("causal", "text") else self.answers[0][0]


QUESTIONS = (
    Question(
        "modality",
        "What are your tokens?",
        (
            ("text", "words, bytes: one sequence"),
            ("images", "patches of pictures"),
            ("video", "patches of frames"),
            ("series", "measurements in time"),
            ("stream", "several of these, interleaved"),
        ),
    ),
    Question(
        "length",
        "Will inputs be longer than those trained on?",
        (("fixed", "no"), ("growing", "yes")),
        WITH_LENGTH,
    ),
    Question(
        "grid",
        "Will pictures have other sizes than those trained on?",
        (("fixed", "no"), ("changes", "yes, other numbers of rows and columns of patches")),
        WITH_GRID,
    ),
    Question(
        "times",
        "How are tokens spaced in time?",
        (("regular", "evenly"), ("irregular", "unevenly: gaps, jitter, several rates")),
        WITH_TIMES,
    ),
    Question(
        "pretrained",
        "Do you start from trained weights?",
        (
            ("no", "no"),
            ("rotary", "yes, with a rotation: Llama, Qwen, EVA-02, DINOv3, ..."),
            ("learned", "yes, with a table: ViT, DINOv2, BERT, GPT-2, ..."),
            ("bias", "yes, with a bias on the logits: BLOOM, T5, Swin, BEiT, ..."),
        ),
    ),
    Question(
        "causal",
        "Does a token see only what came before it?",
        (("no", "no"), ("yes", "yes, as in a decoder")),
    ),
    Question(
        "kv_cache",
        "Do you decode with a cache of keys?",
        (("no", "no"), ("yes", "yes")),
    ),
    Question(
        "kernel",
        "Which attention kernel has to run?",
        (
            ("any", "any: a tensor of biases is fine"),
            ("flash", "a fused one that takes no tensor of biases"),
            ("flex", "FlexAttention: biases as functions of positions"),
        ),
    ),
)


@dataclass(frozen=True)
class Situation:
    """What a model is for.

    Args:
        modality: ``"text"``, ``"images"``, ``"video"``, ``"series"`` or ``"stream"``.
        length: ``"fixed"``, or ``"growing"`` where inputs get longer than those trained on.
        grid: ``"fixed"``, or ``"changes"`` where pictures have other sizes than those trained on.
        times: ``"regular"`` or ``"irregular"`` spacing of tokens in time.
        pretrained: ``"no"``, or which kind of encoding the trained weights have: ``"rotary"``,
            ``"learned"`` (a table) or ``"bias"``.
        kv_cache: whether it decodes with a cache of keys.
        kernel: ``"any"``, ``"flash"`` for a fused kernel without a tensor of biases, ``"flex"`` for
            FlexAttention.
        causal: whether a token sees only what came before it.

    Raises:
        ValueError: an answer is none of these, is of another modality, or a cache comes without
            ``causal``.

    Example:
        >>> Situation("text", length="growing", causal=True).kernel
        'any'
    """

    modality: str
    length: str = "fixed"
    grid: str = "fixed"
    times: str = "regular"
    pretrained: str = "no"
    kv_cache: bool = False
    kernel: str = "any"
    causal: bool = False

    def __post_init__(self) -> None:
        for question in QUESTIONS:
            given = getattr(self, question.field)
            allowed = [answer for answer, _ in question.answers]
            if question.field in ("causal", "kv_cache"):
                if not isinstance(given, bool):
                    raise ValueError(f"{question.field} must be true or false, got {given!r}")
            elif given not in allowed:
                raise ValueError(
                    f"{question.field} must be one of {', '.join(allowed)}, got {given!r}"
                )
            elif self.modality not in question.of and given != allowed[0]:
                raise ValueError(
                    f"{question.field} is asked of {', '.join(question.of)} only, got "
                    f"{question.field}={given!r} for {self.modality}: leave it out"
                )
        if self.kv_cache and not self.causal:
            raise ValueError("kv_cache needs a causal model: say causal, or leave the cache out")

    @property
    def beyond(self) -> bool:
        """Whether it will read more, or other sizes, than it was trained on."""
        return self.length == "growing" or self.grid == "changes"
