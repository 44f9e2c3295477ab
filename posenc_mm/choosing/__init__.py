"""Which encoding? From the situation, the facts of the library, and what was measured."""

from posenc_mm.choosing.advising import Advice, Compared, Recommendation, choose
from posenc_mm.choosing.classic import Classic
from posenc_mm.choosing.measured import Evidence, Measurement, Study, load
from posenc_mm.choosing.ranking import Judgement, Ranking, Standing, judge, rank
from posenc_mm.choosing.situation import QUESTIONS, Question, Situation

__all__ = [
    "QUESTIONS",
    "Advice",
    "Classic",
    "Compared",
    "Evidence",
    "Judgement",
    "Measurement",
    "Question",
    "Ranking",
    "Recommendation",
    "Situation",
    "Standing",
    "Study",
    "choose",
    "judge",
    "load",
    "rank",
]
