"""What a model makes of pictures, and how far that is from what it makes of the native size."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

Pair = tuple[int, int]


class Seen(NamedTuple):
    """What a model made of pictures.

    Attributes:
        predicted: ``(N,)`` classes, None of a model without a head.
        features: ``(N, D)`` each: ``class_token`` if the model has one, and ``pooled``, the mean
            over its patches.
    """

    predicted: Tensor | None
    features: dict[str, Tensor]


def look(
    model: Any, loader: DataLoader, device: torch.device, *, first_to: Pair | None = None
) -> Seen:
    """Run a model over pictures.

    Args:
        model: in evaluation mode, at the size of the pictures.
        loader: of pictures and labels.
        device: to run on.
        first_to: bring pictures to this size first, whole, with bilinear weights and antialias.

    Returns:
        Predictions and features.

    Raises:
        ValueError: features or logits are not finite.
    """
    predicted, features = [], []
    with torch.inference_mode():
        for images, _ in loader:
            images = images.to(device)
            if first_to is not None:
                images = F.interpolate(images, first_to, mode="bilinear", antialias=True)
            tokens = model.forward_features(images)
            if not tokens.isfinite().all():
                raise ValueError(f"{type(model).__name__} gave features that are not finite")
            features.append({k: v.float().cpu() for k, v in _pooled(model, tokens).items()})
            if model.num_classes:
                predicted.append(model.forward_head(tokens).argmax(-1).cpu())
    joined = {name: torch.cat([one[name] for one in features]) for name in features[0]}
    return Seen(torch.cat(predicted) if predicted else None, joined)


def _pooled(model: nn.Module, tokens: Tensor) -> dict[str, Tensor]:
    if tokens.ndim == 4:  # a map of features, channels last
        return {"pooled": tokens.flatten(1, 2).mean(1)}
    prefix = int(getattr(model, "num_prefix_tokens", 0))
    pooled = {"pooled": tokens[:, prefix:].mean(1)}
    return {"class_token": tokens[:, 0], **pooled} if prefix else pooled


def compare(seen: Seen, native: Seen, labels: Tensor | None) -> dict[str, Any]:
    r"""Measure what was seen against labels and against the native size.

    Args:
        seen: at some size, by some rule.
        native: of the same pictures at the native size.
        labels: ``(N,)``, None where there are none.

    Returns:
        ``accuracy`` and ``agreement`` (the share of predictions as at the native size), or None;
        per feature its mean cosine and mean relative distance
        :math:`\lVert f - f_0 \rVert / \lVert f_0 \rVert`; and ``scores``, one number a picture:
        whether it was right, or without labels the mean cosine of its features.
    """
    out: dict[str, Any] = {"accuracy": None, "agreement": None}
    cosines = []
    for name, feature in seen.features.items():
        reference = native.features[name]
        cosine = F.cosine_similarity(feature.double(), reference.double(), dim=-1)
        distance = (feature - reference).norm(dim=-1) / reference.norm(dim=-1).clamp(min=1e-12)
        out[f"cosine_{name}"], out[f"distance_{name}"] = (
            cosine.mean().item(),
            distance.mean().item(),
        )
        cosines.append(cosine)
    scores = torch.stack(cosines).mean(0)
    if seen.predicted is not None and native.predicted is not None:
        out["agreement"] = (seen.predicted == native.predicted).double().mean().item()
        if labels is not None:
            scores = (seen.predicted == labels).double()
            out["accuracy"] = scores.mean().item()
    return {**out, "scores": [round(score, 5) for score in scores.tolist()]}
