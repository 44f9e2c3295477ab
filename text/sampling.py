"""Token by token: a model goes on with a text, and remembers what it has read."""

from collections.abc import Iterator

import torch
from torch import Tensor

from posenc_mm import KVCache, sequence
from text.networks import TokenTransformer


@torch.no_grad()
def continuation(
    network: TokenTransformer,
    tokens: Tensor,
    count: int,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    generator: torch.Generator | None = None,
) -> Iterator[Tensor]:
    """Go on with texts, one token at a time; what was read once is not read again.

    Args:
        network: to ask.
        tokens: ``(B, N)`` the beginnings, at least one token each.
        count: tokens to add.
        temperature: divides the logits; 0 always takes the likeliest token.
        top_k: how many of the likeliest tokens may be drawn; all unless given.
        generator: source of chance.

    Yields:
        ``(B,)``, the next token of each text.

    Raises:
        ValueError: an argument is out of range, or an encoding cannot read as far.
    """
    if tokens.ndim != 2 or tokens.shape[1] < 1:
        raise ValueError(f"tokens must be (B, N) with N at least 1, got {tuple(tokens.shape)}")
    if not temperature >= 0:
        raise ValueError(f"temperature must be at least 0, got temperature={temperature}")
    if top_k is not None and top_k < 1:
        raise ValueError(f"top_k must be at least 1, got top_k={top_k}")
    # The last token is drawn, but never read.
    refusal = network.refusal(tokens.shape[1] + count - 1)
    if refusal is not None:
        raise ValueError(f"{tokens.shape[1]} tokens and {count} more are too many: {refusal}")
    cache, fresh = KVCache(), tokens
    for _ in range(count):
        positions = sequence(fresh.shape[1], offset=len(cache), device=tokens.device)
        logits = network(fresh, positions, cache=cache)[:, -1]
        chosen = choose(logits, temperature=temperature, top_k=top_k, generator=generator)
        yield chosen
        fresh = chosen.unsqueeze(1)


def choose(
    logits: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw tokens ``(B,)`` by their logits ``(B, tokens)``, as :func:`continuation` says."""
    if temperature == 0:
        return logits.argmax(-1)
    likeliest, tokens = logits.float().topk(min(top_k or logits.shape[-1], logits.shape[-1]))
    # From the largest on, so that no temperature, however small, makes all of them vanish.
    weights = ((likeliest - likeliest[:, :1]) / temperature).exp()
    drawn = torch.multinomial(weights, 1, generator=generator)
    return tokens.gather(1, drawn).squeeze(1)
