"""The three diagnostics as callbacks."""

from collections.abc import Sequence
from typing import Any, ClassVar

from lightning.pytorch.utilities import rank_zero_warn

from posenc_mm.checks import check_number, check_whole
from posenc_mm.diagnostics import (
    Subject,
    attention_by_distance,
    attention_maps,
    effective_context,
    shift_contents,
    shift_positions,
)
from posenc_mm.lightning.base import Diagnostic, Finding


class AttentionDistance(Diagnostic):
    """How far each head attends: see :func:`posenc_mm.diagnostics.attention_by_distance`.

    Logs ``val/attention_distance``, the mean over all heads, and ``val/attention_distance_1`` and
    so on of each layer, likewise ``test/...``, and a picture. Needs of the subject ``network``,
    ``inputs`` and ``positions``. An attention among other tokens, such as a pool at the end, is
    left out.

    Args:
        every: validations from one look to the next.
        samples: of the batch at most.
        theme: of the pictures, ``"light"`` or ``"dark"``.
        bins: of distance at most.

    Raises:
        ValueError: as :class:`Diagnostic` and the function do, or the module has no tokens that
            attend.
    """

    name: ClassVar[str] = "attention_distance"

    def __init__(
        self, every: int = 1, samples: int = 8, theme: str = "light", bins: int = 32
    ) -> None:
        super().__init__(every, samples, theme)
        check_whole(bins=bins)
        self.bins = bins

    def look(self, subject: Subject) -> Finding:
        from posenc_mm.plots import diagnostics as plots

        positions = _needed(self, subject, "positions")
        maps = attention_maps(subject.network, *subject.inputs, **subject.keywords)
        tokens = subject.prefix + positions.shape[-2]
        among = [each for each in maps if each.weights.shape[-2:] == (tokens, tokens)]
        if not among:
            sizes = sorted({tuple(each.weights.shape[-2:]) for each in maps})
            raise ValueError(
                f"AttentionDistance needs an attention among all {tokens} tokens, but those of "
                f"{type(subject.network).__name__} are among (N, M) in {sizes}"
            )
        found = attention_by_distance(among, positions, prefix=subject.prefix, bins=self.bins)
        means = [float(layer.mean.mean()) for layer in found.layers]
        scalars = {self.name: sum(means) / len(means)}
        scalars |= {f"{self.name}_{n}": mean for n, mean in enumerate(means, 1)}
        picture = plots.attention_by_distance(found, unit=subject.unit, theme=self.theme)
        return Finding(scalars, {self.name: picture})


class EffectiveContext(Diagnostic):
    """How much context a language model makes use of.

    See :func:`posenc_mm.diagnostics.effective_context`. Logs ``val/effective_context`` and a
    picture. Needs of the subject ``logits`` and ``tokens``.

    Args:
        every: validations from one look to the next.
        samples: of the batch at most.
        theme: of the pictures, ``"light"`` or ``"dark"``.
        contexts: to measure, in tokens; powers of two and the longest possible unless given.
        last: how many tokens of each sample are predicted.
        tolerance: by which a loss may be above that of the longest context.

    Raises:
        ValueError: as :class:`Diagnostic` and the function do, or the module is no causal language
            model.
    """

    name: ClassVar[str] = "effective_context"

    def __init__(
        self,
        every: int = 1,
        samples: int = 8,
        theme: str = "light",
        contexts: list[int] | None = None,
        last: int = 8,
        tolerance: float = 0.01,
    ) -> None:
        super().__init__(every, samples, theme)
        check_whole(last=last)
        check_number(tolerance=tolerance)
        self.contexts, self.last, self.tolerance = contexts, last, tolerance

    def look(self, subject: Subject) -> Finding:
        from posenc_mm.plots import diagnostics as plots

        found = effective_context(
            _needed(self, subject, "logits"),
            _needed(self, subject, "tokens"),
            self.contexts,
            last=self.last,
            tolerance=self.tolerance,
        )
        picture = plots.effective_context(found, theme=self.theme)
        return Finding({self.name: float(found.effective)}, {self.name: picture})


class ShiftTest(Diagnostic):
    """Whether the output moves with the input.

    See :func:`posenc_mm.diagnostics.shift_positions`, for a subject with ``shifted``, and
    :func:`posenc_mm.diagnostics.shift_contents`, for one with ``features`` and ``images``. Logs
    ``val/position_shift``, the largest change, and ``val/content_shift``, the mean error, and a
    picture of each. Offsets that an encoding refuses, such as a table that ends before them, are
    left out, with a warning.

    Args:
        every: validations from one look to the next.
        samples: of the batch at most.
        theme: of the pictures, ``"light"`` or ``"dark"``.
        offsets: of positions, in the unit that the module says.
        margin: patches by which contents of images move.

    Raises:
        ValueError: as :class:`Diagnostic` and the functions do, or the module tells of neither.
    """

    name: ClassVar[str] = "shift"

    def __init__(
        self,
        every: int = 1,
        samples: int = 8,
        theme: str = "light",
        offsets: Sequence[float] = (1, 2, 4, 8, 16, 32, 64),
        margin: int = 1,
    ) -> None:
        super().__init__(every, samples, theme)
        check_whole(margin=margin)
        if not offsets:
            raise ValueError("offsets must have one at least, got none")
        # Whole numbers stay so: a table's rows are found by them.
        self.offsets = [int(x) if float(x).is_integer() else float(x) for x in offsets]
        self.margin = margin

    def look(self, subject: Subject) -> Finding:
        from posenc_mm.plots import diagnostics as plots

        found = Finding({}, {})
        if subject.shifted is None and subject.features is None:
            _needed(self, subject, "shifted")
        offsets = [] if subject.shifted is None else _allowed(subject, self.offsets)
        if subject.shifted is not None and offsets:
            positions = shift_positions(subject.shifted, offsets)
            found.scalars["position_shift"] = float(positions.changes.max())
            found.pictures["position_shift"] = plots.shift(
                positions, unit=subject.offset_unit, theme=self.theme
            )
        if subject.features is not None:
            images = _needed(self, subject, "images")
            contents = shift_contents(subject.features, images, subject.patch, margin=self.margin)
            found.scalars["content_shift"] = float(contents.errors.mean())
            found.pictures["content_shift"] = plots.shift(contents, theme=self.theme)
        return found


def _needed(diagnostic: Diagnostic, subject: Subject, name: str) -> Any:
    value = getattr(subject, name)
    if value is None:
        raise ValueError(
            f"{type(diagnostic).__name__} needs {name} of the subject, which the module does not "
            f"give for this {type(subject.network).__name__} and batch"
        )
    return value


def _allowed(subject: Subject, offsets: Sequence[float]) -> list[float]:
    """The offsets at which the encodings have something to say."""
    allowed = []
    for offset in offsets:
        try:
            if subject.shifted is not None:
                subject.shifted(offset)
            allowed.append(offset)
        except ValueError as error:
            rank_zero_warn(f"ShiftTest leaves out the offset {offset}: {error}")
    return allowed
