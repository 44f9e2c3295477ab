"""What was planted at a depth, asked for at the end: of letters, or in a text of yours."""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from posenc_mm import sequence
from text.data.needles import draw_asked
from text.module import LanguageModel

# Values that are offered: one of them was planted.
CHOICES = 10
# What is planted and asked for, in words that a text seldom has.
PLANTED, QUESTION = "\n# The pass key is {}.\n", "\n# The pass key is "


@torch.no_grad()
def letters_accuracy(
    model: LanguageModel, length: int, depth: float, *, keys: int, samples: int, seed: int
) -> float:
    """The share of letters' keys whose value a model names: the likeliest of all tokens.

    Args:
        model: trained on :class:`text.data.Needles`.
        length: tokens of context.
        depth: where the key is: 0 at the beginning, 1 just before the question.
        keys: how many there are, the one asked for among them.
        samples: windows to ask in.
        seed: of their letters; the same ones for every model.

    Returns:
        A share from 0 to 1.
    """
    generator = torch.Generator().manual_seed(seed)
    asked = draw_asked(samples, length, keys, depth, generator)
    right = 0
    for tokens, answers in _few(length, asked.tokens, asked.answers):
        positions = sequence(length, device=model.device)
        logits = model(tokens.to(model.device), positions)[:, -1]
        right += int((logits.argmax(-1).cpu() == answers).sum())
    return right / samples


@torch.no_grad()
def text_accuracy(
    model: LanguageModel, filler: Tensor, length: int, depth: float, *, samples: int, seed: int
) -> float:
    """The share of pass keys in a text that a model tells from nine others.

    A sentence with a number of five digits is put into a stretch of the text, and begun again at
    its end. The model has told it if, of ten numbers, it gives the planted one the highest
    probability; guessing is right one time in ten.

    Args:
        model: a language model.
        filler: ``(T,)`` tokens of a text that it was not trained on.
        length: tokens of context, the question and the number included.
        depth: where the sentence is: 0 at the beginning, 1 just before the question.
        samples: stretches to ask in.
        seed: of stretches and numbers; the same ones for every model.

    Returns:
        A share from 0 to 1.

    Raises:
        ValueError: the text is too short, or the length too short for sentence and question.
    """
    generator = torch.Generator().manual_seed(seed)
    right = 0
    for _ in range(samples):
        numbers = 10_000 + torch.randperm(90_000, generator=generator)[:CHOICES]
        start = torch.rand((), generator=generator).item()
        windows = _asked_in_text(model, filler, length, depth, numbers.tolist(), start)
        right += int(_losses_of_numbers(model, windows).argmin() == 0)
    return right / samples


def _asked_in_text(
    model: LanguageModel,
    filler: Tensor,
    length: int,
    depth: float,
    numbers: list[int],
    start: float,
) -> Tensor:
    """Windows ``(CHOICES, length)`` that end in one number each, of which the first is planted."""
    encode = model.vocabulary.encode
    planted, question = encode(PLANTED.format(numbers[0])), encode(QUESTION)
    answers = torch.stack([encode(str(number)) for number in numbers])
    spare = length - len(planted) - len(question) - answers.shape[1]
    if spare < 1 or spare > len(filler):
        least = length - spare + 1
        raise ValueError(
            f"length must be at least {least}, for the pass key and the question, and at most "
            f"{len(filler) + least - 1}, for which the text lasts, got length={length}"
        )
    begin = int(start * (len(filler) - spare + 1))
    text, at = filler[begin : begin + spare], round(depth * spare)
    window = torch.cat([part.long() for part in (text[:at], planted, text[at:], question)])
    return torch.cat((window.expand(CHOICES, -1), answers.long()), dim=1)


def _losses_of_numbers(model: LanguageModel, windows: Tensor) -> Tensor:
    """How surprised a model is by the last five tokens of each window ``(CHOICES,)``."""
    digits = 5
    losses = []
    for (tokens,) in _few(windows.shape[1], windows):
        tokens = tokens.to(model.device)
        positions = sequence(tokens.shape[1] - 1, device=model.device)
        logits = model(tokens[:, :-1], positions)[:, -digits:].float().transpose(1, 2)
        losses.append(F.cross_entropy(logits, tokens[:, -digits:], reduction="none").sum(1))
    return torch.cat(losses)


def _few(length: int, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """As many rows at a time as make about 16,000 tokens."""
    yield from zip(*(tensor.split(max(1, 16_384 // length)) for tensor in tensors), strict=True)
