"""What an attached axial RoPE costs a timm ViT: time and memory beside the plain model, in one run.

    python benchmarks/attached_rope.py --model vit_small_patch16_224 --batch 8

Forward and forward with backward alternate between the two models, so that other work on the
machine meets both alike; memory is the peak of a process that does nothing else.
"""

import argparse
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable

import timm
import torch
from torch import Tensor, nn

from posenc_mm import Rotary
from posenc_mm.timm import attach

Step = Callable[[nn.Module, Tensor], None]


def made(name: str, rotary: bool) -> nn.Module:
    """The model, plain or with axial RoPE in place of its table."""
    torch.manual_seed(0)
    model = timm.create_model(name)
    if rotary:
        head_dim = model.embed_dim // model.blocks[0].attn.num_heads
        attach(model, rotary=Rotary(head_dim, axes=2, base=100.0))
    return model


def forward(model: nn.Module, images: Tensor) -> None:
    """Predict, without gradients."""
    with torch.inference_mode():
        model.eval()(images)


def backward(model: nn.Module, images: Tensor) -> None:
    """Predict, and take the gradients of all weights."""
    model.train()(images).square().mean().backward()
    model.zero_grad()


def seconds(step: Step, models: list[nn.Module], images: Tensor, repeats: int) -> list[list[float]]:
    """Seconds of a step with each model, in turns."""
    times: list[list[float]] = [[] for _ in models]
    for round_ in range(repeats + 1):
        for row, model in enumerate(models):
            start = time.perf_counter()
            step(model, images)
            if round_:  # the first warms up
                times[row].append(time.perf_counter() - start)
    return times


def megabytes(name: str, rotary: bool, batch: int, step: Step) -> float:
    """Peak memory of a process that takes a step twice, above what the model itself needs."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_peak, (name, rotary, batch, step))


def _peak(name: str, rotary: bool, batch: int, step: Step) -> float:
    model = made(name, rotary)
    images = torch.randn(batch, *model.pretrained_cfg["input_size"])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(2):
        step(model, images)
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def main() -> None:
    """Compare, and print a row per step."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="vit_small_patch16_224")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    models = [made(options.model, rotary) for rotary in (False, True)]
    images = torch.randn(options.batch, *models[0].pretrained_cfg["input_size"])
    threads = f"{torch.get_num_threads()} threads, torch {torch.__version__}"
    print(f"{options.model}, batch {options.batch}, {threads}")
    for name, step in (("forward", forward), ("forward and backward", backward)):
        plain, rotary = seconds(step, models, images, options.repeats)
        ratios = sorted(r / p for p, r in zip(plain, rotary, strict=True))
        spread = f"{ratios[len(ratios) // 4]:.3f} to {ratios[3 * len(ratios) // 4]:.3f}"
        memory = [megabytes(options.model, rotary, options.batch, step) for rotary in (False, True)]
        print(
            f"{name}: {statistics.median(plain):.3f} s, with axial RoPE "
            f"{statistics.median(rotary):.3f} s, {statistics.median(ratios):.3f} times (middle "
            f"half {spread}); peak memory {memory[0]:.0f} and {memory[1]:.0f} MB, "
            f"{memory[1] / memory[0]:.3f} times"
        )


if __name__ == "__main__":
    main()
