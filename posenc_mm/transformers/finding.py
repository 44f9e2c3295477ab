"""Finding the decoder in a model of transformers, by what it has and not by its name."""

import inspect
from typing import Any, NamedTuple

from torch import nn

_CACHES = ("cache", "layer_past", "past_key_values", "past_key_value")
_GIVEN = ("hidden_states", "position_embeddings", "attention_mask")
# By the type that the configuration states: what is known of models that are refused.
REFUSED = {
    "bloom": "its attention adds an ALiBi of its own, made from the mask",
    "falcon": "its attention is code of its own, with an ALiBi inside",
    "gpt2": "it adds a learned table of positions to its tokens",
    "gpt_neo": "it adds a learned table of positions to its tokens",
    "gptj": "its tables are sines and cosines in this order, each for a pair",
    "mpt": "its attention adds an ALiBi of its own",
    "opt": "it adds a learned table of positions to its tokens",
    "t5": "its attention adds relative positions of its own",
}


class Decoder(NamedTuple):
    """The modules that matter.

    Attributes:
        name: of the model's class.
        module: the decoder, which has the others.
        rotary: called once per forward (and per type of layer).
        layers: in order.
        attentions: of each layer, or None of a layer without.
        names: of those within their layers.
        cache: by which argument an attention takes a cache.
    """

    name: str
    module: Any
    rotary: Any
    layers: list[Any]
    attentions: list[Any]
    names: list[str]
    cache: str

    @property
    def config(self) -> Any:
        """That of the decoder, not of a model of several parts around it."""
        return self.module.config


def find(model: nn.Module) -> Decoder:
    """Find the decoder.

    Args:
        model: a model of transformers, whole or without its head, or a wrapper of one.

    Returns:
        Its modules.

    Raises:
        ValueError: there is none, or more than one, that has the modules wanted.
    """
    found = [
        module
        for module in model.modules()
        if isinstance(getattr(module, "rotary_emb", None), nn.Module) and len(_lists(module)) == 1
    ]
    name = type(model).__name__
    kind = getattr(getattr(model, "config", None), "model_type", None)
    if kind in REFUSED:
        raise ValueError(f"nothing can be attached to a {name}: {REFUSED[kind]}")
    if len(found) != 1:
        raise ValueError(
            f"model must have one decoder of transformers, which is a module with a rotary_emb "
            f"beside its list of layers, got {len(found)} of them in a {name}"
        )
    (module,) = found
    layers = list(_lists(module)[0])
    pairs = [_attention(layer) for layer in layers]
    attentions = [attention for _, attention in pairs]
    present = [attention for attention in attentions if attention is not None]
    if not present or len(present) < len(layers):
        raise ValueError(
            f"model must have layers that each have an attention which takes position_embeddings, "
            f"got {len(present)} such of {len(layers)} layers in a {name}"
        )
    parameters = inspect.signature(present[0].forward).parameters
    caches = [each for each in _CACHES if each in parameters]
    if not caches or not hasattr(present[0], "layer_idx"):
        raise ValueError(
            f"model must have attentions with a layer_idx that take a cache by one of the names "
            f"{_CACHES}, got {type(present[0]).__name__} with {list(parameters)}"
        )
    beyond = [
        each.name
        for each in parameters.values()
        if each.default is each.empty
        and each.kind is each.POSITIONAL_OR_KEYWORD
        and each.name not in (*_GIVEN, *_CACHES)
    ]
    if beyond:
        raise ValueError(
            f"model must have attentions that need nothing but {_GIVEN}, that of {name} needs "
            f"{beyond} too"
        )
    names = [name for name, _ in pairs]
    return Decoder(name, module, module.rotary_emb, layers, attentions, names, caches[0])


def _lists(module: nn.Module) -> list[nn.ModuleList]:
    return [child for child in module.children() if isinstance(child, nn.ModuleList)]


def _attention(layer: nn.Module) -> tuple[str, Any]:
    for name, module in layer.named_modules():
        if name and "position_embeddings" in inspect.signature(module.forward).parameters:
            return name, module
    return "", None
