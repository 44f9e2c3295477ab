"""Sinusoidal and learned encodings added to tokens, beside other modules that add them."""

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import posenc_mm
from benchmarks.comparing import Table, Way, compare
from benchmarks.correctness import Checked, judged, sinusoid
from benchmarks.measuring import Call
from benchmarks.peers import strangers
from benchmarks.reporting import Growth, grown

UNIT = "tokens + a table at hand"
KEEPS = "keeps its table between calls"
EACH = "evaluated in each call"
SMALL = {"batch": 2, "tokens": 48, "width": 16, "lengths": [32, 64], "rounds": 3}


@dataclass(frozen=True)
class Sizes:
    """What is added to: tokens ``(B, N, D)``, and the learned table ``(N, D)``."""

    x: Tensor
    table: Tensor


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what can be asked for."""
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--lengths", type=int, nargs="*", default=[512, 1024, 2048, 4096])
    parser.set_defaults(rounds=15)


def run(
    options: argparse.Namespace, say: Callable[[str], None]
) -> tuple[list[Table], list[Growth]]:
    """Measure all tables."""
    tables = []
    for name in options.dtypes:
        for kind in ("sinusoidal", "learned"):
            tables.append(table(kind, options.tokens, name, options, say))
    first = options.dtypes[0]
    grows = [table("sinusoidal", n, first, options, say) for n in options.lengths]
    return tables, grown(f"sinusoidal, {first}", options.lengths, grows)


def table(
    kind: str,
    tokens: int,
    dtype: str,
    options: argparse.Namespace,
    say: Callable[[str], None],
) -> Table:
    """Measure all ways to add one kind of encoding, without gradients."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(options.batch, tokens, options.width, generator=draw)
    learned = torch.randn(tokens, options.width, generator=draw)
    cast = {"device": options.device, "dtype": getattr(torch, dtype)}
    sizes = Sizes(x.to(**cast), learned.to(**cast))
    groups = {
        "interleaved": lambda: sinusoid(tokens, options.width, "interleaved"),
        "half": lambda: sinusoid(tokens, options.width, "half"),
        "learned": lambda: sizes.table.double(),
    }

    def check(way: Way, out: Any) -> Checked:
        wanted = sizes.x.double() + groups[way.group]().to(options.device)
        return judged([out], [wanted], sizes.x.dtype)

    made = sinusoids(sizes) if kind == "sinusoidal" else lookups(sizes)
    ways = [
        Way(name, role, partial(_without_gradients, make, sizes), group, package, note=note)
        for name, role, make, group, package, note in made
    ]
    title = f"{kind}, {dtype}" + f", N={tokens}" * (tokens != options.tokens)
    return compare(title, ways, rounds=options.rounds, device=options.device, check=check, say=say)


def _without_gradients(make: Callable[[Sizes], Call], sizes: Sizes) -> Call:
    call = make(sizes)

    def under() -> object:
        with torch.no_grad():
            return call()

    return under


def sinusoids(sizes: Sizes) -> list[tuple[Any, ...]]:
    """List name, kind, maker, layout, package and note of each."""
    peer = "positional-encodings"
    return [
        (UNIT, "base", _at_hand, "interleaved", "", "what any way must at least do"),
        ("posenc_mm, interleaved", "ours", partial(_ours, "interleaved"), "interleaved", "", EACH),
        (peer, "peer", positional_encodings, "interleaved", peer, KEEPS),
        ("tutorial module", "peer", partial(tutorial, True), "interleaved", "", KEEPS),
        (
            "tutorial module, given (B, N, D)",
            "peer",
            partial(tutorial, False),
            "interleaved",
            "",
            "it counts along the first axis",
        ),
        ("posenc_mm, half", "ours", partial(_ours, "half"), "half", "", EACH),
        ("x-transformers", "peer", x_transformers, "half", "x-transformers", EACH),
    ]


def lookups(sizes: Sizes) -> list[tuple[Any, ...]]:
    """List name, kind, maker, group, package and note of each."""
    return [
        (UNIT, "base", lambda s: lambda: s.x + s.table, "learned", "", "as timm and BERT do"),
        ("posenc_mm", "ours", _learned, "learned", "", "at any positions, between entries too"),
        ("torch.nn.Embedding", "peer", embedding, "learned", "", "at whole positions"),
        ("x-transformers", "peer", x_transformers_learned, "learned", "x-transformers", ""),
    ]


def _at_hand(sizes: Sizes) -> Call:
    table = sinusoid(sizes.x.shape[1], sizes.x.shape[2], "interleaved").to(sizes.x)
    return lambda: sizes.x + table


def _ours(layout: str, sizes: Sizes) -> Call:
    encoding = posenc_mm.Sinusoidal(sizes.x.shape[2], layout=layout)
    at = posenc_mm.sequence(sizes.x.shape[1], device=sizes.x.device)
    return lambda: sizes.x + encoding(at).to(sizes.x.dtype)


def _learned(sizes: Sizes) -> Call:
    tokens, width = sizes.table.shape
    encoding = posenc_mm.Learned(width, tokens).to(sizes.x)
    with torch.no_grad():
        encoding.table.copy_(sizes.table.reshape(encoding.table.shape))
    at = posenc_mm.sequence(tokens, device=sizes.x.device)
    return lambda: sizes.x + encoding(at)


def positional_encodings(sizes: Sizes) -> Call:
    """Add as multidim-positional-encoding, whose table is as large as the batch."""
    with strangers():
        from positional_encodings.torch_encodings import PositionalEncoding1D
    module = PositionalEncoding1D(sizes.x.shape[2]).to(sizes.x.device)
    return lambda: sizes.x + module(sizes.x)


def x_transformers(sizes: Sizes) -> Call:
    """Add as x-transformers, with its learned scale at one."""
    with strangers():
        from x_transformers.x_transformers import ScaledSinusoidalEmbedding
    module = ScaledSinusoidalEmbedding(sizes.x.shape[2]).to(sizes.x.device)
    with torch.no_grad():
        module.scale.fill_(1.0)
    return lambda: sizes.x + module(sizes.x).to(sizes.x.dtype)


def x_transformers_learned(sizes: Sizes) -> Call:
    """Add as x-transformers' learned table, its fixed factor undone in the table."""
    with strangers():
        from x_transformers.x_transformers import AbsolutePositionalEmbedding
    tokens, width = sizes.table.shape
    module = AbsolutePositionalEmbedding(width, tokens).to(sizes.x)
    with torch.no_grad():
        module.emb.weight.copy_(sizes.table * math.sqrt(width))
    return lambda: sizes.x + module(sizes.x)


def embedding(sizes: Sizes) -> Call:
    """Look rows up, as most models with a learned table do."""
    at = torch.arange(len(sizes.table), device=sizes.x.device)
    return lambda: sizes.x + nn.functional.embedding(at, sizes.table)


class TutorialSinusoid(nn.Module):
    """The module of torch's tutorial on transformers, without its dropout.

    It keeps a table ``(N, 1, D)`` and adds its first rows to tokens ``(N, B, D)``.
    """

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.register_buffer("table", table[:, None, :])

    def forward(self, x: Tensor) -> Tensor:
        """Add a row to each entry of the first axis."""
        return x + self.table[: x.shape[0]]


def tutorial(tokens_first: bool, sizes: Sizes) -> Call:
    """Add as the tutorial's module, to tokens in its order of axes or in the usual one."""
    _, tokens, width = sizes.x.shape
    module = TutorialSinusoid(sinusoid(tokens, width, "interleaved").to(sizes.x))
    if not tokens_first:
        return lambda: module(sizes.x)
    x = sizes.x.transpose(0, 1).contiguous()
    return lambda: module(x).transpose(0, 1)
