"""What the measurements say in words, and no more than they can tell apart."""

from typing import Any

import numpy as np

Pair = tuple[int, int]
Scores = dict[tuple[str, Pair], list[float]]


def difference(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """Compare two ways on the same pictures.

    Args:
        first: ``(N,)`` scores.
        second: ``(N,)`` scores of the same pictures.

    Returns:
        The mean difference and its standard error.
    """
    apart = first - second
    return float(apart.mean()), float(apart.std(ddof=min(1, len(apart) - 1)) / len(apart) ** 0.5)


def is_close(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether two standard errors of the paired difference cover it."""
    mean, error = difference(first, second)
    return abs(mean) <= 2 * error


def verdict(
    scores: Scores, results: list[dict[str, Any]], native: Pair, labelled: bool
) -> list[str]:
    """Say which rule keeps most, whether something else keeps more, and what training bought.

    Args:
        scores: one number a picture, by row and size.
        results: of all measurements.
        native: the size trained at.
        labelled: whether scores are of accuracy, else of cosines.

    Returns:
        Sentences.
    """
    kinds = {r["row"]: r["kind"] for r in results}
    sizes = list(dict.fromkeys(tuple(r["size"]) for r in results))
    others = [size for size in sizes if size != native]
    rules = [row for row, kind in kinds.items() if kind == "rule"]
    whole = [row for row in rules if all((row, size) in scores for size in others)]
    if not others or not whole:
        return ["Nothing was measured beyond the native size by any rule."]
    means = {row: np.mean([scores[row, size] for size in others], axis=0) for row in whole}
    order = sorted(whole, key=lambda row: -means[row].mean())
    best = order[0]
    same = [row for row in order[1:] if is_close(means[best], means[row])]
    start = float(np.mean(scores["native", native]))
    kept = means[best].mean()
    said = [
        f"The rule that keeps most is {best}: {_written(kept, labelled)} on average over "
        f"{_sizes(others)}, of {_written(start, labelled)} at the native {_side(native)} px."
        + (f" These pictures cannot tell it from {_listed(same)}." if same else "")
    ]
    far = max(others, key=lambda size: size[0] * size[1])
    for size in dict.fromkeys([far, *others]):
        said += _instead(scores, kinds, best, size, labelled)
    said += _trained(scores, results, kinds, best, labelled)
    return said


def _instead(
    scores: Scores, kinds: dict[str, str], best: str, size: Pair, labelled: bool
) -> list[str]:
    rivals = [row for row, kind in kinds.items() if kind == "baseline" and (row, size) in scores]
    rule = np.array(scores[best, size])
    better = [
        row
        for row in rivals
        if (found := np.array(scores[row, size])).mean() > rule.mean() and not is_close(found, rule)
    ]
    if not better:
        return []
    listed = _listed(
        [f"{row} ({_written(np.mean(scores[row, size]), labelled)})" for row in better]
    )
    return [
        f"At {_side(size)} px another way keeps more than {best} "
        f"({_written(rule.mean(), labelled)}): {listed}."
    ]


def _trained(
    scores: Scores,
    results: list[dict[str, Any]],
    kinds: dict[str, str],
    best: str,
    labelled: bool,
) -> list[str]:
    rows = [row for row, kind in kinds.items() if kind == "trained"]
    said = []
    for size in {tuple(r["size"]) for r in results if r["row"] in rows}:
        found = {row: np.array(scores[row, size]) for row in rows if (row, size) in scores}
        ranked = sorted(found, key=lambda row: -found[row].mean())
        if not ranked or (best, size) not in scores:
            continue
        first = ranked[0]
        same = [row for row in ranked[1:] if is_close(found[first], found[row])]
        listed = "; ".join(f"{row}: {_written(found[row].mean(), labelled)}" for row in ranked)
        tail = f", not to be told from {_listed(same)}" if same else ""
        leads = f" First is {first}{tail}." if len(ranked) > 1 else ""
        said.append(
            f"Trained, at {_side(size)} px ({best} untrained: "
            f"{_written(np.mean(scores[best, size]), labelled)}): {listed}.{leads}"
        )
    return sorted(said)


def _written(value: float, labelled: bool) -> str:
    return f"{100 * value:.1f} %" if labelled else f"cosine {value:.4f}"


def _side(size: Pair) -> str:
    return str(size[0]) if size[0] == size[1] else f"{size[0]}x{size[1]}"


def _sizes(sizes: list[Pair]) -> str:
    return _listed([_side(size) for size in sizes]) + " px"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
