"""A short training at a longer length."""

import copy
import time
from collections.abc import Callable
from typing import Any

import torch

from text.decoder import Decoder
from text.stretching.reading import Reading, losses, rotary

WARM = 0.1


def tune(
    study: Any,
    reading: Reading,
    length: int,
    options: Any,
    tell: Callable[[float, float], None],
) -> tuple[Decoder, dict[str, Any]]:
    """Train a copy of the decoder on windows of the part of the text to train on.

    AdamW, with a rate that rises for a tenth of the time and falls to zero. Windows begin anywhere.

    Args:
        study: the decoder and the text.
        reading: the way to read in training.
        length: tokens of a window.
        options: as parsed; a training ends after ``steps`` steps or ``minutes`` minutes, whichever
            comes first, and each step reads as many tokens whatever the length.
        tell: takes the share that is done and the loss.

    Returns:
        The trained decoder, and steps, tokens and seconds.
    """
    opened = study.opened
    decoder = copy.deepcopy(opened.decoder).train()
    decoder.rotary = rotary(opened.settings, opened.layout, reading, length)
    tokens = study.parts["train"].to(study.device)
    draw = torch.Generator().manual_seed(options.seed)
    rates = [{"params": [p for p in decoder.parameters() if p.ndim > 1], "weight_decay": 0.05},
             {"params": [p for p in decoder.parameters() if p.ndim < 2]}]  # fmt: skip
    optimizer = torch.optim.AdamW(rates, lr=options.lr, weight_decay=0.0, betas=(0.9, 0.95))
    # A step reads as many tokens whatever the length, so that trainings of as many steps compare.
    together = max(1, round(options.tune_factor * opened.length) // length)
    start, done, share = time.perf_counter(), 0, 0.0
    while share < 1:
        for group in optimizer.param_groups:
            group["lr"] = options.lr * min((share + 0.01) / WARM, (1 - share) / (1 - WARM))
        firsts = torch.randint(len(tokens) - length, (together,), generator=draw).tolist()
        windows = torch.stack([tokens[first : first + length + 1] for first in firsts])
        loss = losses(decoder, reading, windows).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
        optimizer.step()
        done += 1
        spent = time.perf_counter() - start
        share = min(1.0, max(done / options.steps, spent / (60 * options.minutes)))
        tell(share, loss.item())
    seconds = time.perf_counter() - start
    told = {"steps": done, "tokens_seen": done * together * length, "training_seconds": seconds}
    return decoder.eval(), told
