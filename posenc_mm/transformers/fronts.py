"""What stands in front of a model's rotary module and of its layers.

While something is attached, a class stands in front of a module's own. The rotary module, which the
model calls once per forward, answers with the cosines and sines of another encoding, in the form
that the model applies, and hands on what is said of the bias. A layer puts the bias into its mask
and calls its own code, so that whatever attention function the model is set to runs as it is.
"""

from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache

from posenc_mm.fronting import Fronted
from posenc_mm.transformers.probing import Form
from posenc_mm.transformers.said import Said

IMPLEMENTATIONS = ("sdpa", "eager")


class Slots(nn.ModuleDict):
    """What is attached: ``rotary``, one for all layers or a dictionary by type, and ``bias``.

    Attributes:
        forms: how the model applies a rotation, by type of layer, None if there are no types.
        count: layers of the model.
    """

    def __init__(
        self, given: dict[str, nn.Module], forms: dict[str | None, Form], count: int
    ) -> None:
        super().__init__(given)
        self.forms, self.count = forms, count

    def turning(self, name: str | None) -> Any:
        """The encoding that turns the layers of a type, if any."""
        own = self["rotary"] if "rotary" in self else None
        if isinstance(own, nn.ModuleDict):
            return own[name] if name is not None and name in own else None
        return own


class RotaryFront(Fronted):
    """A rotary module that evaluates what is in its ``posenc``."""

    posenc: Slots

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # What spreads a model over devices puts a forward into the module itself, before any class.
        if "forward" in self.__dict__:
            return RotaryFront.forward(self, *args, **kwargs)
        return super().__call__(*args, **kwargs)  # type: ignore[misc]

    def forward(self, x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> Any:
        slots = self.posenc
        if position_ids.ndim != 2:
            raise ValueError(
                f"position_ids must be (B, N), of one axis, got shape {tuple(position_ids.shape)}"
            )
        points = position_ids.unsqueeze(-1)
        form, encoding = slots.forms[layer_type], slots.turning(layer_type)
        if encoding is None:
            cos = torch.ones(*position_ids.shape, form.pairs, device=x.device)
            sin = torch.zeros_like(cos)
        else:
            rotation = encoding(points)
            cos, sin = rotation.cos, rotation.sin
        tables = (form.spread(cos).to(x.dtype), form.spread(sin).to(x.dtype))
        if "bias" not in slots:
            return tables
        bias: Any = slots["bias"]
        return (*tables, Said(bias, points, layer_type, slots.count))


class LayerFront(Fronted):
    """A layer whose mask gets the bias, outside of what is recomputed under checkpointing."""

    posenc_attention: str

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        layer: Any = self
        attention = layer.get_submodule(self.posenc_attention)
        *tables, said = kwargs["position_embeddings"]
        used = check_implementation(attention.config)
        checkpointed = getattr(layer, "gradient_checkpointing", False) and layer.training
        cache = next((value for value in kwargs.values() if isinstance(value, Cache)), None)
        if checkpointed and torch.is_grad_enabled():
            cache = None
        causal = kwargs.get("is_causal")
        causal = getattr(attention, "is_causal", True) if causal is None else causal
        kwargs["position_embeddings"] = tuple(tables)
        kwargs["attention_mask"] = said.mask(
            args[0] if args else kwargs["hidden_states"],
            kwargs.get("attention_mask"),
            cache,
            attention.layer_idx,
            causal and used == "sdpa",
        )
        return super().__call__(*args, **kwargs)  # type: ignore[misc]


def check_implementation(config: Any) -> str:
    """Refuse an attention function that takes no added mask.

    Args:
        config: of the decoder.

    Returns:
        The name of the function.

    Raises:
        ValueError: it is none of ``IMPLEMENTATIONS``.
    """
    used: str = config._attn_implementation
    if used not in IMPLEMENTATIONS:
        raise ValueError(
            f"bias needs an attention function that takes an added mask, one of {IMPLEMENTATIONS}, "
            f"got {used!r}: call model.set_attn_implementation('sdpa')"
        )
    return used
