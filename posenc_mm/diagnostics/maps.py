"""The attention weights of any model, layer by layer."""

from typing import Any

from torch import nn

from posenc_mm.diagnostics.quiet import undisturbed
from posenc_mm.diagnostics.watching import Watch
from posenc_mm.diagnostics.weights import AttentionMap


def attention_maps(model: nn.Module, *inputs: Any, **keywords: Any) -> list[AttentionMap]:
    r"""Run a model once and give the weights of each attention in it.

    .. math:: w_{hij} = \mathrm{softmax}_j(s \, q_{hi} \cdot k_{hj} + b_{hij})

    Fused kernels never make these numbers: they are computed here from the queries, keys and masks
    that the kernels are given, in float32 or wider. So this works for
    :class:`posenc_mm.Transformer` and whatever calls :func:`posenc_mm.attend`, on every backend;
    for timm, transformers and torch's own modules; and for attention written out in Python, whose
    weights are taken as the values meet them. Compiled models run uncompiled. A layer that is
    called an attention and shows no weights is an error, never left out.

    The memory is that of all weights, ``B * H * N * M`` numbers a layer: give it few samples.

    Args:
        model: any; it runs in evaluation mode, without gradients, and is left as it was.
        inputs: as the model is called.
        keywords: likewise.

    Returns:
        A map for each attention, in the order in which they run.

    Raises:
        ValueError: a layer shows no weights, or nothing in the model attends.

    Example:
        >>> import torch
        >>> from posenc_mm import ALiBi, Transformer, sequence
        >>> model = Transformer(dim=16, depth=2, heads=2, bias=ALiBi(2), causal=True)
        >>> maps = attention_maps(model, torch.randn(1, 5, 16), sequence(5))
        >>> [m.layer for m in maps], maps[0].weights.shape
        (['blocks.0.attention', 'blocks.1.attention'], torch.Size([1, 2, 5, 5]))
    """
    watch = Watch()
    with undisturbed(model), watch.on(model):
        model(*inputs, **keywords)
    if watch.refused:
        layer, why = next(iter(watch.refused.items()))
        more = f" ({len(watch.refused)} layers in all)" if len(watch.refused) > 1 else ""
        raise ValueError(f"layer {layer!r} gave no weights{more}: {why}")
    if not watch.maps:
        raise ValueError(
            f"model must attend, but nothing in this {type(model).__name__} called an attention "
            f"that torch knows, nor multiplied values by a softmax (B, H, N, M)"
        )
    return watch.maps
