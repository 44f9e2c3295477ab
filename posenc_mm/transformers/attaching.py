"""Putting encodings on a decoder of transformers and taking them off."""

from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from torch import nn

from posenc_mm.bias import AttentionBias
from posenc_mm.fronting import Fronted, fronted
from posenc_mm.rotary import RotaryEncoding, XPos
from posenc_mm.scaling import Scaling, from_hf
from posenc_mm.transformers.finding import Decoder, find
from posenc_mm.transformers.fronts import LayerFront, RotaryFront, Slots, check_implementation
from posenc_mm.transformers.probing import Form, forms_of
from posenc_mm.transformers.scaled import Scaled

Model = TypeVar("Model", bound=nn.Module)
Turning = RotaryEncoding | Scaling


def attach(
    model: Model,
    *,
    rotary: Turning | Mapping[str, Turning | None] | None = None,
    bias: AttentionBias | None = None,
) -> Model:
    """Put encodings on a decoder of transformers in place of its rotation; none at all is NoPE.

    Encodings are evaluated once per forward, at the ``position_ids`` of that forward: with
    ``generate``, left padding does not count. The positions of cached keys are kept in the cache,
    so that a bias is right with growing, fixed, windowed and reordered ones. The encodings become
    the submodule ``posenc`` of the model's ``rotary_emb``. Layers that do not turn by design, as
    in SmolLM3, do not turn now. ``docs/transformers.md`` says which families work.

    The model's attention is tried once, without gradients, on three tokens: it must turn pairs of
    channels by the tables of its ``rotary_emb``, or it is refused.

    References:
        Wolf et al.: Transformers: State-of-the-Art Natural Language Processing (2020),
        https://arxiv.org/abs/1910.03771

    Args:
        model: a model of a family in ``docs/transformers.md``; changed in place.
        rotary: turns queries and keys. It reads one axis, turns as many channels as the model's
            own and has the model's layout. A scaling stands for the model's own frequencies under
            it, ``Unscaled()`` for these as they are. A dictionary has one for each of the
            model's types of layers, None for no rotation.
        bias: added to the attention logits of every layer, after any soft cap.

    Returns:
        ``model`` itself.

    Raises:
        ValueError: something is attached already; the model cannot carry the slot; an encoding is
            of another kind than its slot, or does not fit the layout, width, heads or axes. The
            model is then as it was.

    Example:
        >>> import torch
        >>> from transformers import LlamaConfig, LlamaForCausalLM
        >>> from posenc_mm import ALiBi
        >>> model = LlamaForCausalLM(LlamaConfig(
        ...     vocab_size=9, hidden_size=16, intermediate_size=8, num_hidden_layers=1,
        ...     num_attention_heads=2))
        >>> model = attach(model, bias=ALiBi(heads=2))
        >>> model(torch.tensor([[1, 2, 3]])).logits.shape
        torch.Size([1, 3, 9])
    """
    if any(isinstance(module, Fronted) for module in model.modules()):
        raise ValueError(f"model has encodings attached, detach them first: {type(model).__name__}")
    decoder = find(model)
    forms = forms_of(decoder)
    given: dict[str, nn.Module] = {}
    if rotary is not None:
        given["rotary"] = _checked_rotary(decoder, forms, rotary)
    if bias is not None:
        _check_bias(decoder, bias)
        given["bias"] = bias
    slots = Slots(given, forms, len(decoder.layers))
    # Not the device of the first weight of all, which may be offloaded: this one was just tried.
    slots.to(next(decoder.attentions[0].parameters()).device).train(model.training)
    decoder.rotary.add_module("posenc", slots)
    decoder.rotary.__class__ = fronted(RotaryFront, type(decoder.rotary))
    if bias is not None:
        for layer, name in zip(decoder.layers, decoder.names, strict=True):
            layer.posenc_attention = name
            layer.__class__ = fronted(LayerFront, type(layer))
    return model


def detach(model: Model) -> Model:
    """Take off what :func:`attach` put on: the model is again, bit for bit, what it was.

    Args:
        model: an attached model; changed in place. What its encodings have learned goes with them.

    Returns:
        ``model`` itself.

    Raises:
        ValueError: nothing is attached.

    Example:
        >>> from transformers import LlamaConfig, LlamaModel
        >>> model = LlamaModel(LlamaConfig(
        ...     vocab_size=9, hidden_size=16, intermediate_size=8, num_hidden_layers=1,
        ...     num_attention_heads=2))
        >>> detach(attach(model)) is model
        True
    """
    fronts: list[Any] = [module for module in model.modules() if isinstance(module, Fronted)]
    if not fronts:
        raise ValueError(f"model has nothing attached, got a {type(model).__name__} as it comes")
    for module in fronts:
        if isinstance(module, RotaryFront):
            del module.posenc
        else:
            del module.posenc_attention
        module.__class__ = module._original
    return model


def _checked_rotary(decoder: Decoder, forms: dict[str | None, Form], asked: Any) -> nn.Module:
    several = isinstance(asked, Mapping)
    if several and set(asked) != set(forms):
        wanted = "one encoding" if None in forms else f"a dictionary with keys {list(forms)}"
        raise ValueError(f"rotary must be {wanted} for a {decoder.name}, got keys {list(asked)}")
    made = {
        name: _fitted(decoder, form, name, asked[name] if several else asked)
        for name, form in forms.items()
    }
    # A scaling reads each type's own base; any other single encoding is one module for all.
    if None in forms or not (several or isinstance(asked, Scaling)):
        fitted: nn.Module = next(iter(made.values()))
        return fitted
    return nn.ModuleDict({str(name): each for name, each in made.items() if each is not None})


def _fitted(decoder: Decoder, form: Form, name: str | None, asked: Any) -> Any:
    if asked is None:
        return None
    if isinstance(asked, Scaling):
        asked = Scaled(from_hf(decoder.config, layer_type=name), asked, form.layout)
        factor = asked.settings.scaling.softmax_factor
    elif isinstance(asked, XPos):
        raise ValueError(
            f"rotary must turn queries and keys alike, as {decoder.name} turns both by one "
            f"rotation, got {asked}, which fades them in opposite ways: posenc_mm.Transformer "
            f"takes it"
        )
    elif isinstance(asked, RotaryEncoding):
        factor = getattr(asked, "softmax_factor", 1.0)
        if asked.head_dim != form.head_dim:
            raise ValueError(
                f"rotary must be for head_dim={form.head_dim}, the channels of a head of "
                f"{decoder.name}, got head_dim={asked.head_dim}"
            )
    else:
        raise ValueError(
            f"rotary must be a RotaryEncoding or a scaling of posenc_mm.scaling, got {asked!r}"
        )
    if factor != 1.0:
        raise ValueError(
            f"rotary has a softmax_factor of {factor}, which the attention of {decoder.name} does "
            f"not apply: give the scaling scale_softmax=False, or fold it into the query weights"
        )
    _check_rotation(decoder, form, asked)
    return asked


def _check_rotation(decoder: Decoder, form: Form, encoding: nn.Module) -> None:
    with torch.no_grad():
        device = next((p.device for p in encoding.parameters()), "cpu")
        rotation = encoding(torch.tensor([[[0], [1]]], device=device))
    odd = rotation.per_head or rotation.basis is not None or rotation.matrices is not None
    if odd:
        raise ValueError(
            f"rotary must turn pairs of channels, the same in all heads, as the attention of "
            f"{decoder.name} does, got {encoding}"
        )
    layout = rotation.layout
    if layout == "axis_half" and rotation.blocks == 1:
        layout = "half"
    if layout != form.layout and form.pairs > 1:
        raise ValueError(
            f"rotary must have layout={form.layout!r}, by which {decoder.name} pairs channels, got "
            f"layout={layout!r}: make it with that layout; only weights that were trained with the "
            f"other one need posenc_mm.converting.convert_checkpoint"
        )
    if rotation.cos.shape[-1] != form.pairs:
        raise ValueError(
            f"rotary must turn {2 * form.pairs} channels, as {decoder.name} does, got "
            f"{2 * rotation.cos.shape[-1]}: frequencies of 0 leave pairs as they are"
        )


def _check_bias(decoder: Decoder, bias: Any) -> None:
    if not isinstance(bias, AttentionBias):
        raise ValueError(f"bias must be of class AttentionBias, got {bias!r}")
    if bias.after_softmax:
        raise ValueError(
            f"bias must act on the logits, where an attention of transformers takes one: "
            f"{type(bias).__name__} acts after the softmax, as posenc_mm.attend applies it"
        )
    heads = decoder.config.num_attention_heads
    if bias.heads != heads:
        raise ValueError(f"bias must be for the {heads} heads of {decoder.name}, got {bias.heads}")
    if not decoder.module._supports_attention_backend:
        raise ValueError(
            f"bias needs an attention that runs through the attention interface of transformers, "
            f"that of {decoder.name} does not"
        )
    check_implementation(decoder.config)
    with torch.no_grad():
        device = next((p.device for p in bias.parameters()), "cpu")
        points = torch.tensor([[0], [1]], device=device)
        bias(points, points)
