"""A comparison in plain sentences that call nothing a difference that may be chance."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from timeseries.report import lookbacks_of, shown

# Questions that are asked whenever both encodings were compared: who, against whom.
PAIRS = {
    ("rope_time", "rope_rows"): "True times (rope_time) against row numbers (rope_rows)",
    (
        "calendar",
        "calendar_utc",
    ): "The calendar of the zone (calendar) against UTC's (calendar_utc)",
}
# Student's quantiles at 97.5 %, by degrees of freedom.
_STUDENT = {2: 4.30, 4: 2.78, 6: 2.45, 8: 2.31, 9: 2.26, 10: 2.23}


def sentences(summary: pd.DataFrame) -> str:
    """Say plainly what the numbers show, and what they do not.

    Args:
        summary: of :func:`timeseries.report.summarise`.

    Returns:
        A paragraph.
    """
    lookbacks = lookbacks_of(summary)
    trained = summary[summary["trained"]]
    parts = [
        _leaders(trained, lookback, lookbacks[0]) for lookback in lookbacks[:1] + lookbacks[-1:]
    ]
    text = "; ".join(dict.fromkeys(parts))
    said = [f"{text[0].upper()}{text[1:]}.", _against_others(summary, lookbacks[0])]
    for (one, other), what in PAIRS.items():
        if {one, other} <= set(trained["forecast"]):
            said.append(_pair(trained, one, other, lookbacks[0], what))
    best = trained.iloc[0]
    if best["changes"]:
        said.append(
            f"In the {best['changes']:,} windows across a change of the clocks {best['forecast']} "
            f"has an MAE of {shown(best['mae_change'])}, in the rest {shown(best['mae_rest'])}."
        )
    return " ".join([*(one for one in said if one), _limits(trained)])


def differ(one: pd.Series, other: pd.Series, lookback: int) -> bool:
    """Tell whether mean squared errors differ by more than chance explains.

    Chance is of two kinds: another seed would train another network, and another stretch of time
    would be harder for one than for the other. A difference has to exceed both, each with 95 %
    certainty by Student's distribution, added as variances. From one seed nothing is known of the
    first kind, so that nothing can be told.

    Args:
        one: a row of the summary.
        other: another row.
        lookback: at which.

    Returns:
        Whether they do.
    """
    if any(row["trained"] and row["seeds"] < 2 for row in (one, other)):
        return False
    margin = 0.0
    for row in (one, other):
        if row["trained"]:
            margin += row[f"{lookback} mse std"] ** 2 / row["seeds"]
    margin *= _student(sum(row["seeds"] - 1 for row in (one, other) if row["trained"])) ** 2
    between = one[f"{lookback} stretches"] - other[f"{lookback} stretches"]
    if len(between) > 1:
        margin += _student(len(between) - 1) ** 2 * between.var(ddof=1) / len(between)
    return bool(abs(one[f"{lookback} mse"] - other[f"{lookback} mse"]) > np.sqrt(margin))


def _student(freedom: int) -> float:
    return _STUDENT[max(known for known in _STUDENT if known <= max(freedom, 2))]


def _leaders(trained: pd.DataFrame, lookback: int, first: int) -> str:
    name = f"{lookback} mse"
    order = trained.dropna(subset=name).sort_values(name)
    where = f"at a lookback of {lookback}" + (", the one trained at," if lookback == first else "")
    cannot = trained.loc[trained[name].isna(), "forecast"].tolist()
    silent = f" ({listed(cannot)} cannot run there)" if cannot else ""
    if order.empty:
        return f"{where} no encoding can run"
    span = f"{shown(order[name].iloc[0])} to {shown(order[name].iloc[-1])}"
    best = order.iloc[0]
    tied = [row["forecast"] for _, row in order.iterrows() if not differ(row, best, lookback)]
    if len(order) == 1:
        return f"{where} {best['forecast']} has an MSE of {span.split()[0]}{silent}"
    if len(tied) == len(order):
        return f"{where} the MSE of all encodings lies from {span}, too close to tell apart{silent}"
    leads = "leads" if len(tied) == 1 else "lead, too close to tell apart"
    return f"{where} {listed(tied)} {leads} (MSE from {span}){silent}"


def _against_others(summary: pd.DataFrame, lookback: int) -> str:
    """The best encoding against the best of what is not trained by steps."""
    trained, others = summary[summary["trained"]], summary[~summary["trained"]]
    if others.empty:
        return ""
    best, other = trained.iloc[0], others.iloc[0]
    name = f"{lookback} mse"
    how = "is better than" if best[name] < other[name] else "is worse than"
    if not differ(best, other, lookback):
        how = "cannot be told from"
    return (
        f"The best of them, {best['forecast']}, {how} {other['forecast']}, the best of what is not "
        f"trained step by step (MSE {shown(best[name])} against {shown(other[name])})."
    )


def _pair(trained: pd.DataFrame, one: str, other: str, lookback: int, what: str) -> str:
    rows = trained.set_index("forecast", drop=False)
    own, its = rows.loc[one], rows.loc[other]
    name = f"{lookback} mse"
    share = 100 * abs(own[name] / its[name] - 1)
    less = "less" if own[name] < its[name] else "more"
    verdict = f"{share:.1f} % {less}" if differ(own, its, lookback) else "too close to tell apart"
    return f"{what}: MSE {shown(own[name])} against {shown(its[name])}, {verdict}."


def _limits(trained: pd.DataFrame) -> str:
    seeds = int(trained["seeds"].min())
    spread = "" if seeds > 1 else ", too few to tell chance from a difference"
    return (
        f"These numbers are of one small network, this training length and "
        f"{int(trained['windows'].iloc[0]):,} test windows, {seeds} seed{'s' if seeds > 1 else ''}"
        f"{spread}: they do not say how the encodings rank in larger networks, longer training or "
        "on other data."
    )


def listed(names: Sequence[str]) -> str:
    """Join names as a sentence does."""
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
