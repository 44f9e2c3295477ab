"""How much of what came before a language model makes use of."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from posenc_mm.checks import check_number, check_whole
from posenc_mm.diagnostics.quiet import undisturbed


class EffectiveContext(NamedTuple):
    """What a model's loss is at each context.

    Attributes:
        contexts: how many tokens it saw, rising.
        losses: ``(C,)`` mean loss in nats of the same tokens, float64.
        tolerance: by which a loss may be above that of the longest context.
        effective: the shortest context from which on all losses are within the tolerance.
        counted: how many tokens each loss is the mean of.
    """

    contexts: tuple[int, ...]
    losses: Tensor
    tolerance: float
    effective: int
    counted: int


def effective_context(
    model: Callable[[Tensor], Any],
    tokens: Tensor,
    contexts: Sequence[int] | None = None,
    *,
    last: int = 8,
    tolerance: float = 0.01,
    batch: int = 64,
) -> EffectiveContext:
    r"""Measure the loss of the last tokens as the context is cut to the nearest ``c`` tokens.

    .. math:: L(c) = -\frac{1}{T} \sum_t \log p(x_t \mid x_{t-c}, \dots, x_{t-1})

    Each token is predicted from exactly ``c`` others, which are all that the model is given: they
    stand where its first tokens do, so a model with absolute positions meets them at its usual
    places. The effective context is the shortest one from which on the loss stays within
    :math:`(1 + \tau) L(c_{max})`. Few tokens make a noisy curve: ``counted`` says how many.

    References:
        Khandelwal, He, Qi, Jurafsky: Sharp Nearby, Fuzzy Far Away: How Neural Language Models Use
        Context (2018), https://arxiv.org/abs/1805.04623

    Args:
        model: a causal language model, tokens ``(B, N)`` to logits ``(B, N, V)``, or to something
            that has them as ``logits``, as models of transformers do. A module is evaluated without
            dropout; a function runs as it is.
        tokens: ``(B, N)`` integers, without padding.
        contexts: to measure; powers of two and the longest possible, ``N - last``, unless given.
        last: how many tokens of each sample are predicted :math:`(T = B \cdot last)`.
        tolerance: :math:`\tau`, by which a loss may be above that of the longest context.
        batch: windows per call of the model.

    Returns:
        The curve and the effective context.

    Raises:
        ValueError: a context is none of 1 to ``N - last``, tokens are not integers ``(B, N)``, or
            the model's logits are of another shape.

    Example:
        >>> def bigram(tokens):
        ...     return torch.nn.functional.one_hot(tokens, 7).float() * 3.0
        >>> effective_context(bigram, torch.arange(2 * 20).reshape(2, 20) % 7).effective
        1
    """
    check_whole(last=last, batch=batch)
    check_number(tolerance=tolerance)
    if tokens.ndim != 2 or tokens.is_floating_point() or tokens.dtype == torch.bool:
        raise ValueError(
            f"tokens must be integers (B, N), got shape {tuple(tokens.shape)} and dtype "
            f"{tokens.dtype}"
        )
    longest = tokens.shape[1] - last
    if longest < 1 or not len(tokens):
        raise ValueError(
            f"tokens must be (B, N) with N above last={last}, got shape {tuple(tokens.shape)}"
        )
    if contexts is None:
        contexts = [2**k for k in range(longest.bit_length()) if 2**k < longest] + [longest]
    check_whole(**{f"contexts[{i}]": c for i, c in enumerate(contexts)})
    contexts = tuple(sorted(set(contexts)))
    if not contexts or contexts[-1] > longest:
        raise ValueError(
            f"contexts must be from 1 to N - last = {longest}, which leaves {last} tokens to "
            f"predict, got contexts={contexts}"
        )
    with undisturbed(model):
        losses = torch.stack([_loss(model, tokens, c, last, batch) for c in contexts])
    allowed = (1 + tolerance) * losses[-1]
    effective = contexts[-1]
    for context, loss in reversed(list(zip(contexts, losses, strict=True))):
        if loss > allowed:
            break
        effective = context
    return EffectiveContext(contexts, losses, tolerance, effective, last * len(tokens))


def _loss(
    model: Callable[[Tensor], Any], tokens: Tensor, context: int, last: int, batch: int
) -> Tensor:
    targets = tokens[:, -last:].flatten()
    windows = tokens[:, -last - context : -1].unfold(1, context, 1).flatten(0, 1)
    sums = torch.zeros((), dtype=torch.float64, device=tokens.device)
    for start in range(0, len(targets), batch):
        seen, target = windows[start : start + batch], targets[start : start + batch]
        said = model(seen)
        logits = getattr(said, "logits", said)
        if not isinstance(logits, Tensor) or logits.shape[:-1] != seen.shape:
            came = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
            raise ValueError(
                f"model must make logits (B, N, V) of tokens (B, N)={tuple(seen.shape)}, got {came}"
            )
        sums += F.cross_entropy(logits[:, -1].double(), target.long(), reduction="sum")
    return sums / len(targets)
