"""What an axial RoPE attached to a timm ViT costs, beside the plain one and timm's rotary ViT."""

import argparse
import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import posenc_mm
from benchmarks.comparing import Table, Way, compare
from benchmarks.correctness import Checked, judged
from benchmarks.measuring import Call
from benchmarks.peers import strangers
from benchmarks.reporting import Growth
from posenc_mm.presets import rope_vit_axial

UNIT = "plain ViT, its table"
SMALL = {"batch": 2, "shape": [64, 2, 2, 32, 8], "rounds": 2}
NAMES = ("embed_dim", "depth", "num_heads", "img_size", "patch_size")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what can be asked for."""
    parser.add_argument("--model", default="vit_small_patch16_224")
    parser.add_argument("--rotary-model", default="vit_small_patch16_rope_224", help="timm's own")
    parser.add_argument("--batch", type=int, default=8)
    shape = " ".join(NAMES)
    parser.add_argument("--shape", type=int, nargs=5, help=f"in place of the models': {shape}")
    parser.set_defaults(rounds=15)


def run(
    options: argparse.Namespace, say: Callable[[str], None]
) -> tuple[list[Table], list[Growth]]:
    """Measure the forward, the forward with backward, and the making of the rotation alone."""
    tables = []
    for backward in (False, True):
        case = Case(options, backward)
        shape = f", shape {options.shape}" if options.shape else ""
        title = f"{options.model}{shape}, batch {options.batch}, forward"
        title += " and backward" * backward
        tables.append(
            compare(
                title,
                case.ways(),
                rounds=options.rounds,
                device=options.device,
                check=case.check,
                say=say,
            )
        )
    tables.append(made_alone(options, say))
    return tables, []


class Case:
    """Pictures, and models that look at them; timm's rotary model with the same weights twice."""

    def __init__(self, options: argparse.Namespace, backward: bool) -> None:
        self.options, self.backward = options, backward
        draw = torch.Generator().manual_seed(0)
        size = self.options.shape[3] if self.options.shape else 224
        self.images = torch.randn(options.batch, 3, size, size, generator=draw).to(options.device)
        self.right: Tensor | None = None

    def ways(self) -> list[Way]:
        """List the plain model, ours on it, timm's rotary model, and ours on that."""
        plain, rotary = self.options.model, self.options.rotary_model
        return [
            Way(UNIT, "base", partial(self._call, plain, ""), "plain", "timm"),
            Way(
                "posenc_mm: axial RoPE attached to it",
                "ours",
                partial(self._call, plain, "instead"),
                "attached",
                "timm",
            ),
            Way(
                f"posenc_mm: attached to {rotary}",
                "ours",
                partial(self._call, rotary, "same"),
                "rotary model",
                "timm",
            ),
            Way(f"timm: {rotary}", "peer", partial(self._call, rotary, ""), "rotary model", "timm"),
        ]

    def check(self, way: Way, out: Any) -> Checked:
        """Compare the logits of the rotary model with those of float64, where they are asked."""
        if way.group != "rotary model" or self.backward:
            return Checked(None, None)
        if self.right is None:
            model = copy.deepcopy(self._model(self.options.rotary_model, "same")).double().eval()
            with torch.no_grad():
                self.right = model(self.images.double())
        return judged([out], [self.right], self.images.dtype, roundings=100)

    def _model(self, name: str, rotation: str) -> nn.Module:
        return model_of(name, rotation, self.options).to(self.options.device)

    def _call(self, name: str, rotation: str) -> Call:
        model = self._model(name, rotation)
        if self.backward:
            model.train()

            def both() -> list[Tensor]:
                model(self.images).square().mean().backward()
                found = [p.grad for p in model.parameters() if p.grad is not None]
                model.zero_grad()
                return found

            return both
        model.eval()

        def forward() -> Any:
            with torch.no_grad():
                return model(self.images)

        return forward


def model_of(name: str, rotation: str, options: argparse.Namespace) -> nn.Module:
    """Make a timm model: as it is, with axial RoPE instead, or with its own RoPE in ours.

    Args:
        name: of the model.
        rotation: ``""``, ``"instead"``, or ``"same"``.
        options: with the shape, if it is not the model's.

    Returns:
        The model, with weights drawn from the same seed.
    """
    with strangers():
        import timm

        from posenc_mm.timm import attach
    torch.manual_seed(0)
    shape = dict(zip(NAMES, options.shape, strict=True)) if options.shape else {}
    model: nn.Module = timm.create_model(name, **shape)
    with torch.no_grad():
        for part, weight in model.named_parameters():
            if weight.ndim > 1:  # as drawn by timm, logits are too small to tell models apart
                weight.normal_(std=weight[0].numel() ** -0.5)
            elif "gamma" in part:
                weight.fill_(1.0)
    head_dim = model.embed_dim // model.blocks[0].attn.num_heads
    if rotation == "instead":
        attach(model, rotary=posenc_mm.Rotary(head_dim, axes=2, base=100.0))
    if rotation == "same":
        attach(model, rotary=rope_vit_axial(head_dim))
    return model


def made_alone(options: argparse.Namespace, say: Callable[[str], None]) -> Table:
    """Measure the making of cosines and sines for a grid, once per forward."""
    side = options.shape[3] // options.shape[4] if options.shape else 14
    dim = options.shape[0] // options.shape[2] if options.shape else 64

    def ours() -> Call:
        encoding = posenc_mm.Rotary(dim, axes=2, base=100.0, layout="interleaved")
        return lambda: encoding(posenc_mm.grid(side, side, device=options.device))

    def timms() -> Call:
        with strangers():
            from timm.layers import RotaryEmbeddingCat
        module = RotaryEmbeddingCat(dim, temperature=100.0, in_pixels=False, feat_shape=None)
        module = module.to(options.device)
        return lambda: module.get_embed([side, side])

    ways = [
        Way("posenc_mm: positions and rotation", "base", ours),
        Way("timm: get_embed", "other", timms, package="timm"),
    ]
    title = f"the rotation of a {side} x {side} grid alone"
    return compare(title, ways, rounds=options.rounds, device=options.device, say=say)
