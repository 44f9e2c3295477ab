"""What an attached axial RoPE costs a timm ViT: time and memory beside the plain model, in one run.

    python benchmarks/attached_rope.py --model vit_small_patch16_224 --batch 8

Forward and forward with backward alternate between the two models, so that other work on the
machine meets both alike; memory is what torch's profiler sees allocated at once.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import timm
import torch
from torch import Tensor, nn

from posenc_mm import Rotary
from posenc_mm.timm import attach

Step = Callable[[nn.Module, Tensor], None]
_CPU = torch.profiler.ProfilerActivity.CPU


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


def megabytes(model: nn.Module, images: Tensor, step: Step) -> float:
    """Peak of what a step's tensors hold at once, above what was there before."""
    step(model, images)
    with torch.profiler.profile(activities=[_CPU], profile_memory=True) as profile:
        step(model, images)
    held = peak = 0
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    for event in sorted(events, key=lambda e: e.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak / 2**20


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
        memory = [megabytes(model, images, step) for model in models]
        print(
            f"{name}: {statistics.median(plain):.3f} s, with axial RoPE "
            f"{statistics.median(rotary):.3f} s, {statistics.median(ratios):.3f} times (middle "
            f"half {spread}); peak memory {memory[0]:.0f} and {memory[1]:.0f} MB, "
            f"{memory[1] / memory[0]:.3f} times"
        )


if __name__ == "__main__":
    main()
