"""A short training at another size: with an encoding attached, or with the resized table alone."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from posenc_mm.timm import attach

OVERLAYS = Path(__file__).resolve().parents[1] / "configs" / "vision" / "encodings"
CONTROL = "nothing"
# What can be trained, by parts of parameters' names; nothing named is everything.
TRAINABLE: dict[str, tuple[str, ...]] = {
    "all": (),
    "attention": (".attn.", "pos_embed", "posenc."),
}


def overlays() -> dict[str, Path]:
    """The encodings that can be attached by name."""
    return {path.stem: path for path in sorted(OVERLAYS.glob("*.yaml")) if path.stem != "none"}


def attach_named(model: Any, name: str, *, keep_native: bool) -> None:
    """Put an encoding on a model by the name of its overlay; ``"nothing"`` leaves it as it is.

    Args:
        model: at the size to train at, changed in place.
        name: of an overlay in ``configs/vision/encodings``, the path of one, or ``"nothing"``.
        keep_native: leave the model's own table in force beside it.

    Raises:
        ValueError: there is no such overlay, it fills no slot, or its encoding does not fit.
    """
    if name == CONTROL:
        return
    path = overlays().get(name, Path(name))
    if not path.is_file():
        raise ValueError(
            f"attach must be {CONTROL!r}, a YAML file or one of {list(overlays())}, got {name!r}"
        )
    slots = (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("model") or {}
    encodings = {slot: _build(model, slot, said) for slot, said in slots.items() if said}
    if not encodings:
        raise ValueError(f"{path} must fill one of the slots additive, rotary and bias")
    attach(model, **encodings, keep_native=keep_native)


def _build(model: Any, slot: str, said: dict[str, Any]) -> nn.Module:
    attention = model.blocks[0].attn
    head_dim = model.embed_dim // attention.num_heads
    widths = {
        "additive": {"dim": model.embed_dim, "sizes": tuple(model.patch_embed.grid_size)},
        "rotary": {"head_dim": head_dim, "heads": attention.num_heads},
        "bias": {"heads": attention.num_heads, "sizes": tuple(model.patch_embed.grid_size)},
    }
    package, _, kind = said["class_path"].rpartition(".")
    made = getattr(import_module(package), kind)
    taken = made.__init__.__code__.co_varnames
    filled = {key: value for key, value in widths[slot].items() if key in taken}
    return made(**{**filled, **(said.get("init_args") or {})})


def choose_trainable(model: nn.Module, trainable: str) -> int:
    """Freeze all but a part of a model.

    Args:
        model: changed in place; what was frozen before stays frozen.
        trainable: a key of ``TRAINABLE``.

    Returns:
        How many numbers are trained.
    """
    parts = TRAINABLE[trainable]
    for name, parameter in model.named_parameters():
        if parts and not any(part in name for part in parts):
            parameter.requires_grad_(False)
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def tune(
    model: Any,
    loader: DataLoader,
    *,
    epochs: int,
    lr: float,
    device: torch.device,
    tell: Callable[[float, float], None],
) -> None:
    """Train with AdamW and a rate that rises for a tenth of the steps and falls to zero.

    Args:
        model: changed in place, and left in evaluation mode.
        loader: of training images and labels at the size to train at.
        epochs: passes over the images.
        lr: the highest rate.
        device: to train on.
        tell: takes the share that is done and the loss of each step.
    """
    model.to(device).train()
    kept = set(getattr(model, "no_weight_decay", set)())
    groups: list[dict[str, Any]] = [{"params": []}, {"params": [], "weight_decay": 0.0}]
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            groups[parameter.ndim < 2 or name in kept]["params"].append(parameter)
    optimizer = torch.optim.AdamW([g for g in groups if g["params"]], lr=lr, weight_decay=0.05)
    steps = epochs * len(loader)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, lr, total_steps=steps, pct_start=0.1, cycle_momentum=False
    )
    done = 0
    for _ in range(epochs):
        for images, labels in loader:
            loss = F.cross_entropy(model(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            done += 1
            tell(done / steps, loss.item())
    model.eval()
