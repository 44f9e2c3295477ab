"""Whether encodings fit a model: the code of its blocks, widths, heads and axes."""

import inspect
from typing import Any

import timm
import torch

from posenc_mm.additive import ConditionalEncoding
from posenc_mm.timm.attentions import ATTENTIONS
from posenc_mm.timm.blocks import attentions_of, front_of, heads_of
from posenc_mm.timm.slots import Here, Slots
from posenc_mm.timm.views import Attached

_MASKS = ("attn_mask", "shared_rel_pos_bias", "shared_rel_pos", "mask")


def check_blocks(blocks: dict[str, Any], slot: str) -> None:
    """Refuse blocks whose attention is unknown, or takes no mask where there is to be a bias.

    Args:
        blocks: by name.
        slot: ``"rotary"`` or ``"bias"``.

    Raises:
        ValueError: with the name and class of the block.
    """
    for name, block in blocks.items():
        attentions = list(attentions_of(name, block))
        for _, attention in attentions or [(name, None)]:
            if attention is None or front_of(attention) is None:
                known = sorted({own for _, fronts in ATTENTIONS for own in fronts})
                inside = "" if attention is None else f" with {type(attention).__name__}"
                raise ValueError(
                    f"{slot} needs blocks with one of timm's attentions {known}, of which is known "
                    f"where queries and keys are; {name} is a {type(block).__name__}{inside}"
                )
            taken = inspect.signature(type(attention).forward).parameters
            if slot == "bias" and not set(taken) & set(_MASKS):
                raise ValueError(
                    f"bias needs attentions that take attn_mask, as timm's do from 1.0.16 on; "
                    f"{type(attention).__name__} of timm {timm.__version__} does not"
                )


def check_fit(family: type[Attached], model: Any, slots: Slots) -> None:
    """Evaluate all encodings once, and compare what they say with the model.

    Args:
        family: of the model.
        model: not yet attached.
        slots: its encodings.

    Raises:
        ValueError: a width, a number of heads or of channels differs; or an encoding's own, for
            another number of axes.
    """
    shape = getattr(model, "tokens_spatial_shape", None)
    device = next(model.parameters()).device
    here = Here((2, 3) if shape is None else (2,) * (len(shape) - 1) + (3,), device)
    with torch.no_grad():
        if "additive" in slots:
            _check_additive(family, model, slots, here)
        places = family.places(model, here)
        blocks = family.blocks_of(model)
        for slot, check in (("rotary", _check_rotation), ("bias", _check_bias)):
            if slot not in slots:
                continue
            said = slots.each(slot, places)
            encodings = [encoding for encoding, _ in slots.placed(slot)]
            for index, (name, block) in enumerate(blocks.items()):
                answer = said[index if len(said) > 1 else 0]
                encoding = encodings[slots.spread[slot][index]]
                for _, attention in attentions_of(name, block):
                    check(encoding, answer, attention, f"the attention of {name}")


def _check_additive(family: type[Attached], model: Any, slots: Slots, here: Here) -> None:
    ((encoding, maker),) = slots.placed("additive")
    width = family.width(model)
    if isinstance(encoding, ConditionalEncoding):
        if not family.conditional:
            raise ValueError(
                f"additive must not be a conditional encoding in a {type(model).__name__}, where "
                f"tokens change their places between blocks; got {type(encoding).__name__}"
            )
        points = here.positions(encoding, maker)
        tokens = torch.zeros(1, points.shape[-2], width, device=here.device)
        encoding(tokens, points)
    elif (found := slots.added(here).shape[-1]) != width:
        raise ValueError(f"additive has width {found}, but the model's embed_dim is {width}")


def _check_bias(encoding: Any, bias: Any, attention: Any, where: str) -> None:
    heads = heads_of(attention)[0]
    if bias.shape[-3] != heads:
        raise ValueError(f"bias has {bias.shape[-3]} heads, but {where} has {heads}")


def _check_rotation(encoding: Any, rotation: Any, attention: Any, where: str) -> None:
    _, heads, width = heads_of(attention)
    if getattr(encoding, "softmax_factor", 1.0) != 1.0:
        raise ValueError(
            f"rotary brings a factor on the logits, {encoding.softmax_factor}, which timm's "
            f"attention does not apply: say scale_softmax=False of its scaling"
        )
    turning = 2 * rotation.cos.shape[-1]
    if turning > width:
        raise ValueError(f"rotary turns {turning} channels, but {where} has {width} in a head")
    if encoding.head_dim != width:
        raise ValueError(
            f"rotary is for heads of {encoding.head_dim} channels, but {where} has {width}; to "
            f"turn a part of them, say rotary_dim"
        )
    if rotation.per_head and heads != {rotation.cos.shape[-3]}:
        raise ValueError(
            f"rotary is for {rotation.cos.shape[-3]} heads, but {where} has {sorted(heads)} heads "
            f"of queries and keys"
        )
