"""Putting encodings on a timm model and taking them off."""

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from torch import Tensor, nn

from posenc_mm.additive import AdditiveEncoding, ConditionalEncoding
from posenc_mm.bias import AttentionBias
from posenc_mm.fronting import fronted, restore
from posenc_mm.placed import Placed
from posenc_mm.rotary import RotaryEncoding
from posenc_mm.timm.blocks import StageFront, attentions_of, front_of
from posenc_mm.timm.families import family_of
from posenc_mm.timm.fitting import check_blocks, check_fit
from posenc_mm.timm.naflex import AttachedNaFlex, EmbedsFront
from posenc_mm.timm.probing import CustomFront, probe
from posenc_mm.timm.slots import KINDS, Slots
from posenc_mm.timm.views import Attached, Front

Model = TypeVar("Model", bound=nn.Module)
Several = Sequence[Any]


def attach(
    model: Model,
    *,
    additive: AdditiveEncoding | ConditionalEncoding | Placed | None = None,
    rotary: RotaryEncoding | Placed | Several | None = None,
    bias: AttentionBias | Placed | Several | None = None,
    positions: Callable[..., Tensor] | None = None,
    keep_native: bool = False,
) -> Model:
    """Put encodings on a timm model in place of its own; none at all is NoPE.

    Each encoding is evaluated once per forward, at the patches of that forward's grid, whatever its
    size and shape; in Swin and SAM at the patches of a window. Prefix tokens (class, distillation,
    register) are not added to, do not turn, and have a bias of zero unless the bias has numbers for
    them. The encodings become the submodule ``posenc``. The model's own stay in its state dict,
    frozen. Gradient checkpointing, patch dropout, ``attn_mask``, dynamic sizes and feature
    extraction work as before. ``docs/timm.md`` says which family takes which slot.

    A block of the caller's own is tried once, without gradients, on a few tokens: it must call a
    known attention as ``self.attn(x, ...)``, or it is refused.

    Args:
        model: a model of a family in ``docs/timm.md``; changed in place.
        additive: added to the patch tokens where the model adds its own embedding. A
            ``ConditionalEncoding`` is applied to them after the first block.
        rotary: turns queries and keys in every attention, after their norms. A list has one for
            each block, or for each stage, in order.
        bias: added to the attention logits of every block; not one that acts after the softmax. A
            list as for ``rotary``: Swin's stages differ in their number of heads.
        positions: makes positions ``(N, A)``, or ``(B, N, A)`` for each sample's own, from a height
            and a width in patches and a ``device``. By default :func:`posenc_mm.grid`, for an
            encoding with ``sizes`` rescaled to them. A :class:`posenc_mm.placed.Placed` in a slot
            has its own. It is called once per forward for all slots that share it, and checkpointed
            blocks see that call's answer again: what is drawn at random stays the same. A function
            with an argument ``training`` is told while the model trains
            (:class:`posenc_mm.positions.AugmentedGrid`), and draws once for the batch.
        keep_native: leave the model's own encodings in force beside these.

    Returns:
        ``model`` itself.

    Raises:
        ValueError: something is attached already; the model, its blocks or the installed timm
            cannot carry the slot; an encoding is of another kind than its slot, or does not fit the
            width, heads or axes. The model is then as it was.

    Example:
        >>> import timm
        >>> import torch
        >>> from posenc_mm.rotary import Rotary
        >>> model = timm.create_model(
        ...     "vit_tiny_patch16_224", img_size=(16, 24), patch_size=8, embed_dim=32, depth=2,
        ...     num_heads=2, num_classes=5)
        >>> model = attach(model, rotary=Rotary(head_dim=16, axes=2, base=100.0))
        >>> model(torch.zeros(1, 3, 16, 24)).shape
        torch.Size([1, 5])
    """
    if isinstance(model, Attached):
        raise ValueError(f"model has encodings attached, detach them first: {model.posenc}")
    name, family = family_of(model)
    given = {}
    for slot, asked in (("additive", additive), ("rotary", rotary), ("bias", bias)):
        if asked is None:
            continue
        if slot in family.refused:
            raise ValueError(f"{slot} does not fit a {name} of timm: {family.refused[slot]}")
        given[slot] = _placed(slot, asked, positions)
    blocks = family.blocks_of(model)
    inside = "rotary" in given or "bias" in given
    for slot in ("rotary", "bias"):
        if slot in given:
            check_blocks(blocks, slot)
    spread = {slot: _spread(slot, given[slot], family.stages_of(model)) for slot in given}
    slots = Slots(given, spread, keep_native)
    family.check(model, slots)
    slots.to(next(model.parameters()).device).train(model.training)
    check_fit(family, model, slots)
    if inside or family.inside:
        _front(blocks)
        for stage in family.stages(model):
            stage.__class__ = fronted(StageFront, type(stage))
        try:
            probe(model, blocks, slots)
        except ValueError:
            restore(model)
            raise
    if family is AttachedNaFlex:
        host: Any = model
        host.embeds.__class__ = fronted(EmbedsFront, type(host.embeds))
    if not keep_native:
        for key, parameter in model.named_parameters():
            if parameter.requires_grad and re.fullmatch(family.native, key):
                parameter.requires_grad_(False)
                slots.frozen.append(key)
    model.add_module("posenc", slots)
    model.__class__ = fronted(family, type(model))
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
        >>> import timm
        >>> model = timm.create_model("vit_tiny_patch16_224", depth=1, embed_dim=12)
        >>> detach(attach(model)) is model
        True
    """
    if not isinstance(model, Attached):
        raise ValueError(f"model has nothing attached, got a {type(model).__name__} as it comes")
    parameters = dict(model.named_parameters())
    for name in model.posenc.frozen:
        parameters[name].requires_grad_(True)
    del model.posenc
    restore(model)
    return model


def _placed(slot: str, asked: Any, positions: Any) -> list[Placed]:
    """The encodings of a slot, each with what makes its positions."""
    several = (
        isinstance(asked, Sequence)
        and not isinstance(asked, Placed)
        or isinstance(asked, nn.ModuleList)
    )
    if several and slot == "additive":
        raise ValueError(f"additive must be one encoding, as it acts in one place, got {asked!r}")
    each = []
    for one in asked if several else [asked]:
        placed = one if isinstance(one, Placed) else Placed(one, positions)
        kinds = (KINDS[slot], ConditionalEncoding) if slot == "additive" else (KINDS[slot],)
        if not isinstance(placed.encoding, kinds):
            raise ValueError(
                f"{slot} must be of class {KINDS[slot].__name__}, got {placed.encoding!r}"
            )
        if getattr(placed.encoding, "after_softmax", False):
            raise ValueError(
                f"bias must act on the logits, where timm's attention takes one: "
                f"{type(placed.encoding).__name__} acts after the softmax, as posenc_mm.attend and "
                f"Transformer apply it"
            )
        each.append(placed)
    return each


def _spread(slot: str, placed: list[Placed], stages: list[int]) -> list[int]:
    """Which encoding each block has: all the same, each its own, or each its stage's."""
    blocks = sum(stages)
    if len(placed) == 1:
        return [0] * blocks
    if len(placed) == blocks:
        return list(range(blocks))
    if len(placed) == len(stages):
        return [stage for stage, count in enumerate(stages) for _ in range(count)]
    raise ValueError(
        f"{slot} must be one encoding, or a list of one for each of {blocks} blocks or "
        f"{len(stages)} stages, got {len(placed)}"
    )


def _front(blocks: dict[str, Any]) -> None:
    for name, block in blocks.items():
        for _, attention in list(attentions_of(name, block)):
            inner = front_of(attention)
            if attention is not block and inner is not None and not isinstance(attention, Front):
                attention.__class__ = fronted(inner, type(attention))
        if not isinstance(block, Front):
            block.__class__ = fronted(front_of(block) or CustomFront, type(block))
