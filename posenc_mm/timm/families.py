"""Which families of timm can carry which slots, and why the others cannot."""

import importlib
import importlib.util
from typing import Any

from timm.models import beit, deit, eva, hiera, swin_transformer, swin_transformer_v2
from timm.models import vision_transformer as vit
from timm.models import vision_transformer_relpos as relpos
from timm.models import vision_transformer_sam as sam
from torch import nn

from posenc_mm.fronting import Fronted
from posenc_mm.timm.columns import AttachedBeit, AttachedRelPos, AttachedVit
from posenc_mm.timm.naflex import AttachedNaFlex
from posenc_mm.timm.views import Attached
from posenc_mm.timm.windows import AttachedHiera, AttachedSam, AttachedSwin

# Of later releases of timm than the oldest that is supported.
_LATER = {
    name: importlib.import_module(f"timm.models.{name}")
    for name in ("naflexvit", "hieradet_sam2")
    if importlib.util.find_spec(f"timm.models.{name}")
}
_FAMILIES: list[tuple[Any, str, type[Attached]]] = [
    (vit, "VisionTransformer", AttachedVit),
    (deit, "VisionTransformerDistilled", AttachedVit),
    (eva, "Eva", AttachedVit),
    (_LATER.get("naflexvit"), "NaFlexVit", AttachedNaFlex),
    (beit, "Beit", AttachedBeit),
    (relpos, "VisionTransformerRelPos", AttachedRelPos),
    (swin_transformer, "SwinTransformer", AttachedSwin),
    (swin_transformer_v2, "SwinTransformerV2", AttachedSwin),
    (sam, "VisionTransformerSAM", AttachedSam),
    (hiera, "Hiera", AttachedHiera),
    (_LATER.get("hieradet_sam2"), "HieraDet", AttachedHiera),
]
_POOLED = "its keys are pooled to another grid than its queries'"
_MIXED = "convolutions between its attentions tell positions already, on maps of different sizes"
_CHANNELS = "its attention is over channels, not over tokens"
_OWN_CODE = "its rotations reach its blocks through code of its own"
# By the name of the class: what is known of other families of transformers.
_REFUSED = {
    "CSATv2": _MIXED,
    "Cait": "its talking heads mix the logits of heads, and class attention comes last",
    "CoaT": "its factorised attention has no logits of pairs",
    "ConVit": "its gated attention has a positional score of its own, with a softmax of its own",
    "CrossVit": "it has two branches of patches of different sizes",
    "DaVit": "every second attention of its is over channels, not over tokens",
    "DeepseekVitClassifier": _OWN_CODE,
    "EdgeNeXt": _CHANNELS,
    "EfficientFormer": _MIXED,
    "EfficientFormerV2": _MIXED,
    "EfficientVitMsra": _MIXED,
    "FastVit": _MIXED,
    "Gemma4VitClassifier": _OWN_CODE,
    "GlobalContextVit": "its queries come from pooled tokens of the whole image",
    "IFormer": _MIXED,
    "LevitDistilled": "its queries are sub-sampled between stages",
    "MaxxVit": "it gathers tokens into windows and into grids of distant tokens in turn",
    "MultiScaleVit": _POOLED,
    "Nest": "it attends within blocks that merge between levels",
    "PoolingVisionTransformer": "its tokens are pooled between stages",
    "PyramidVisionTransformerV2": _POOLED,
    "Qwen3VitClassifier": _OWN_CODE,
    "SwinTransformerV2Cr": "its window attention is other code than Swin V2's",
    "TNT": "it attends within patches and between them, with an embedding for each",
    "TinyVit": _MIXED,
    "Twins": "its sub-sampled attention has fewer keys than tokens; its PEG is its encoding",
    "VOLO": "its outlook attention has no keys",
    "Visformer": _MIXED,
    "Xcit": _CHANNELS,
}


def names() -> list[str]:
    """The classes that ``attach`` takes, in the installed timm."""
    return [name for file, name, _ in _FAMILIES if hasattr(file, name)]


def refused() -> dict[str, str]:
    """Other families by the name of their class, and why they are refused."""
    return dict(_REFUSED)


def family_of(model: nn.Module) -> tuple[str, type[Attached]]:
    """The family of a model, attached or not: its name and what goes in front.

    Args:
        model: a model of timm.

    Returns:
        The name of timm's class, and the front.

    Raises:
        ValueError: the family is not one that can carry encodings, or the model runs code of its
            own where timm's is relied on.
    """
    kind = model._original if isinstance(model, Fronted) else type(model)
    for file, name, front in reversed(_FAMILIES):
        known = getattr(file, name, None)
        if known is not None and issubclass(kind, known):
            _check_own(kind, front)
            return name, front
    why = next((_REFUSED[each.__name__] for each in kind.__mro__ if each.__name__ in _REFUSED), "")
    if why:
        raise ValueError(
            f"model is a {kind.__name__} of timm, for which nothing is written: {why}; take one of "
            f"{names()}"
        )
    raise ValueError(f"model must be one of timm's {names()}, got {kind.__name__}")


def _check_own(kind: type, front: type[Attached]) -> None:
    for name in front.checked:
        known = [getattr(file, own, None) for file, own, each in _FAMILIES if each is front]
        theirs = {getattr(each, name, None) for each in known} - {None}
        if getattr(kind, name, None) not in theirs:
            raise ValueError(
                f"model must run timm's own {name} (of timm 1.0.9 or later), but {kind.__name__} "
                f"does not: its tokens may lie otherwise"
            )
