"""An advice in plain text, at most 100 columns wide."""

from collections.abc import Sequence
from textwrap import wrap

from posenc_mm.choosing.advising import Advice, Compared, Recommendation
from posenc_mm.choosing.measured import Evidence, Study
from posenc_mm.choosing.ranking import RULE, Ranking, Standing, number, rank
from posenc_mm.choosing.situation import QUESTIONS, Situation

WIDTH = 100
HEADER, NAME = 8, 26


def text(advice: Advice) -> str:
    """Write an advice.

    Args:
        advice: of :func:`posenc_mm.choosing.choose`.

    Returns:
        Lines of at most 100 columns.
    """
    lines = [*_wrapped(f"For {words(advice.situation)}", 0), ""]
    for place, one in enumerate(advice.recommended):
        lines += _recommended(one, "Take" if place == 0 else "Or")
    lines += ["", "What is usually said, and what was measured"]
    for compared in advice.classic:
        lines += _classic(compared)
    lines += ["", "Measured", *_wrapped(RULE, 2)]
    if not advice.measured:
        lines += ["  Nothing that bears on this."]
    for ranking in advice.measured:
        lines += ["", *_study(ranking.study, ranking.near), *table(ranking)]
    if advice.left_out:
        lines += ["", "Left out"]
        lines += [each for name, why in advice.left_out for each in _item(f"{name}: {why}.")]
    if advice.thin:
        lines += ["", "How far this carries"]
        lines += [each for sentence in advice.thin for each in _item(sentence)]
    for one in advice.recommended:
        lines += _snippets(one)
    lines += ["", "Next", *(line for command in advice.next for line in _command(command))]
    return "\n".join(lines) + "\n"


def words(situation: Situation) -> str:
    """Say a situation in a line, without what is not asked of its modality."""
    said = []
    for question in QUESTIONS[1:]:
        if situation.modality in question.of:
            value = getattr(situation, question.field)
            said.append(f"{question.field} {question.answer(value)}")
    return f"{situation.modality}: {', '.join(said)}"


def studies(evidence: Evidence) -> str:
    """List what was measured: each comparison, how it was made, and all of its numbers.

    Args:
        evidence: to list.

    Returns:
        Lines of at most 100 columns.
    """
    lines = ["Measured", *_wrapped(RULE, 2)]
    for study in evidence.studies:
        settings = {row.setting for row in evidence.of(study)}
        lines += ["", *_study(study, ""), *_wrapped(study.limits, 2)]
        lines += table(rank(evidence, study, settings))
    lines += ["", "Made again, in a clone, by: python -m benchmarks.evidence runs"]
    return "\n".join(lines) + "\n"


def _recommended(one: Recommendation, word: str) -> list[str]:
    why = [line for reason in one.why for line in _item(reason)]
    return [*_wrapped(f"{word}: {one.name}, {one.title}", 0), *why]


def _classic(compared: Compared) -> list[str]:
    classic = compared.classic
    lines = _item(f"{classic.advice} ({classic.source})")
    if compared.refusal:
        lines += _wrapped(f"not here: {compared.refusal}", 6)
    if not compared.judgements:
        lines += ["      not measured"]
    lines += [line for each in compared.judgements for line in _wrapped(each.words, 6)]
    return lines + ([f"      {classic.note}"] if classic.note and compared.judgements else [])


def _study(study: Study, near: str) -> list[str]:
    what = f"{study.study}: {study.what[0].lower()}{study.what[1:]}."
    lines = _wrapped(what, 2)
    if near:
        lines += _wrapped(f"Near, but not your case: {near}.", 2)
    made = f"{study.date}; {study.machine}"
    made += "" if study.versions == study.machine else f"; {study.versions}"
    return [*lines, *_wrapped(f"Made by {study.command} ({made})", 2)]


def table(ranking: Ranking) -> list[str]:
    """Draw a ranking as a table: a row per encoding, best first, marked where it leads.

    Args:
        ranking: to draw.

    Returns:
        Its lines.
    """
    order = sorted(
        (*ranking.standings, *ranking.baselines),
        key=lambda s: (s.mean is None, 0.0 if s.mean is None else _signed(ranking, s.mean)),
    )
    several = len(ranking.conditions) > 1
    heads = [wrap(c, HEADER) for c in ranking.conditions] + ([["mean"]] if several else [])
    names = [wrap(standing.encoding, NAME) for standing in order]
    body = [_cells(ranking, standing, several) for standing in order]
    columns = zip(heads, *body, strict=True)
    widths = [max(map(len, [*head, *cells])) for head, *cells in columns]
    longest = max(len(line) for name in names for line in name)
    leads = "* leads" if ranking.certain else "not repeated, so none leads"
    leads += " of what fits here" if ranking.certain and ranking.passed else ""
    lines = [f"  {ranking.metric}, {ranking.better} is better; {leads}"]
    for level in range(max(map(len, heads))):
        cells = [head[level] if level < len(head) else "" for head in heads]
        lines.append(_row("", "", cells, widths, longest))
    for standing, name, cells in zip(order, names, body, strict=True):
        mark = "*" if ranking.certain and standing.encoding in ranking.leaders else ""
        lines.append(_row(mark, name[0], cells, widths, longest))
        lines += [f"      {line}" for line in name[1:]]
    return lines


def _signed(ranking: Ranking, value: float) -> float:
    return value if ranking.better == "lower" else -value


def _cells(ranking: Ranking, standing: Standing, mean: bool) -> list[str]:
    by = {row.condition: row.mean for row in standing.rows}
    cells = [number(by.get(condition)) for condition in ranking.conditions]
    spread = "" if standing.spread is None else f" ± {standing.spread:.2g}"
    if mean:
        cells.append(f"{number(standing.mean)}{spread}")
    else:
        cells[0] += spread
    return cells


def _row(mark: str, name: str, cells: Sequence[str], widths: Sequence[int], longest: int) -> str:
    rest = "".join(f"  {cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
    return f"  {mark:1} {name:<{longest}}{rest}".rstrip()


def _snippets(one: Recommendation) -> list[str]:
    lines = ["", f"Python: {one.name}", "", *one.python.splitlines()]
    lines += ["", f"YAML: {one.name}", "", *one.yaml.splitlines()]
    if one.loaded:
        lines += ["", f"On a loaded model: {one.name}", "", *one.loaded.splitlines()]
    return lines


def _command(command: str) -> list[str]:
    """Continue a long command as a shell does."""
    lines = wrap(command, WIDTH - 6, break_on_hyphens=False, break_long_words=False)
    return [f"  {'  ' if n else ''}{line}" + " \\" * (n < len(lines) - 1)
            for n, line in enumerate(lines)]  # fmt: skip


def _item(sentence: str) -> list[str]:
    first, *rest = wrap(sentence, WIDTH - 4, break_on_hyphens=False)
    return [f"  - {first}", *(f"    {line}" for line in rest)]


def _wrapped(sentence: str, indent: int) -> list[str]:
    pad = " " * indent
    return wrap(sentence, WIDTH, initial_indent=pad, subsequent_indent=pad, break_on_hyphens=False)
