"""What an encoding is like, measured on one: learned, relative, bounded, of which axes."""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from posenc_mm.additive import AdditiveEncoding, ConditionalEncoding, Sinusoidal
from posenc_mm.bias import ALiBi, AttentionBias, Contextual, ContextualBias
from posenc_mm.catalogue.example import Example
from posenc_mm.positions import grid
from posenc_mm.rotary import RotaryEncoding, Rotation, XPos, rotate

# From one row to the next, to another hour, to another season.
_SHIFTS = (1, 2, 5 * 3600, 40 * 86_400)
_FAR = 100_000
# Divides by twice any number of axes that is tried.
_WIDTHS = {"dim": 48, "head_dim": 48}
_AXES = (1, 2, 3, 4)


@dataclass(frozen=True)
class Traits:
    """What an encoding is like.

    Attributes:
        axes: of 1 to 4, how many positions may have.
        learned: ``"yes"``, ``"no"`` or ``"parts"``: what its parts are.
        relative: as :func:`relative` says.
        beyond: as :func:`beyond` says, or ``"parts"``.
    """

    axes: tuple[int, ...]
    learned: str
    relative: bool
    beyond: str


def measure(example: Example, encoding: nn.Module, *, by_class: bool = True) -> Traits:
    """Measure what an encoding is like.

    Args:
        example: of its class.
        encoding: what the example makes; what it has learned is drawn anew.
        by_class: whether its axes are all that the class can be made for, and what is up to its
            parts is said to be theirs; else all is said of this one.

    Returns:
        Its traits.

    Raises:
        ValueError: it takes positions of no number of axes from 1 to 4.
    """
    own = tuple(
        axes
        for axes in _AXES
        if _accepted(encoding, *[_near(axes, example.origin)] * 2) is not None
    )
    if not own:
        raise ValueError(
            f"encoding must take positions of 1 to 4 axes, got {type(encoding).__name__}"
        )
    parts = by_class and bool(example.parts)
    learns = any(True for _ in encoding.parameters())
    if parts:
        theirs = sum(len([*part.make().parameters()]) for part in example.parts)
        learns = len([*encoding.parameters()]) > theirs
    return Traits(
        axes=axes_of(example) if by_class else own[:1],
        learned="yes" if learns else "parts" if parts else "no",
        relative=relative(encoding, own[0], example.origin),
        beyond="parts" if parts else beyond(encoding, own[0], example.origin),
    )


def relative(encoding: nn.Module, axes: int, origin: int = 0) -> bool:
    """Say whether what an encoding does stays the same when all positions move alike.

    Args:
        encoding: any; what it has learned is drawn anew.
        axes: of the positions to try.
        origin: where they begin.

    Returns:
        Whether a bias, scores of rotated vectors, or what is added to the tokens are those of
        before, wherever the positions may go.
    """
    _draw(encoding)
    near = _near(axes, origin)
    before = _effect(encoding, near)
    moved = (_accepted(encoding, near + shift, near + shift) for shift in _SHIFTS)
    return all(_alike(before, after) for after in moved if after is not None)


def beyond(encoding: nn.Module, axes: int, origin: int = 0) -> str:
    """Say what becomes of positions far outside of those that an encoding is made for.

    Args:
        encoding: any; what it has learned is drawn anew.
        axes: of the positions to try.
        origin: where those begin that it is made for.

    Returns:
        ``"yes"``: they are read like all others; ``"alike"``: all far distances count as one;
        ``"rescaled"``: they are refused, but those between whole ones are read; ``"no"``: both are
        refused.
    """
    _draw(encoding)
    near = _near(axes, origin)
    # Of moments, decades: a day is far from nothing.
    away = _FAR + origin
    far = _accepted(encoding, near + away, near)
    if far is None:
        return "no" if _accepted(encoding, near + 0.5, near + 0.5) is None else "rescaled"
    if isinstance(encoding, AttentionBias | ContextualBias):
        farther = _accepted(encoding, near + 2 * away, near)
        if farther is not None and _alike(far, farther):
            return "alike"
    return "yes"


def axes_of(example: Example) -> tuple[int, ...]:
    """Find how many axes a class can be made for.

    Args:
        example: of the class; encodings among its arguments are stood in for by others that take
            any number of axes.

    Returns:
        Those of 1 to 4 that positions may have.
    """
    found = set()
    for encoding in _variants(example):
        for axes in _AXES:
            near = _near(axes, example.origin)
            if axes not in found and _accepted(encoding, near, near) is not None:
                found.add(axes)
    return tuple(sorted(found))


def _near(axes: int, origin: int) -> Tensor:
    """A few positions, no two alike."""
    return grid(*[2 if axes > 1 else 3] * axes) + origin


def _variants(example: Example) -> Iterator[nn.Module]:
    """The class for each number of axes, as far as it has any say in it."""
    target = example.target
    names = inspect.signature(target).parameters
    for axes in _AXES:
        others: dict[str, Any] = {name: width for name, width in _WIDTHS.items() if name in names}
        if "axes" in names and not example.parts:
            others["axes"] = axes
        others |= {name: [4] * axes for name in ("sizes", "window") if name in example.arguments}
        for name, value in example.arguments.items():
            if isinstance(value, Example):
                others[name] = Sinusoidal(48, axes)
            elif isinstance(value, list) and any(isinstance(each, Example) for each in value):
                biases = isinstance(target, type) and issubclass(target, AttentionBias)
                others[name] = [ALiBi(4) if biases else Sinusoidal(48, axes)] * 2
        try:
            yield example.make(**others)
        except ValueError:
            continue


def _draw(encoding: nn.Module) -> None:
    """Fill what is learned with numbers of which no two are alike."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in encoding.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator))


def _accepted(encoding: nn.Module, positions: Tensor, others: Tensor) -> Tensor | None:
    try:
        return _effect(encoding, positions, others)
    except ValueError:
        return None


def _effect(encoding: nn.Module, positions: Tensor, others: Tensor | None = None) -> Tensor:
    """What an encoding does to the same tokens, queries and keys at these positions."""
    others = positions if others is None else others
    count = len(positions)
    with torch.no_grad():
        if isinstance(encoding, AdditiveEncoding):
            added: Tensor = encoding(positions)
            return added
        if isinstance(encoding, ConditionalEncoding):
            found: Tensor = encoding(_tokens(1, count, encoding.dim)[0, 0], positions)
            return found
        if isinstance(encoding, RotaryEncoding):
            # In float64, so that a rotation far away is as exact as one nearby.
            of_q, of_k = _pair(encoding, positions.double(), others.double())
            heads = of_q.cos.shape[-3] if of_q.per_head else 1
            q, k = _tokens(heads, count, encoding.head_dim).double().unbind()
            return rotate(q, of_q) @ rotate(k, of_k).mT
        q, k = _tokens(
            getattr(encoding, "heads", 1), count, getattr(encoding, "head_dim", 1)
        ).unbind()
        said = encoding(positions, others)
        return said.logits(q, k) if isinstance(said, Contextual) else said


def _tokens(heads: int, count: int, width: int) -> Tensor:
    """Queries and keys, the same in each call."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(2, 1, heads, count, width, generator=generator)


def _pair(encoding: RotaryEncoding, queries: Tensor, keys: Tensor) -> tuple[Rotation, Rotation]:
    if isinstance(encoding, XPos):
        return encoding.pair(queries, keys)
    return encoding(queries), encoding(keys)


def _alike(one: Tensor, other: Tensor) -> bool:
    scale = one.abs().max().clamp(min=1.0)
    return one.shape == other.shape and bool((one - other).abs().max() < 1e-4 * scale)
