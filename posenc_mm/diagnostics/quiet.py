"""Running a model such that nothing of it is another afterwards."""

import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def undisturbed(*parts: object) -> Iterator[None]:
    """Evaluate models within: no dropout, no gradients; modes and random numbers come back.

    What is compiled runs uncompiled, so that other lengths leave no graphs behind in a training.

    Args:
        parts: models; whatever is no module is left alone.

    Yields:
        Nothing.
    """
    models = [part for part in parts if isinstance(part, nn.Module)]
    modes = [(module, module.training) for model in models for module in model.modules()]
    tensors = [x for model in models for x in (*model.parameters(), *model.buffers())]
    devices = sorted({x.device.index or 0 for x in tensors if x.device.type == "cuda"})
    drawn = random.getstate()
    with (
        torch.random.fork_rng(devices),
        torch.no_grad(),
        torch.compiler.set_stance("force_eager"),
        warnings.catch_warnings(),
    ):
        # That is what is wanted here, of FlexAttention too.
        warnings.filterwarnings("ignore", message="flex_attention called without torch.compile")
        # Not eval(): some modules do more there than to take a mode.
        for module, _ in modes:
            module.training = False
        try:
            yield
        finally:
            for module, mode in modes:
                module.training = mode
            random.setstate(drawn)
