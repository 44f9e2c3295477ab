"""Questions, one after another, at a terminal."""

from collections.abc import Callable

from posenc_mm.choosing.situation import QUESTIONS, Question, Situation


def ask(read: Callable[[str], str] = input, say: Callable[[str], None] = print) -> Situation:
    """Ask for a situation.

    Args:
        read: gives the answer to a prompt: a number, a word, or nothing for the default.
        say: shows a line.

    Returns:
        The situation.

    Raises:
        ValueError: the answers end before the questions do.
    """
    given: dict[str, str | bool] = {}
    say("A number or a word; return alone takes the one in brackets.")
    for question in QUESTIONS:
        modality = str(given.get("modality", ""))
        if modality and modality not in question.of:
            continue
        # Only a causal model has a cache.
        if question.field == "kv_cache" and not given["causal"]:
            continue
        given[question.field] = question.value(_answer(question, modality, read, say))
    return Situation(**given)  # type: ignore[arg-type]


def _answer(
    question: Question, modality: str, read: Callable[[str], str], say: Callable[[str], None]
) -> str:
    say(f"\n{question.words}")
    answers = [answer for answer, _ in question.answers]
    for number, (answer, meaning) in enumerate(question.answers, 1):
        say(f"  {number}  {answer}" + ("" if meaning == answer else f": {meaning}"))
    default = question.default(modality)
    while True:
        try:
            said = read(f"[{default}] ").strip().lower()
        except EOFError:
            raise ValueError(f"the answers ended at {question.words!r}: one was wanted") from None
        if not said:
            return default
        if said in answers:
            return said
        meant = [answer for answer, means in question.answers if means.split(",")[0] == said]
        if len(meant) == 1:
            return meant[0]  # "yes" to a question whose answer has another name
        if said.isdecimal() and 1 <= int(said) <= len(answers):
            return answers[int(said) - 1]
        say(f"one of {', '.join(answers)}, or a number from 1 to {len(answers)}, got {said!r}")
