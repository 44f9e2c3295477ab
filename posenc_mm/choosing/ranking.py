"""Who leads in a comparison, by a rule that is stated, and what that says of old advice."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from posenc_mm.choosing.measured import Evidence, Measurement, Study

RULE = (
    "Ranked by the mean over the conditions asked for; what cannot be tested in one of them comes "
    "last. Two are tied if they differ by no more than one pooled standard deviation: over seeds "
    "and, for shares, for lack of test examples. Without repeats nothing is called a lead."
)


@dataclass(frozen=True)
class Standing:
    """One encoding in a comparison.

    Attributes:
        encoding: its name.
        mean: over the conditions; None if it cannot be tested in one of them.
        spread: standard deviation, pooled over the conditions; None if it is not known.
        rows: what was measured, one row for each condition.
    """

    encoding: str
    mean: float | None
    spread: float | None
    rows: tuple[Measurement, ...]


@dataclass(frozen=True)
class Ranking:
    """A comparison, ranked.

    Attributes:
        study: the comparison.
        conditions: over which means are taken.
        standings: the encodings, best first.
        baselines: what is in it beside encodings, likewise.
        leaders: the best of those that may be taken, and what is tied with it.
        certain: whether spreads are known, so that the leaders lead by more than chance.
        metric: what was measured.
        better: ``"higher"`` or ``"lower"``.
        near: why it is not quite about the situation; empty if it is.
    """

    study: Study
    conditions: tuple[str, ...]
    standings: tuple[Standing, ...]
    baselines: tuple[Standing, ...]
    leaders: tuple[str, ...]
    certain: bool
    metric: str
    better: str
    near: str = ""

    def standing(self, encoding: str) -> Standing | None:
        """Find an encoding."""
        return next((each for each in self.standings if each.encoding == encoding), None)

    @property
    def passed(self) -> bool:
        """Whether what may not be taken is better than what leads."""
        first = self.standings[0] if self.leaders else None
        return first is not None and first.encoding not in self.leaders

    def tied(self, one: Standing, other: Standing) -> bool:
        """Tell whether two cannot be told apart."""
        if one.mean is None or other.mean is None:
            return one.mean is other.mean
        if one.spread is None or other.spread is None:
            return one.mean == other.mean
        return abs(one.mean - other.mean) <= _pooled(one.spread, other.spread)


def rank(
    evidence: Evidence,
    study: Study,
    settings: Collection[str],
    allowed: Collection[str] | None = None,
    near: str = "",
) -> Ranking:
    """Rank what a study compared.

    Args:
        evidence: with its rows.
        study: the comparison.
        settings: kinds of conditions to take the mean over; all others are left out.
        allowed: encodings that may lead; all unless given.
        near: why the study is not quite about the situation.

    Returns:
        The ranking.

    Raises:
        ValueError: the study has no such condition.
    """
    rows = [row for row in evidence.of(study) if row.setting in settings]
    if not rows:
        raise ValueError(f"study {study.study!r} must have conditions {sorted(settings)}, has none")
    conditions = tuple(dict.fromkeys(row.condition for row in rows))
    everything = [
        _standing(name, [row for row in rows if row.encoding == name], len(conditions))
        for name in dict.fromkeys(row.encoding for row in rows)
    ]
    sign = -1.0 if rows[0].better == "higher" else 1.0
    everything.sort(key=lambda s: (s.mean is None, 0.0 if s.mean is None else sign * s.mean))
    standings = tuple(s for s in everything if s.encoding not in study.baselines)
    others = tuple(s for s in everything if s.encoding in study.baselines)
    may = [
        s for s in standings if s.mean is not None and (allowed is None or s.encoding in allowed)
    ]
    ranking = Ranking(
        study, conditions, standings, others, (), all(s.spread is not None for s in may),
        rows[0].metric, rows[0].better, near,
    )  # fmt: skip
    leaders = tuple(s.encoding for s in may if ranking.tied(may[0], s))
    return replace(ranking, leaders=leaders, certain=bool(may) and ranking.certain)


def _standing(name: str, rows: Sequence[Measurement], conditions: int) -> Standing:
    means = [row.mean for row in rows if row.mean is not None]
    if len(means) < conditions:
        return Standing(name, None, None, tuple(rows))
    spreads = [_spread(row) for row in rows]
    known = [spread for spread in spreads if spread is not None]
    pooled = (sum(s * s for s in known) / len(known)) ** 0.5 if len(known) == len(rows) else None
    return Standing(name, sum(means) / len(means), pooled, tuple(rows))


def _spread(row: Measurement) -> float | None:
    """What chance moves a run by: its seed, and which examples were tested."""
    if row.std is None:
        return None
    blur = 0.0 if row.resolution is None else row.resolution
    return float((row.std**2 + blur**2) ** 0.5)


def _pooled(one: float, other: float) -> float:
    return float(((one**2 + other**2) / 2) ** 0.5)


def number(value: float | None) -> str:
    """Write three digits, without an exponent; a dash for what cannot be tested."""
    if value is None:
        return "-"
    text = f"{value:#.3g}".rstrip(".")
    return text if "e" not in text else f"{value:.8f}".rstrip("0")


def lead(ranking: Ranking) -> str:
    """Say who leads, in words made of the numbers."""
    if not ranking.leaders:
        return "None of what may be taken here can be tested in all of these conditions."
    values = [ranking.standing(name) for name in ranking.leaders]
    shown = ", ".join(f"{s.encoding} {number(s.mean)}" for s in values if s is not None)
    fits = " of what fits here" if ranking.passed else ""
    if not ranking.certain:
        return f"First in numbers{fits}: {shown}. Not repeated, so chance cannot be ruled out."
    if len(ranking.leaders) == 1:
        return f"Leads by more than chance{fits}: {shown}."
    return f"Lead{fits}, and cannot be told apart: {shown}."


@dataclass(frozen=True)
class Judgement:
    """What a comparison says of an advice.

    Attributes:
        verdict: ``"agrees"``, ``"tied"``, ``"contradicts"``, ``"unsure"`` or ``"not measured"``.
        words: the same in a sentence, with the numbers.
    """

    verdict: str
    words: str


def judge(ranking: Ranking, advised: Sequence[str]) -> Judgement:
    """Compare an advice with what was measured.

    Args:
        ranking: of a comparison.
        advised: names of the encodings that the advice means; the best of them counts.

    Returns:
        The judgement.
    """
    where = f"{ranking.study.study} ({ranking.metric}, {ranking.better} is better)"
    where = f"near, {where}" if ranking.near else where
    own = next((s for s in ranking.standings if s.encoding in advised), None)
    first = ranking.standing(ranking.leaders[0]) if ranking.leaders else None
    if own is None or first is None:
        return Judgement("not measured", f"{where}: {' or '.join(advised)} not measured.")
    mine, best = (f"{s.encoding} {number(s.mean)}" for s in (own, first))
    if own.mean is None:
        return Judgement("contradicts", f"{where}: {own.encoding} cannot be read in all of it.")
    if not ranking.certain:
        order = "first" if own.encoding == first.encoding else f"behind {best}"
        return Judgement("unsure", f"{where}: {mine}, {order}; not repeated, may be chance.")
    if own.encoding in ranking.leaders:
        tied = [name for name in ranking.leaders if name != own.encoding]
        if not tied:
            return Judgement("agrees", f"{where}: agrees, {mine} leads.")
        return Judgement("tied", f"{where}: {mine} is not told apart from {', '.join(tied)}.")
    if ranking.tied(own, first):
        return Judgement("tied", f"{where}: {mine} is not told apart from {best}.")
    ahead = (own.mean < (first.mean or 0.0)) == (ranking.better == "lower")
    if ahead:
        return Judgement("agrees", f"{where}: agrees, {mine}, but it does not fit this situation.")
    return Judgement("contradicts", f"{where}: contradicts, {mine} against {best}.")
