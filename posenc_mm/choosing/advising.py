"""From a situation and what was measured to one or two encodings, and why."""

from collections.abc import Mapping
from dataclasses import dataclass

from posenc_mm.choosing import candidates, trained
from posenc_mm.choosing.classic import Classic, classics
from posenc_mm.choosing.loaded import on_loaded
from posenc_mm.choosing.measured import Evidence, load
from posenc_mm.choosing.options import Option
from posenc_mm.choosing.ranking import Judgement, Ranking, judge, lead, number
from posenc_mm.choosing.relevance import rankings
from posenc_mm.choosing.situation import Situation
from posenc_mm.choosing.snippets import python, yaml
from posenc_mm.choosing.thinness import further, thinness

MOST = 2


@dataclass(frozen=True)
class Recommendation:
    """An encoding, and how it is made.

    Attributes:
        name: its name in the applications, and in what was measured.
        title: what it is.
        why: reasons, measured ones first.
        python: a program that makes and runs it.
        yaml: the same for an application's configuration.
        loaded: a program that puts it on a model that was loaded; empty if there is none.
        explain: the class to ask ``python -m posenc_mm explain`` about.
    """

    name: str
    title: str
    why: tuple[str, ...]
    python: str
    yaml: str
    loaded: str
    explain: str


@dataclass(frozen=True)
class Compared:
    """An advice, and what each comparison says of it.

    Attributes:
        classic: the advice.
        judgements: one for each comparison that the situation is about.
        refusal: why it cannot be taken here; empty if it can.
    """

    classic: Classic
    judgements: tuple[Judgement, ...]
    refusal: str


@dataclass(frozen=True)
class Advice:
    """What to take, why, and what it rests on.

    Attributes:
        situation: that it is for.
        recommended: one or two encodings, the first one first.
        classic: what is usually said, compared with what was measured.
        measured: the comparisons, ranked.
        left_out: encodings that the situation rules out, each with the reason.
        thin: what the evidence does not carry.
        next: commands to go on with.
    """

    situation: Situation
    recommended: tuple[Recommendation, ...]
    classic: tuple[Compared, ...]
    measured: tuple[Ranking, ...]
    left_out: tuple[tuple[str, str], ...]
    thin: tuple[str, ...]
    next: tuple[str, ...]


def choose(situation: Situation, evidence: Evidence | None = None) -> Advice:
    """Name one or two encodings for a situation, from facts of the library and what was measured.

    What the situation rules out is left out. Of the rest those are taken that lead in the
    comparisons which the situation is about, most often first; among equals the one that is first
    in numbers in comparisons that were not repeated, then the one of the usual advice. Where none
    was repeated, what is first in numbers is taken, and that is said. Usual advice that is not
    contradicted fills up to two, but no baseline where inputs get larger. Where nothing was
    measured it is all there is, what is contradicted least by comparisons nearby first.

    Args:
        situation: what the model is for.
        evidence: comparisons; those that are shipped, unless given.

    Returns:
        The advice.

    Example:
        >>> advice = choose(Situation("text", length="growing", causal=True))
        >>> 1 <= len(advice.recommended) <= 2
        True
    """
    evidence = load() if evidence is None else evidence
    options, left_out = _possible(situation)
    found = rankings(situation, evidence, [each.name for each in options])
    said = tuple(_compared(each, found, dict(left_out)) for each in classics(situation))
    picked = _picked(options, found, said, situation.beyond)
    recommended = tuple(
        Recommendation(
            one.name, one.title, _why(one, situation, found, said), python(one, situation),
            yaml(one, situation), on_loaded(one, situation), one.explain,
        )
        for one in picked
    )  # fmt: skip
    return Advice(
        situation, recommended, said, found, left_out, thinness(situation, found, recommended),
        further(situation, [one.name for one in picked], [one.explain for one in picked]),
    )  # fmt: skip


def _possible(situation: Situation) -> tuple[tuple[Option, ...], tuple[tuple[str, str], ...]]:
    """What may be taken, and what may not, with reasons; trained weights leave no choice."""
    if situation.pretrained == "no":
        every = candidates.OF[situation.modality]
        refused = {one.name: one.refusal(situation) for one in every}
    else:
        every = trained.options(situation)
        refused = {one.name: trained.refusal(one, situation) for one in every}
        if situation.pretrained == "rotary":
            refused = {one.name: refused[one.name] or one.refusal(situation) for one in every}
    left_out = tuple((name, why) for name, why in refused.items() if why)
    return tuple(one for one in every if not refused[one.name]), left_out


def _compared(classic: Classic, found: tuple[Ranking, ...], refused: Mapping[str, str]) -> Compared:
    reasons = [f"{name}: {refused[name]}" for name in classic.options if name in refused]
    judgements = tuple(
        judge(each, names)
        for each in found
        if (names := classic.names(each.study.subject)) and _speaks(each, names)
    )
    everything = len(reasons) == len(classic.options)
    return Compared(classic, judgements, "; ".join(reasons) if everything else "")


def _speaks(ranking: Ranking, names: tuple[str, ...]) -> bool:
    """Whether it is of the situation, or near and at least measured what is meant."""
    return not ranking.near or any(ranking.standing(name) is not None for name in names)


def _picked(
    options: tuple[Option, ...],
    found: tuple[Ranking, ...],
    said: tuple[Compared, ...],
    beyond: bool,
) -> tuple[Option, ...]:
    """Leaders first, then the usual advice where nothing measured speaks against it."""
    own = [each for each in found if not each.near]
    deciding = [each for each in own if each.certain]
    by_name = {one.name: one for one in options}
    leads = {name: sum(name in each.leaders for each in deciding) for name in by_name}
    hints = {name: sum(name in each.leaders for each in own) for name in by_name}
    usual = [
        name
        for each in said
        for name in each.classic.options
        if name in by_name and not _contradicted(name, each.classic, deciding)
        if each.classic.beyond or not beyond
    ]
    if not own:
        near = [each for each in found if each.certain]
        usual.sort(key=lambda name: sum(judge(e, [name]).verdict == "contradicts" for e in near))
    order = list(dict.fromkeys([*usual, *by_name]))
    leading = [name for name in order if leads[name] or hints[name]]
    leading.sort(key=lambda name: (-leads[name], -hints[name], order.index(name)))
    # Beside comparisons that were repeated, the others do no more than break ties.
    sure = [name for name in leading if leads[name] or not deciding]
    taken = list(dict.fromkeys([*sure, *usual])) or order
    return tuple(by_name[name] for name in taken[:MOST])


def _contradicted(name: str, classic: Classic, deciding: list[Ranking]) -> bool:
    """Whether a comparison speaks against the best that an advice may mean, or against this."""
    meant = (classic.options, [name])
    return any(judge(each, own).verdict == "contradicts" for each in deciding for own in meant)


def _why(
    one: Option,
    situation: Situation,
    found: tuple[Ranking, ...],
    said: tuple[Compared, ...],
) -> tuple[str, ...]:
    reasons = []
    for ranking in found:
        standing = ranking.standing(one.name)
        if standing is None:
            continue
        where = "nearest measured, not your case: " if ranking.near else "measured: "
        if one.name in ranking.leaders:
            reasons.append(f"{where}{ranking.study.study}. {lead(ranking)}")
        else:
            best = ranking.standing(ranking.leaders[0]) if ranking.leaders else None
            ahead = f", behind {best.encoding} {number(best.mean)}" if best is not None else ""
            reasons.append(f"{where}{ranking.study.study}, {number(standing.mean)}{ahead}.")
    reasons += list(one.facts)
    reasons += _of_kernel(one, situation)
    usual = [each.classic.advice for each in said if one.name in each.classic.options]
    reasons += [f"usual advice: {advice}." for advice in usual]
    return tuple(reasons)


def _of_kernel(one: Option, situation: Situation) -> list[str]:
    bias = one.parts(situation).get("bias")
    if situation.kernel == "any":
        return []
    refusal = one.refusal(situation)
    if refusal:
        return [f"The kernel has to give way, not the encoding that was trained: {refusal}."]
    if bias is None:
        return ["It is no tensor of biases: any kernel runs it."]
    if situation.kernel == "flex":
        return [f"{bias.name} has a score_mod: attend(..., backend='flex'); on a CPU forward only."]
    return [
        f"{bias.name} is folded into a few channels where tokens see the past alone: "
        "attend(..., backend='factors') needs no tensor of biases. On a GPU 'auto' takes a mask."
    ]
