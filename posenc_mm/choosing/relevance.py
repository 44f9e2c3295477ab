"""Which comparisons a situation is about, and which of their conditions."""

from collections.abc import Collection

from posenc_mm.choosing.measured import Evidence, Study
from posenc_mm.choosing.ranking import Ranking, rank
from posenc_mm.choosing.situation import Situation
from posenc_mm.choosing.trained import SCALINGS, WINDOW

STRETCHES = tuple(one.name for one in (*SCALINGS, WINDOW))
BEYOND = {"scalings": {"longer"}, "sizes": {"larger"}}


def rankings(
    situation: Situation, evidence: Evidence, allowed: Collection[str]
) -> tuple[Ranking, ...]:
    """Rank what bears on a situation, what is quite about it first.

    Args:
        situation: what a model is for.
        evidence: comparisons.
        allowed: encodings that may be advised.

    Returns:
        Rankings; those with ``near`` say why they do not decide.
    """
    found = []
    for study in evidence.studies:
        near = _near(situation, study)
        if near is None:
            continue
        asked = settings(situation, study)
        if any(row.setting in asked for row in evidence.of(study)):
            # A study of something else knows other names.
            other = {"scalings": STRETCHES, "clocks": None} if near else {}
            names = other.get(study.subject, allowed)
            found.append(rank(evidence, study, asked, names, near))
    return tuple(sorted(found, key=lambda each: bool(each.near)))


def settings(situation: Situation, study: Study) -> set[str]:
    """Say over which kinds of conditions a mean is taken.

    Args:
        situation: what a model is for.
        study: a comparison.

    Returns:
        As trained, and what the situation asks for beyond; of trained models, only that.
    """
    if study.subject in BEYOND:
        return BEYOND[study.subject]
    asked = {"trained"}
    if situation.length == "growing":
        asked.add("longer")
    if situation.grid == "changes":
        asked.add("larger")
    if situation.times == "irregular":
        asked |= {"rates", "lost"}
    return asked


def _near(situation: Situation, study: Study) -> str | None:
    """Why a study is only near a situation; empty if it is about it, None if it is not at all."""
    if situation.pretrained != "no":
        return _near_trained(situation, study)
    if study.modality == situation.modality:
        return _near_own(situation, study)
    if situation.modality == "video" and study.subject in ("encodings", "designs"):
        if study.modality == "images":
            return "no video was measured; of pictures, rows and columns alone"
        if study.modality == "stream":
            return "no video was measured; of sound and pictures on one clock"
    return None


def _near_own(situation: Situation, study: Study) -> str | None:
    if study.subject == "sizes":
        return None
    if study.subject == "scalings":
        growing = situation.length == "growing"
        return "of models trained before, which rotate, and then stretched" if growing else None
    if study.subject == "clocks":
        return "of calendars alone, in a linear network"
    if study.times and study.times != situation.times:
        return f"of {study.times} times"
    if study.modality == "text" and not situation.causal:
        return "of causal models"
    return ""


def _near_trained(situation: Situation, study: Study) -> str | None:
    if not situation.beyond or study.modality != situation.modality:
        return None
    subject = {("text", "rotary"): "scalings", ("images", "learned"): "sizes"}
    wanted = subject.get((situation.modality, situation.pretrained))
    return "" if study.subject == wanted else None
