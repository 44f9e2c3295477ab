"""Putting encodings on a timm model and taking them off: what fits where, and what is refused."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import timm
import torch
from timm.models import eva, vision_transformer
from timm.models.deit import VisionTransformerDistilled
from timm.models.eva import Eva
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from posenc_mm.additive import AdditiveEncoding
from posenc_mm.bias import AttentionBias
from posenc_mm.rotary import RotaryEncoding
from posenc_mm.timm.views import (
    Attached,
    Fronted,
    Slots,
    TurningAttention,
    TurningBlock,
    fronted,
)

Model = TypeVar("Model", bound=nn.Module)

_KINDS: dict[str, type] = {
    "additive": AdditiveEncoding,
    "rotary": RotaryEncoding,
    "bias": AttentionBias,
}
_MODELS = (VisionTransformer, VisionTransformerDistilled, Eva)
# By name, as timm's releases differ in which of them they have and where.
_BLOCKS = ("Block", "ResPostBlock", "EvaBlock", "EvaBlockPostNorm")
_ATTENTIONS = ("Attention", "AttentionRope", "EvaAttention")


def attach(
    model: Model,
    *,
    additive: AdditiveEncoding | None = None,
    rotary: RotaryEncoding | None = None,
    bias: AttentionBias | None = None,
    positions: Callable[[int, int, torch.device], Tensor] | None = None,
    keep_native: bool = False,
) -> Model:
    """Put encodings on a timm model in place of its own; none at all is NoPE.

    Each encoding is evaluated once per forward, at the patches of that forward's grid, whatever its
    size and shape. Prefix tokens (class, distillation, register) are not added to, do not turn and
    have a bias of zero. The encodings become the submodule ``posenc``. The model's own stay in its
    state dict, frozen. Gradient checkpointing, patch dropout, ``attn_mask``, dynamic sizes and
    feature extraction work as before.

    Args:
        model: a ``VisionTransformer`` (ViT, DeiT, DeiT III, DINOv2, CLIP, ...) or ``Eva`` (EVA-02,
            DINOv3, Perception Encoder, rope ViTs, ...); changed in place.
        additive: added to the patch tokens where the model adds its own embedding.
        rotary: turns queries and keys in every block, after their norms.
        bias: added to the attention logits of every block; not one that acts after the softmax.
        positions: makes positions ``(N, A)`` from a height and a width in patches and a device. By
            default :func:`posenc_mm.grid`, for an encoding with ``sizes`` rescaled to them.
        keep_native: leave the model's own encodings in force beside these.

    Returns:
        ``model`` itself.

    Raises:
        ValueError: something is attached already; the model, its blocks or the installed timm
            cannot carry the slot; an encoding is of another kind than its slot, or does not fit the
            width, heads or axes. The model is then as it was.

    Example:
        >>> import timm
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
    _check_model(model)
    given = {"additive": additive, "rotary": rotary, "bias": bias}
    encodings = {slot: encoding for slot, encoding in given.items() if encoding is not None}
    for slot, encoding in encodings.items():
        if not isinstance(encoding, _KINDS[slot]):
            raise ValueError(f"{slot} must be of class {_KINDS[slot].__name__}, got {encoding!r}")
        if slot != "additive":
            _check_blocks(model, slot)
    if bias is not None and bias.after_softmax:
        raise ValueError(
            f"bias must act on the logits, where timm's attention takes one: {type(bias).__name__} "
            f"acts after the softmax, as posenc_mm.attend and Transformer apply it"
        )
    slots = Slots(encodings, positions, keep_native)
    slots.to(next(model.parameters()).device).train(model.training)
    _check_fit(model, slots)
    if not keep_native:
        for name, parameter in model.named_parameters():
            if parameter.requires_grad and (name == "pos_embed" or name.startswith("rope.")):
                parameter.requires_grad_(False)
                slots.frozen.append(name)
    host: Any = model
    for block in dict.fromkeys(host.blocks) if rotary is not None else ():
        block.attn.__class__ = fronted(TurningAttention, type(block.attn))
        block.__class__ = fronted(TurningBlock, type(block))
    model.add_module("posenc", slots)
    model.__class__ = fronted(Attached, type(model))
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
    for module in model.modules():
        if isinstance(module, Fronted):
            module.__class__ = module._original
    return model


def _forwards(names: tuple[str, ...]) -> list[Any]:
    found = [getattr(file, name, None) for file in (vision_transformer, eva) for name in names]
    return [kind.forward for kind in found if kind is not None]


def _check_model(model: nn.Module) -> None:
    kind = type(model)
    if not isinstance(model, _MODELS):
        names = [known.__name__ for known in _MODELS]
        raise ValueError(f"model must be one of timm's {names}, got {kind.__name__}")
    for name in ("forward_features", "forward_intermediates", "_pos_embed"):
        theirs = {getattr(known, name, None) for known in _MODELS} - {None}
        if getattr(kind, name, None) not in theirs:
            raise ValueError(
                f"model must run timm's own {name} (of timm 1.0.9 or later), but {kind.__name__} "
                f"does not: its tokens may lie otherwise"
            )


def _check_blocks(model: Any, slot: str) -> None:
    for index, block in enumerate(model.blocks):
        attention = getattr(block, "attn", None)
        forwards: list[Any] = [
            getattr(type(module), "forward", None) for module in (block, attention)
        ]
        if forwards[0] not in _forwards(_BLOCKS) or forwards[1] not in _forwards(_ATTENTIONS):
            inside = "" if attention is None else f" with {type(attention).__name__}"
            raise ValueError(
                f"{slot} needs one of timm's blocks {list(_BLOCKS)} with one of the attentions "
                f"{list(_ATTENTIONS)}, which bring queries and keys as (B, H, N, D) through q_norm "
                f"and k_norm; blocks.{index} is a {type(block).__name__}{inside}"
            )
        takes_mask = ["attn_mask" in inspect.signature(kind).parameters for kind in forwards]
        if slot == "bias" and not all(takes_mask):
            raise ValueError(
                f"bias needs blocks that take attn_mask, as timm's do from 1.0.16 on; "
                f"{type(block).__name__} of timm {timm.__version__} does not"
            )


def _check_fit(model: Any, slots: Slots) -> None:
    with torch.no_grad():
        said = slots.evaluate(2, 3, next(model.parameters()).device)
    if "additive" in said and said["additive"].shape[-1] != model.embed_dim:
        raise ValueError(
            f"additive has width {said['additive'].shape[-1]}, but the model's embed_dim is "
            f"{model.embed_dim}"
        )
    for index, block in enumerate(model.blocks):
        where = f"the attention of blocks.{index}"
        if "bias" in said and said["bias"].shape[-3] != block.attn.num_heads:
            raise ValueError(
                f"bias has {said['bias'].shape[-3]} heads, but {where} has {block.attn.num_heads}"
            )
        if "rotary" in said:
            _check_rotation(said["rotary"], block.attn, where)
            rotary: Any = slots.get_submodule("rotary")
            head_dim = block.attn.proj.in_features // block.attn.num_heads
            if rotary.head_dim != head_dim:
                raise ValueError(
                    f"rotary is for heads of {rotary.head_dim} channels, but {where} has "
                    f"{head_dim}; to turn a part of them, say rotary_dim"
                )


def _check_rotation(rotation: Any, attention: Any, where: str) -> None:
    width, head_dim = 2 * rotation.cos.shape[-1], attention.proj.in_features // attention.num_heads
    if width > head_dim:
        raise ValueError(f"rotary turns {width} channels, but {where} has {head_dim} in a head")
    # Grouped queries: there are fewer heads of keys.
    heads = {attention.num_heads, getattr(attention, "num_kv_heads", attention.num_heads)}
    if rotation.per_head and heads != {rotation.cos.shape[-3]}:
        raise ValueError(
            f"rotary is for {rotation.cos.shape[-3]} heads, but {where} has {sorted(heads)} heads "
            f"of queries and keys"
        )
