"""How a model applies a rotation, found out by trying its own modules on three tokens."""

import copy
import inspect
from typing import Any, NamedTuple

import torch
from torch import Tensor

from posenc_mm.rotary import Rotary, rotate
from posenc_mm.transformers.finding import Decoder

PLACES = (1, 5, 11)
# A single pair is the same in both: then it has the name of the first.
LAYOUTS = ("half", "interleaved")


class Form(NamedTuple):
    """In what form a model wants cosines and sines, and what it turns by them.

    Attributes:
        head_dim: channels of a head.
        pairs: how many pairs of them turn.
        order: ``"halves"``: one for each channel, pairs then pairs again; ``"repeated"``: each
            twice; ``"single"``: one for each pair.
        layout: where the members of a pair sit.
    """

    head_dim: int
    pairs: int
    order: str
    layout: str

    def spread(self, values: Tensor) -> Tensor:
        """Bring ``(..., F)`` into that form."""
        if self.order == "halves":
            return torch.cat((values, values), dim=-1)
        return values.repeat_interleave(2, dim=-1) if self.order == "repeated" else values


class _Seen:
    """In place of a cache: sees the keys that an attention would store."""

    keys: Tensor

    def update(self, keys: Tensor, values: Tensor, *args: Any, **kwargs: Any) -> Any:
        self.keys = keys
        return keys, values


@torch.no_grad()
def forms_of(decoder: Decoder) -> dict[str | None, Form]:
    """Find the form for each type of layer.

    Args:
        decoder: its modules.

    Returns:
        By type; under None where the model does not tell layers apart.

    Raises:
        ValueError: the model's tables are no pair of tables, or what it does with them is no
            rotation of pairs in a known layout.
    """
    if "layer_type" not in inspect.signature(decoder.rotary.forward).parameters:
        return {None: _form(decoder, decoder.attentions, None)}
    types = list(decoder.config.layer_types)
    forms: dict[str | None, Form] = {}
    for name in dict.fromkeys(types):
        own = [a for a, each in zip(decoder.attentions, types, strict=True) if each == name]
        forms[name] = _form(decoder, own, name)
    return forms


def _form(decoder: Decoder, attentions: list[Any], name: str | None) -> Form:
    own = _own_tables(decoder, attentions, name)
    order, pairs = _order(own[0])
    for attention in attentions:
        shell = Form(0, pairs, order, "half")
        still = torch.ones(1, len(PLACES), pairs)
        plain = _keys(decoder, attention, shell.spread(still), shell.spread(still * 0))
        size = plain.shape[-1]
        for layout in LAYOUTS if 2 * pairs <= size else ():
            speeds = [[0.3 + index / pairs for index in range(pairs)]]
            rotation = Rotary(size, frequencies=speeds, layout=layout)(
                torch.tensor(PLACES, device=plain.device)[:, None]
            )
            tables = [shell.spread(each[None]) for each in (rotation.cos, rotation.sin)]
            turned = _keys(decoder, attention, *tables)
            if _near(turned, rotate(plain, rotation)):
                return Form(size, pairs, order, layout)
        if not _near(turned, plain):
            break  # Not one of the layers that do without rotation.
    raise ValueError(
        f"model must turn the first {2 * pairs} channels of its keys in pairs, in one of the "
        f"layouts {LAYOUTS}, by the tables that its rotary_emb makes: {decoder.name} does not"
    )


def _own_tables(decoder: Decoder, attentions: list[Any], name: str | None) -> Any:
    # A copy, as some of transformers' own keep the longest length that they have seen.
    rotary = copy.deepcopy(decoder.rotary)
    hidden = _hidden(decoder, attentions[0])
    ids = torch.tensor([PLACES], device=hidden.device)
    own = rotary(hidden, ids) if name is None else rotary(hidden, ids, name)
    if not isinstance(own, tuple) or len(own) != 2 or own[0].shape[:2] != (1, len(PLACES)):
        came = tuple(own.shape) if isinstance(own, Tensor) else type(own).__name__
        raise ValueError(
            f"model must have a rotary_emb that makes cosines and sines (B, N, W), that of "
            f"{decoder.name} makes {came}"
        )
    return own


def _order(cos: Tensor) -> tuple[str, int]:
    width = cos.shape[-1]
    if width % 2 == 0 and torch.equal(cos[..., : width // 2], cos[..., width // 2 :]):
        return "halves", width // 2
    if width % 2 == 0 and torch.equal(cos[..., 0::2], cos[..., 1::2]):
        return "repeated", width // 2
    return "single", width


def _hidden(decoder: Decoder, attention: Any) -> Tensor:
    device = next(attention.parameters()).device
    if device.type == "meta":
        raise ValueError(
            "model must have its weights to be tried on a few tokens, got a model on meta: load it "
            "first, and do not offload its first layer"
        )
    size = decoder.config.hidden_size
    values = torch.arange(len(PLACES) * size, device=device, dtype=torch.float32)
    waves = torch.sin(values * values * 0.37)
    return waves.reshape(1, -1, size).to(decoder.module.dtype)


def _keys(decoder: Decoder, attention: Any, cos: Tensor, sin: Tensor) -> Tensor:
    hidden = _hidden(decoder, attention)
    seen, training = _Seen(), attention.training
    tables = (cos.to(hidden), sin.to(hidden))
    # No dropout, which would draw from the caller's random numbers.
    attention.training = False
    try:
        attention(
            hidden,
            position_embeddings=tables,
            attention_mask=None,
            **{decoder.cache: seen},
        )
    finally:
        attention.training = training
    return seen.keys.float()


def _near(a: Tensor, b: Tensor) -> bool:
    return bool((a - b).abs().amax() <= 0.03 * b.abs().amax())
