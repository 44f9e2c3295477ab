"""Attention with ALiBi and with T5's bias beside plain attention: time, peak memory, growth."""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

import posenc_mm
from benchmarks import biased
from benchmarks.biased import Attend, Sizes
from benchmarks.comparing import Table, Way, compare
from benchmarks.correctness import Checked, alibi_row, attended, judged, t5_row
from benchmarks.measuring import Call
from benchmarks.reporting import Growth, grown

SMALL = {
    "heads": 2,
    "tokens": 64,
    "t5_tokens": 48,
    "width": 16,
    "lengths": [32, 64],
    "rounds": 2,
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what can be asked for."""
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--heads", type=int, default=8, help="a power of two")
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--t5-tokens", type=int, default=4096)
    parser.add_argument("--width", type=int, default=64, help="channels of a head")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--lengths", type=int, nargs="*", default=[1024, 2048, 4096])
    parser.add_argument("--no-compile", action="store_true", help="leave FlexAttention out")
    parser.set_defaults(rounds=5)


def run(
    options: argparse.Namespace, say: Callable[[str], None]
) -> tuple[list[Table], list[Growth]]:
    """Measure all tables."""
    tables = []
    for name in options.dtypes:
        sizes = _sizes(options, options.tokens, name)
        title = f"causal ALiBi, N={options.tokens}, {name}"
        tables.append(table(Alibi(sizes, False), f"{title}, forward", options, say))
    name = options.dtypes[0]
    sizes = _sizes(options, options.tokens, name)
    title = f"causal ALiBi, N={options.tokens}, {name}, forward and backward"
    tables.append(table(Alibi(sizes, True), title, options, say))
    sizes = _sizes(options, options.t5_tokens, name)
    for backward in (False, True):
        title = f"T5's bias, N={options.t5_tokens}, {name}, forward" + " and backward" * backward
        tables.append(table(T5(sizes, backward), title, options, say))
    grows = [
        table(Alibi(_sizes(options, n, name), False), f"ALiBi, N={n}", options, say)
        for n in options.lengths
    ]
    return tables, grown(f"causal ALiBi, {name}, forward", options.lengths, grows)


def table(
    case: "Case", title: str, options: argparse.Namespace, say: Callable[[str], None]
) -> Table:
    """Measure all ways for one case."""
    torch.compiler.reset()  # what an earlier table compiled counts against a limit
    ways = [
        Way(name, kind, partial(case.call, make), group, package, cuda, note)
        for name, kind, make, group, package, cuda, note in case.ways()
        if not (options.no_compile and "compiled" in name)
    ]
    return compare(
        title, ways, rounds=options.rounds, device=options.device, check=case.check, say=say
    )


class Case:
    """Queries, keys, values and some rows to check, for one bias."""

    def __init__(self, sizes: Sizes, backward: bool) -> None:
        self.sizes, self.backward = sizes, backward
        draw = torch.Generator().manual_seed(0)
        shape = (sizes.batch, sizes.heads, sizes.tokens, sizes.width)
        made = [torch.randn(shape, generator=draw).to(sizes.device, sizes.dtype) for _ in range(4)]
        self.q, self.k, self.v, self.grad = made
        last = sizes.tokens - 1
        self.rows = sorted({0, 1, last // 3, last // 2, last - 1, last})
        self.right = self._right()

    def ways(self) -> Sequence[tuple[Any, ...]]:
        """List name, kind, maker, group, package, whether CUDA is needed, and a note."""
        raise NotImplementedError

    def row(self, query: int) -> Tensor:
        """Give the bias ``(H, M)`` of a query in float64."""
        raise NotImplementedError

    def _right(self) -> Tensor:
        """The output of some queries, or with backward the gradients of them."""
        biases = [self.row(query) for query in self.rows]
        q = self.q.double().requires_grad_(self.backward)
        out = attended(q, self.k, self.v, self.rows, biases)
        if not self.backward:
            return out
        (grad,) = torch.autograd.grad(out, q, self.grad[:, :, self.rows].double())
        return grad[:, :, self.rows]

    def check(self, way: Way, out: Any) -> Checked:
        """Compare some rows with float64."""
        if way.group != "biased":
            return Checked(None, None)
        return judged([out[:, :, self.rows]], [self.right], self.sizes.dtype)

    def call(self, make: Callable[[Sizes], Attend]) -> Call:
        """Bind a way to its inputs; with backward it returns the gradients of the queries."""
        attend = make(self.sizes)
        if not self.backward:

            def forward() -> Tensor:
                with torch.no_grad():
                    return attend(self.q, self.k, self.v)

            return forward

        def both() -> Tensor:
            leaves = [x.detach().requires_grad_() for x in (self.q, self.k, self.v)]
            attend(*leaves).backward(self.grad)
            return leaves[0].grad

        return both


class Alibi(Case):
    """ALiBi under the causal rule."""

    def row(self, query: int) -> Tensor:
        """Penalise the distance to the past, and hide the future."""
        return alibi_row(self.sizes.heads, query, self.sizes.tokens)

    def ways(self) -> Sequence[tuple[Any, ...]]:
        """List plain causal attention, ours, and the rest."""
        keeps = "keeps its bias (H, N, N) between calls"
        keys = "penalties of keys in the dtype of q, as a mask to torch"
        no = False
        return [
            ("causal attention", "base", lambda s: biased.plain(s, True), "plain", "", no, ""),
            ("posenc_mm", "ours", ours_alibi, "biased", "", no, ""),
            ("bias built, as a mask", "peer", biased.built, "biased", "", no, "torch alone"),
            ("FlexAttention, compiled", "peer", biased.flex, "biased", "", no, "torch alone"),
            (
                "x-transformers",
                "peer",
                biased.x_transformers,
                "biased",
                "x-transformers",
                no,
                keeps,
            ),
            ("transformers (Bloom)", "peer", biased.bloom, "biased", "transformers", no, keys),
            ("transformers (Falcon)", "peer", biased.falcon, "biased", "transformers", no, keys),
            ("flash-attn", "peer", biased.flash_attn, "biased", "flash-attn", True, ""),
        ]


class T5(Case):
    """T5's bias between all tokens, with the same numbers for all."""

    def __init__(self, sizes: Sizes, backward: bool) -> None:
        draw = torch.Generator().manual_seed(1)
        weight = torch.randn(32, sizes.heads, generator=draw)
        super().__init__(Sizes(**{**vars(sizes), "weight": weight}), backward)

    def row(self, query: int) -> Tensor:
        """Read the buckets of all distances."""
        return t5_row(self.sizes.weight, query, self.sizes.tokens)

    def ways(self) -> Sequence[tuple[Any, ...]]:
        """List plain attention, ours, and transformers."""
        return [
            ("attention", "base", lambda s: biased.plain(s, False), "plain", "", False, ""),
            ("posenc_mm", "ours", ours_t5, "biased", "", False, ""),
            ("transformers (T5)", "peer", biased.t5, "biased", "transformers", False, ""),
        ]


def ours_alibi(sizes: Sizes) -> Attend:
    """Attend by ours, with the path that it picks by itself."""
    at = posenc_mm.sequence(sizes.tokens, device=sizes.device)
    bias = posenc_mm.ALiBi(sizes.heads)
    return lambda q, k, v: posenc_mm.attend(q, k, v, bias=bias, q_positions=at, causal=True)


def ours_t5(sizes: Sizes) -> Attend:
    """Attend by ours with the numbers given."""
    at = posenc_mm.sequence(sizes.tokens, device=sizes.device)
    bias = posenc_mm.T5Bias(sizes.heads).to(sizes.device)
    with torch.no_grad():
        bias.weight.copy_(sizes.weight)
    return lambda q, k, v: posenc_mm.attend(q, k, v, bias=bias, q_positions=at)


def _sizes(options: argparse.Namespace, tokens: int, dtype: str) -> Sizes:
    kind = getattr(torch, dtype)
    return Sizes(options.batch, options.heads, tokens, options.width, kind, options.device)
