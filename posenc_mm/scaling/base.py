"""What a scaling is: an edit of the speeds of a rotary encoding, and of nothing else."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from posenc_mm.checks import check_number, check_whole
from posenc_mm.frequencies import Row, geometric


class Scaling(ABC):
    """Says how fast each pair turns when a trained model reads more than it was trained on.

    A scaling is a value: it holds plain numbers, compares by them, and answers each call from its
    arguments alone. What depends on how long the sequence is takes ``length``, so that a short
    call after a long one is what it would have been before it.
    """

    @abstractmethod
    def frequencies(
        self, rotary_dim: int, base: float = 10_000.0, *, length: int | None = None
    ) -> Row:
        """Give the speed of each pair.

        Args:
            rotary_dim: channels :math:`d` that turn, two for each pair.
            base: :math:`b` of the ladder that the model was trained with.
            length: :math:`L`, positions in the whole sequence: the last position plus one, those
                in the cache included. Without it, what holds up to the trained length.

        Returns:
            ``(F,)`` with :math:`F = d / 2`, in radians per position, in float64.

        Raises:
            ValueError: ``rotary_dim`` is odd or not positive, ``base`` not positive, or ``length``
                below 1.
        """

    def amplitude(self, length: int | None = None) -> float:
        """Give the factor on cosines and sines, so its square is on the logits.

        Args:
            length: :math:`L`, as in :meth:`frequencies`.

        Returns:
            1.0 unless the method has a temperature of its own.

        Raises:
            ValueError: ``length`` is below 1.
        """
        check_length(length)
        return 1.0

    @property
    def softmax_factor(self) -> float:
        """The factor on the scale of the logits, to be applied beside the amplitude."""
        return 1.0

    @property
    def static(self) -> bool:
        """Whether keys rotated earlier stay right when the sequence grows longer."""
        return True


@dataclass(frozen=True)
class Unscaled(Scaling):
    r"""Leaves the ladder as it was trained: :math:`f_i = b^{-2i/d}`.

    References:
        Su et al.: RoFormer: Enhanced Transformer with Rotary Position Embedding (2021),
        https://arxiv.org/abs/2104.09864

    Example:
        >>> Unscaled().frequencies(4)
        (1.0, 0.01)
    """

    def frequencies(
        self, rotary_dim: int, base: float = 10_000.0, *, length: int | None = None
    ) -> Row:
        return ladder(rotary_dim, base, length)


def ladder(rotary_dim: int, base: float, length: int | None = None) -> Row:
    """Check what every scaling is asked with, and give the frequencies that it starts from.

    Args:
        rotary_dim: channels that turn.
        base: of the ladder.
        length: positions in the sequence, if known.

    Returns:
        ``(F,)``

    Raises:
        ValueError: ``rotary_dim`` is odd or not positive, ``base`` not positive, or ``length``
            below 1.
    """
    check_whole(2, rotary_dim=rotary_dim)
    if rotary_dim % 2:
        raise ValueError(
            f"rotary_dim must be even, two channels for each pair, got rotary_dim={rotary_dim}"
        )
    check_length(length)
    return geometric(rotary_dim // 2, base)


def check_length(length: int | None) -> None:
    """Refuse a length that is neither None nor a whole number of at least 1.

    Args:
        length: positions in the sequence.

    Raises:
        ValueError: it is something else.
    """
    if length is not None:
        check_whole(length=length)


def check_extension(factor: float, original_length: int) -> None:
    """Refuse a factor that does not extend, and a trained length that is none.

    Args:
        factor: how many times the trained length is to be read.
        original_length: the trained length.

    Raises:
        ValueError: ``factor`` is below 1, or ``original_length`` no whole number of at least 1.
    """
    check_number(1.0, factor=factor)
    check_whole(original_length=original_length)
