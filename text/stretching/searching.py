"""Factors of each pair for a model, a text and a length: searched, then refined one by one."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from posenc_mm.frequencies import Row
from posenc_mm.scaling import NTK, Linear, PerPair, Trial, YaRN, search
from posenc_mm.scaling.base import Scaling
from text.stretching.measuring import measure
from text.stretching.preparing import ends_of
from text.stretching.reading import Reading

# The paper's limit: factors up to this many times the extension.
BEYOND = 1.25
# A refinement changes one factor by these powers of two, and stops when none helps any more.
STEPS = (0.5, 0.25, 0.125)


def searched(
    study: Any, options: Any, factor: float, path: Path, tell: Callable[[float], None]
) -> Reading:
    """Search the factors that lose least on the part of the text to search on.

    The first third of the trials is an evolution (:func:`posenc_mm.scaling.search`) from linear,
    NTK and YaRN; the rest move the best one pair at a time, and may leave the order that the
    evolution keeps, a slower pair by less than a faster one. Trials are kept as they come.

    Args:
        study: the decoder and the text.
        options: as parsed.
        factor: how many times the trained length.
        path: of the file of trials.
        tell: takes the share that is done.

    Returns:
        The way of the best trial.
    """
    length, settings = study.lengths[factor], study.opened.settings
    ends = ends_of(study.parts["search"], length, options.search_windows)
    # Everything read beyond the trained length, not the last tokens alone: less is left to chance.
    beyond = min(study.opened.length, length - 1)
    history = _kept(path)
    trials = list(history)

    def loss(factors: Row) -> float:
        found = measure(
            study.opened.decoder, study, Reading(PerPair(factors)), "search", ends, length
        )
        value = found[:, beyond:].mean().item()
        trials.append(Trial(tuple(factors), value))
        _keep(path, trials)
        tell(len(trials) / options.search_budget)
        return value

    starts = [_factors(each, settings) for each in _closed(factor, study.opened.length)]
    starts = [start for start in starts if list(start) == sorted(start)]
    part = max(len(starts), options.search_budget // 3)
    first = search(
        loss, starts, budget=part, largest=BEYOND * factor, seed=options.seed,
        history=history[:part],
    )  # fmt: skip
    best = refine(loss, list(first), history[part:], options.search_budget - part, BEYOND * factor)
    return Reading(PerPair(best.factors))


def refine(
    loss: Callable[[Row], float],
    trials: list[Trial],
    history: list[Trial],
    budget: int,
    largest: float,
) -> Trial:
    """Move the best trial one factor at a time, for as long as that helps.

    Args:
        loss: of factors.
        trials: what was tried, at least one.
        history: trials of an earlier call of this, in their order.
        budget: trials, those of ``history`` included.
        largest: factors lie from 1 to this.

    Returns:
        The best.
    """
    known = {trial.factors: trial.loss for trial in trials}
    known |= {trial.factors: trial.loss for trial in history}
    best, left = min(trials, key=lambda trial: trial.loss), budget - len(history)
    for step in STEPS:
        moved = True
        while moved:
            moved = False
            for pair in range(len(best.factors)):
                for change in (2**step, 2**-step):
                    factors = list(best.factors)
                    factors[pair] = min(max(factors[pair] * change, 1.0), largest)
                    tried = tuple(factors)
                    if tried not in known:
                        if left < 1:
                            return best
                        known[tried], left = loss(tried), left - 1
                    if known[tried] < best.loss:
                        best, moved = Trial(tried, known[tried]), True
                        break
    return best


def _closed(factor: float, length: int) -> list[Scaling]:
    return [Linear(factor), NTK(factor), YaRN(factor, length), Linear(1.0)]


def _factors(scaling: Scaling, settings: Any) -> Row:
    plain = Linear(1.0).frequencies(settings.rotary_dim, settings.base)
    scaled = scaling.frequencies(settings.rotary_dim, settings.base)
    # Quotients that are the factor but for rounding must not leave the range.
    return tuple(max(1.0, round(a / b, 9)) for a, b in zip(plain, scaled, strict=True))


def _kept(path: Path) -> list[Trial]:
    if not path.is_file():
        return []
    return [Trial(tuple(f), loss) for f, loss in json.loads(path.read_text(encoding="utf-8"))]


def _keep(path: Path, trials: list[Trial]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(trials), encoding="utf-8")
    os.replace(part, path)
