"""A search for the factors of each pair, over a loss of the caller's."""

import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from posenc_mm.checks import check_number, check_whole
from posenc_mm.frequencies import Row
from posenc_mm.scaling.longrope import checked_factors


class Trial(NamedTuple):
    """Factors that were tried, and what came of them.

    Attributes:
        factors: ``(F,)``, for :class:`PerPair`.
        loss: lower is better.
    """

    factors: Row
    loss: float


def search(
    loss: Callable[[Row], float],
    starts: Iterable[Sequence[float]],
    *,
    budget: int,
    largest: float,
    seed: int = 0,
    parents: int = 32,
    share: float = 0.3,
    history: Iterable[Trial] = (),
) -> tuple[Trial, ...]:
    r"""Look for factors of low loss by mutation and crossover of the best so far.

    Factors lie from 1 to ``largest`` and never fall from a pair to the next slower one. The starts
    are tried first; then every other candidate redraws a share of the factors of one parent, and
    the rest take each factor from one of two parents. A candidate depends on the seed, its number
    and the trials before it alone: a search that goes on from its ``history`` ends as one that was
    never interrupted.

    References:
        Ding et al.: LongRoPE: Extending LLM Context Window Beyond 2 Million Tokens (2024),
        https://arxiv.org/abs/2402.13753; here one candidate at a time joins the population

    Args:
        loss: of factors, such as the perplexity of a model with ``PerPair(factors)`` on long texts.
        starts: factors to begin with, such as those of linear scaling, NTK and YaRN.
        budget: trials in all, those of ``history`` included.
        largest: the largest factor; the paper allows 1.25 times the extension.
        seed: of the draws.
        parents: how many of the best so far have offspring.
        share: of the factors that a mutation redraws.
        history: trials of an earlier call, in their order.

    Returns:
        Every trial in order; the best is ``min(trials, key=lambda trial: trial.loss)``.

    Raises:
        ValueError: there is no start, one falls, differs in length or leaves the range, a number is
            not what it must be, ``history`` is of other starts, or a loss is not a number.

    Example:
        >>> trials = search(lambda f: abs(f[1] - 3), [[1.0, 4.0]], budget=50, largest=5.0)
        >>> trials[0].loss, min(trial.loss for trial in trials) < 0.2
        (1.0, True)
    """
    check_whole(budget=budget, parents=parents)
    check_number(1.0, largest=largest)
    check_number(share=share)
    first = [_checked(start, largest) for start in starts]
    if not first or len({len(start) for start in first}) != 1:
        raise ValueError(
            f"starts must be factors of one length, got lengths {[len(each) for each in first]}"
        )
    trials = [Trial(tuple(factors), value) for factors, value in history]
    for trial, start in zip(trials, first, strict=False):
        if trial.factors != start:
            raise ValueError(
                f"history must begin with the starts, got {trial.factors} where {start} was tried"
            )
    while len(trials) < budget:
        number = len(trials)
        if number < len(first):
            factors = first[number]
        else:
            draw = random.Random(f"{seed} {number}")
            best = sorted(trials, key=lambda trial: trial.loss)[:parents]
            offspring = _mutated if number % 2 else _crossed
            factors = offspring([trial.factors for trial in best], share, largest, draw)
        value = float(loss(factors))
        if math.isnan(value):
            raise ValueError(f"loss must be a number, got {value} for factors={factors}")
        trials.append(Trial(factors, value))
    return tuple(trials)


def _mutated(best: list[Row], share: float, largest: float, draw: random.Random) -> Row:
    parent = draw.choice(best)
    redrawn = [draw.uniform(1.0, largest) if draw.random() < share else factor for factor in parent]
    return tuple(sorted(redrawn))


def _crossed(best: list[Row], share: float, largest: float, draw: random.Random) -> Row:
    one, other = draw.choice(best), draw.choice(best)
    return tuple(sorted(draw.choice(pair) for pair in zip(one, other, strict=True)))


def _checked(start: Sequence[float], largest: float) -> Row:
    factors = checked_factors("starts", start)
    if list(factors) != sorted(factors) or not 1 <= factors[0] <= factors[-1] <= largest:
        raise ValueError(f"starts must not fall and lie from 1 to largest={largest}, got {factors}")
    return factors
