"""What a study is about: the decoder, and three parts of a text that share no token."""

import hashlib
from typing import Any, NamedTuple

import torch
from torch import Tensor

from text.checkpoints import Opened, open_checkpoint

PARTS = ("train", "search", "test")


class Study(NamedTuple):
    """A decoder and a text.

    Attributes:
        opened: the decoder.
        parts: tokens of the parts to train on, to search on and to test on.
        spans: first token of each part and the one after its last.
        lengths: tokens of windows, the trained length times each factor.
        device: to run on.
        key: of the files and of what was asked of the parts.
    """

    opened: Opened
    parts: dict[str, Tensor]
    spans: dict[str, tuple[int, int]]
    lengths: dict[float, int]
    device: torch.device
    key: str


def prepare(options: Any) -> Study:
    """Open a decoder and divide a text.

    Args:
        options: as parsed.

    Returns:
        The study.

    Raises:
        ValueError: a file is missing or of another kind, or the text is too short.
    """
    if not options.data.is_file():
        raise ValueError(f"--data must be a file of text, there is no {options.data}")
    opened = open_checkpoint(
        options.checkpoint, tokenizer=options.tokenizer, length=options.trained_length
    )
    written = options.data.read_text(encoding="utf-8", errors="replace")
    tokens = torch.tensor(opened.encode(written), dtype=torch.long)
    spans = divide(len(tokens), options.shares)
    parts = {name: tokens[first:end] for name, (first, end) in spans.items()}
    lengths = {factor: round(factor * opened.length) for factor in options.factors}
    wanted = {"test": max(lengths.values()) + options.tail}
    if options.tune:
        wanted["train"] = round(options.tune_factor * opened.length) + 1
    if "search" in options.methods:
        wanted["search"] = max(lengths.values()) + 1
    for name, least in wanted.items():
        if len(parts[name]) < least:
            raise ValueError(
                f"--data must be longer: the part to {name} on has {len(parts[name]):,} tokens, "
                f"{least:,} are needed; give a longer text, lower --factors or other --shares"
            )
    device = torch.device(options.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    opened.decoder.to(device)
    files = [hashlib.sha256(each.read_bytes()).hexdigest() for each in opened.files
             if each.is_file()]  # fmt: skip
    asked = [files, written, options.shares, opened.length, options.windows, options.tail]
    key = hashlib.sha256(repr(asked).encode()).hexdigest()[:16]
    return Study(opened, parts, spans, lengths, device, key)


def divide(count: int, shares: list[float]) -> dict[str, tuple[int, int]]:
    """Cut a text into contiguous parts, one after the other.

    Args:
        count: of tokens.
        shares: of the part to train on, to search on and to test on.

    Returns:
        First token of each part and the one after its last.
    """
    ends = [0, round(shares[0] * count), round((shares[0] + shares[1]) * count), count]
    return {name: (ends[i], ends[i + 1]) for i, name in enumerate(PARTS)}


def ends_of(part: Tensor, longest: int, windows: int) -> list[int]:
    """Where windows end, for every length alike, so that all are measured on the same tokens.

    Args:
        part: of the text.
        longest: tokens that have to come before the first end.
        windows: how many are wanted.

    Returns:
        Last tokens of windows, evenly spaced, fewer where the part is short.
    """
    room = len(part) - 1 - longest
    count = min(windows, room + 1)
    return [longest + round(i * room / max(count - 1, 1)) for i in range(count)]
