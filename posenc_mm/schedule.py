"""Which layer uses which encoding."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from posenc_mm.checks import check_whole

T = TypeVar("T")
R = TypeVar("R")


def every(interval: int, depth: int, special: T, usual: T) -> list[T]:
    """Give every so many-th layer something else: every fourth no positions, say.

    Layer :math:`l`, from 0, is special when ``(l + 1) % interval == 0``: the last of each group.
    Llama 4 and SmolLM3 have no positions there, ``every(4, depth, None, Rotary(...))``; Gemma 3 has
    global attention there, and another base, ``every(6, depth, Rotary(..., base=1e6),
    Rotary(...))`` beside ``window=every(6, depth, None, 1024)``.

    References:
        Yang et al.: RoPE to NoPE and Back Again: A New Hybrid Attention Strategy (2025),
        https://arxiv.org/abs/2501.18795

    Args:
        interval: how many layers a group has.
        depth: number of layers.
        special: what the last layer of each group has.
        usual: what all others have.

    Returns:
        One entry per layer, as :class:`posenc_mm.Transformer` takes it in a slot.

    Raises:
        ValueError: ``interval`` or ``depth`` is below 1.

    Example:
        >>> every(4, 6, "none", "rotary")
        ['rotary', 'rotary', 'rotary', 'none', 'rotary', 'rotary']
    """
    check_whole(interval=interval, depth=depth)
    return [usual if (layer + 1) % interval else special for layer in range(depth)]


def per_layer(name: str, given: T | Sequence[T | None] | None, depth: int) -> list[T | None]:
    """Give each layer its own, or all the same.

    Args:
        name: what the caller knows the slot by.
        given: one thing for all layers, or a sequence of one per layer.
        depth: number of layers.

    Returns:
        One entry per layer.

    Raises:
        ValueError: a sequence has another length.
    """
    if isinstance(given, Sequence):
        each = list(given)
        if len(each) != depth:
            raise ValueError(
                f"{name} must be one for all layers or one for each of {depth}, got {len(each)}"
            )
        return each
    return [given] * depth


def distinct(each: Iterable[T | None]) -> tuple[list[T], list[int | None]]:
    """Find what layers share, so that it is held and evaluated once.

    Args:
        each: one entry per layer, None for none.

    Returns:
        What is not equal, and per layer which of it.
    """
    found: list[T] = []
    places: list[int | None] = []
    for entry in each:
        if entry is None:
            places.append(None)
            continue
        if entry not in found:
            found.append(entry)
        places.append(found.index(entry))
    return found, places


def spread(
    found: Iterable[T], places: Iterable[int | None], evaluate: Callable[[T], R]
) -> list[R | None]:
    """Evaluate each thing once, and hand the result to its layers.

    Args:
        found: what there is.
        places: per layer which of it.
        evaluate: from a thing to what its layers take.

    Returns:
        One result per layer, None for none.
    """
    results = [evaluate(thing) for thing in found]
    return [None if place is None else results[place] for place in places]
