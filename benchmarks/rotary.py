"""Turning queries and keys: forward, with backward, eager and compiled, and growth with length."""

import argparse
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor

import posenc_mm
from benchmarks.comparing import Table, Way, compare
from benchmarks.correctness import Checked, judged, turned
from benchmarks.measuring import Call
from benchmarks.peers import ROTARY, RotaryPeer, Sizes, Turn, strangers
from benchmarks.reporting import Growth, grown

UNIT = "q.clone(), k.clone()"
LAYOUTS = ("interleaved", "half")
SMALL = {"batch": 2, "heads": 3, "tokens": 64, "width": 16, "lengths": [32, 64], "rounds": 3}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what can be asked for."""
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--width", type=int, default=64, help="channels of a head")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--lengths", type=int, nargs="*", default=[512, 1024, 2048, 4096])
    parser.add_argument("--no-compile", action="store_true", help="leave compiled rows out")
    parser.set_defaults(rounds=15)


def run(
    options: argparse.Namespace, say: Callable[[str], None]
) -> tuple[list[Table], list[Growth]]:
    """Measure all tables."""
    tables = []
    for name in options.dtypes:
        dtype = getattr(torch, name)
        for backward in (False, True):
            sizes = _sizes(options, options.tokens, dtype)
            title = f"forward and backward, {name}" if backward else f"forward, {name}"
            tables.append(table(sizes, title, backward, not options.no_compile, options, say))
    one = _sizes(options, 1, getattr(torch, options.dtypes[0]))
    title = f"forward of one token, {options.dtypes[0]}"
    tables.append(table(one, title, False, False, options, say))
    return tables, _growth(options, say)


def table(
    sizes: Sizes,
    title: str,
    backward: bool,
    compiled: bool,
    options: argparse.Namespace,
    say: Callable[[str], None],
) -> Table:
    """Measure all ways for one dtype, without or with the backward pass."""
    torch.compiler.reset()  # what an earlier table compiled counts against a limit
    case = Case(sizes, backward)
    return compare(
        title,
        case.ways(compiled),
        rounds=options.rounds,
        device=options.device,
        check=case.check,
        unit_bytes=case.unit_bytes,
        say=say,
    )


class Case:
    """Queries and keys of one dtype, and the ways to turn them."""

    def __init__(self, sizes: Sizes, backward: bool) -> None:
        self.sizes, self.backward = sizes, backward
        draw = torch.Generator().manual_seed(0)
        shape = (sizes.batch, sizes.heads, sizes.tokens, sizes.width)
        made = [
            torch.randn(shape, generator=draw).to(sizes.device, sizes.dtype)
            for _ in range(4 if backward else 2)
        ]
        self.q, self.k, self.grads = made[0], made[1], made[2:]
        self.right = {layout: self._right(layout) for layout in LAYOUTS}

    @property
    def unit_bytes(self) -> int:
        """Bytes of what must be made: q and k turned, and with backward their gradients."""
        return (4 if self.backward else 2) * self.q.nbytes

    def ways(self, compiled: bool) -> list[Way]:
        """List the copy, ours, and the peers, eager and compiled."""
        found = [Way(UNIT, "base", partial(self._call, _copies, False), "copy")]
        if not self.backward:
            found.append(Way("copied into memory at hand", "other", self._into, "copy"))
        for layout, first in product(LAYOUTS, (False, True)):
            ours = RotaryPeer("posenc_mm", "", layout, partial(_ours, layout, first), first)
            alike = (p for p in ROTARY if p.layout == layout and p.tokens_first == first)
            for peer in (ours, *alike):
                found.append(self._way(peer, "ours" if peer is ours else "peer", False))
                if compiled and not peer.cuda:
                    found.append(self._way(peer, found[-1].kind, True))
        return found

    def _way(self, peer: RotaryPeer, kind: str, fast: bool) -> Way:
        suffix = ", compiled" if fast else ""
        group = f"{peer.layout}{', tokens first' if peer.tokens_first else ''}{suffix}"
        return Way(
            f"{peer.name}{suffix}" if kind == "peer" else f"posenc_mm, {group}",
            kind,
            partial(self._of, peer, fast),
            group,
            peer.package,
            peer.cuda,
        )

    def check(self, way: Way, out: Any) -> Checked:
        """Compare with float64: what is turned, or with backward the gradients."""
        layout = way.group.partition(",")[0]
        if layout not in self.right:
            return Checked(None, None)
        # In a narrow dtype, what is turned in float32 and rounded once is half a step off at most.
        most = 8.0 if self.sizes.dtype.itemsize >= 4 else 0.51
        return judged(out, self.right[layout], self.sizes.dtype, roundings=most)

    def _right(self, layout: str) -> list[Tensor]:
        if self.backward:
            return [turned(g, layout, back=True) for g in self.grads]
        return [turned(x, layout) for x in (self.q, self.k)]

    def _of(self, peer: RotaryPeer, fast: bool) -> Call:
        turn = peer.make(self.sizes)
        if not fast:
            return self._call(turn, peer.tokens_first)
        call = self._call(torch.compile(turn, dynamic=False), peer.tokens_first)
        with strangers():
            call()
        return call

    def _call(self, turn: Turn, tokens_first: bool) -> Call:
        """Bind a turn to its inputs, in the order of axes that it wants."""
        order = (lambda x: x.transpose(1, 2)) if tokens_first else (lambda x: x)
        q, k = (order(x).contiguous() for x in (self.q, self.k))
        if not self.backward:

            def forward() -> list[Tensor]:
                with torch.no_grad():
                    return [order(x) for x in turn(q, k)]

            return forward
        grads = [order(g).contiguous() for g in self.grads]

        def both() -> list[Tensor]:
            leaves = [x.detach().requires_grad_() for x in (q, k)]
            torch.autograd.backward(turn(*leaves), grads)
            return [order(x.grad) for x in leaves]

        return both

    def _into(self) -> Call:
        room = [torch.empty_like(x) for x in (self.q, self.k)]
        return lambda: [r.copy_(x) for r, x in zip(room, (self.q, self.k), strict=True)]


def _copies(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    return q.clone(), k.clone()


def _ours(layout: str, tokens_first: bool, sizes: Sizes) -> Turn:
    at = posenc_mm.sequence(sizes.tokens, device=sizes.device)
    rotation = posenc_mm.Rotary(sizes.width, layout=layout)(at)

    def turn(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return posenc_mm.rotate(q, rotation), posenc_mm.rotate(k, rotation)

    def where_they_lie(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        q, k = turn(q.transpose(1, 2), k.transpose(1, 2))
        return q.transpose(1, 2), k.transpose(1, 2)

    return where_they_lie if tokens_first else turn


def _sizes(options: argparse.Namespace, tokens: int, dtype: torch.dtype) -> Sizes:
    return Sizes(options.batch, options.heads, tokens, options.width, dtype, options.device)


def _growth(options: argparse.Namespace, say: Callable[[str], None]) -> list[Growth]:
    tables = []
    for tokens in options.lengths:
        sizes = _sizes(options, tokens, getattr(torch, options.dtypes[0]))
        tables.append(table(sizes, f"forward, N={tokens}", False, False, options, say))
    return grown(f"forward, {options.dtypes[0]}, eager", options.lengths, tables)
