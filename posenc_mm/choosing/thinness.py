"""What evidence does not carry, in words made of its numbers, and where to get better evidence."""

from collections.abc import Sequence
from typing import Protocol

from posenc_mm.choosing.ranking import Ranking
from posenc_mm.choosing.situation import Situation

FEW = 5


class Named(Protocol):
    """What has a name."""

    @property
    def name(self) -> str:
        """Its name."""


def thinness(
    situation: Situation, found: Sequence[Ranking], recommended: Sequence[Named]
) -> tuple[str, ...]:
    """Say what the evidence does not carry.

    Args:
        situation: what a model is for.
        found: the comparisons.
        recommended: what is advised.

    Returns:
        Sentences.
    """
    own = [each for each in found if not each.near]
    said = []
    if not own:
        what = "Nothing that was measured is of your case" if found else "Nothing was measured here"
        said.append(f"{what}: the advice rests on what is usual, and on facts of the library.")
    for ranking in own:
        said.append(f"{ranking.study.study}: {_sizes(ranking)}. {ranking.study.limits}")
        ahead = _ahead(ranking)
        if ahead:
            said.append(ahead)
    for one in recommended:
        if own and not any(each.standing(one.name) for each in own):
            said.append(f"{one.name} was not measured in any of them.")
    if situation.causal and situation.modality != "text" and own:
        said.append("All of it was measured without a causal rule.")
    if (situation.modality, situation.times) == ("series", "irregular"):
        if situation.pretrained != "no":
            said.append(
                "What weights that count rows make of uneven times was not measured: resample, or "
                "add an encoding of time and train."
            )
    return tuple(said)


def _sizes(ranking: Ranking) -> str:
    rows = [row for each in ranking.standings for row in each.rows]
    seeds = sorted({row.seeds for row in rows})
    sizes = [row.parameters for row in rows if row.parameters is not None]
    runs = "nothing was repeated"
    if seeds[-1] == 1:
        runs = "one seed each, so no spread is known"
    elif seeds[-1] > 1:
        few = ", which is few" if seeds[-1] < FEW else ""
        runs = f"{seeds[-1]} seeds{few}"
        runs += "" if seeds[0] == seeds[-1] else ", and not of everything"
    return f"{runs}; {max(sizes):,} parameters" if sizes else runs


def _ahead(ranking: Ranking) -> str:
    """Say what beats the leaders and may not lead: baselines, no encoding, what is ruled out."""
    best = ranking.standing(ranking.leaders[0]) if ranking.leaders else None
    if best is None or best.mean is None:
        return ""
    sign = 1 if ranking.better == "lower" else -1
    better = [
        s.encoding
        for s in (*ranking.baselines, *ranking.standings)
        if s.mean is not None and sign * s.mean < sign * best.mean
    ]
    if not better:
        return ""
    return f"{ranking.study.study}: ahead of what can be advised here: {'; '.join(better)}."


# Commands of a clone that compare on data of one's own.
_OWN = {
    "text": "python -m text compare -c configs/text/file.yaml --data.path FILE --encodings {}",
    "images": "python -m vision compare -c configs/vision/folder.yaml --data.path FOLDER "
    "--encodings {}",
    "series": "python -m timeseries compare -c configs/timeseries/table.yaml --data.path data.csv "
    "--data.targets '[\"load\"]' --encodings {}",
    "stream": "python -m multimodal compare --designs {}",
}  # fmt: skip


def further(situation: Situation, names: Sequence[str], classes: Sequence[str]) -> tuple[str, ...]:
    """List commands to go on with.

    Args:
        situation: what a model is for.
        names: of what is advised.
        classes: to have explained.

    Returns:
        Commands; those of applications run in a clone.
    """
    explain = [f"python -m posenc_mm explain {name}" for name in dict.fromkeys(classes)]
    explain.append("python -m posenc_mm choose --evidence")
    if situation.pretrained != "no":
        return (*_of_trained(situation), *explain)
    if situation.modality not in _OWN:
        return tuple(explain)
    measured = {"stream": ("streams", "row_by_time")}.get(situation.modality)
    listed = ["none", *names] if measured is None else ["none", *measured]
    return (_OWN[situation.modality].format(" ".join(listed)), *explain)


def _of_trained(situation: Situation) -> list[str]:
    if situation.modality == "text" and situation.length == "growing":
        if situation.pretrained == "rotary":
            methods = "--factors 1 2 4 --methods none ntk yarn window"
            return [f"python -m text extend CHECKPOINT --data FILE {methods}"]
    if situation.modality == "images" and situation.grid == "changes":
        return ["python -m vision resize CHECKPOINT --sizes 160 288 --images FOLDER"]
    return []
