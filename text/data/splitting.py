"""Which documents train and which judge: whole ones, such that no text is on both sides."""

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from text.data.base import Split

SHARES = (0.8, 0.1, 0.1)
# A group of documents larger than this share of the text is too large to judge by.
LARGE = 0.05


class Document(NamedTuple):
    """A text, and the name of the group whose documents stay on one side."""

    group: str
    text: str


def split_documents(documents: Sequence[Document]) -> Split:
    """Split by groups of documents, or within each document where the groups are too few.

    80 % of the text trains, 10 % validates and 10 % tests, about. Which group goes where depends on
    names and sizes alone, so that it is the same ones always. Documents that are word for word the
    same are taken once.

    Args:
        documents: to split.

    Returns:
        The texts.

    Raises:
        ValueError: there is no text.
    """
    once = list({document.text: document for document in reversed(documents)}.values())[::-1]
    once = [document for document in once if document.text]
    if not once:
        raise ValueError(f"there must be a text to split, got {len(documents)} without any")
    sizes: dict[str, int] = {}
    for group, text in once:
        sizes[group] = sizes.get(group, 0) + len(text)
    side = _sides(sizes)
    split = Split([], [], [])
    for group, text in once:
        split[side[group]].append(text)
    return split if all(split) else _blocks([text for _, text in once])


def _sides(sizes: dict[str, int]) -> dict[str, int]:
    total = sum(sizes.values())
    lacking = [share * total for share in SHARES]
    sides = {}
    for group in sorted(sizes, key=lambda name: (sizes[name] <= LARGE * total, _shuffled(name))):
        large = sizes[group] > LARGE * total
        sides[group] = 0 if large else max(range(3), key=lambda k: lacking[k])
        lacking[sides[group]] -= sizes[group]
    return sides


def _shuffled(name: str) -> str:
    return sha256(name.encode()).hexdigest()


def _blocks(texts: list[str]) -> Split:
    split = Split([], [], [])
    for text in texts:
        first, second = (round(len(text) * share) for share in (SHARES[0], sum(SHARES[:2])))
        for side, block in zip(
            split, (text[:first], text[first:second], text[second:]), strict=True
        ):
            if block:
                side.append(block)
    return split
