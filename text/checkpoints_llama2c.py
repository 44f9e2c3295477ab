"""Checkpoints of llama2.c: flat files of float32."""

import math
import struct
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from posenc_mm import Rotary
from text.decoder import Decoder, Shape

HEADER = struct.Struct("<7i")
BASE, EPS = 10_000.0, 1e-5


def read_decoder(path: Path) -> tuple[Decoder, int]:
    """Read a decoder from llama2.c's first format.

    Args:
        path: of the file: seven integers, then float32 tensors one after the other.

    Returns:
        The decoder, and the length that it was trained on.

    Raises:
        ValueError: the file is of another format or cut off.
    """
    data = path.read_bytes()
    if len(data) < HEADER.size:
        raise ValueError(f"{path} must begin with llama2.c's seven integers, got {len(data)} bytes")
    dim, hidden, depth, heads, kv_heads, vocab, length = HEADER.unpack_from(data)
    fits = min(dim, hidden, depth, heads, kv_heads, abs(vocab), length) >= 1
    if not fits or dim % heads or heads % kv_heads or max(dim, hidden, depth, length) > 2**24:
        raise ValueError(
            f"{path} must begin with llama2.c's seven integers (version 0: export with "
            f"`export.py --version 0`), got {HEADER.unpack_from(data)}"
        )
    # A negative vocabulary says that the output has weights of its own.
    shape = Shape(abs(vocab), dim, hidden, depth, heads, kv_heads, dim // heads, EPS, vocab > 0)
    layout = tensors(shape, length)
    wanted = HEADER.size + 4 * sum(math.prod(size) for _, size in layout)
    if len(data) != wanted:
        raise ValueError(f"{path} must have {wanted:,} bytes for {shape}, got {len(data):,}")
    values = torch.from_numpy(np.frombuffer(data, "<f4", offset=HEADER.size).copy())
    found: dict[str, Tensor] = {}
    at = 0
    for name, size in layout:
        found[name] = values[at : at + math.prod(size)].view(size)
        at += math.prod(size)
    head_dim = shape.head_dim
    decoder = Decoder(shape, rotary=Rotary(head_dim, base=BASE, layout="interleaved"))
    decoder.load_state_dict(_named(found, depth))
    return decoder.eval(), length


def tensors(shape: Shape, length: int) -> list[tuple[str, tuple[int, ...]]]:
    """Say which tensors lie in a file, in their order.

    Args:
        shape: of the decoder.
        length: that it was trained on.

    Returns:
        Names, those of layers with a number missing, and sizes. ``freq`` are tables that
        every reader computes itself.
    """
    dim, hidden, depth = shape.dim, shape.hidden, shape.depth
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    layers = [
        ("norm1", (dim,)), ("q", (queries, dim)), ("k", (keys, dim)), ("v", (keys, dim)),
        ("out", (dim, queries)), ("norm2", (dim,)), ("gate", (hidden, dim)),
        ("down", (dim, hidden)), ("up", (hidden, dim)),
    ]  # fmt: skip
    return [
        ("embedding.weight", (shape.vocab, dim)),
        *[(f"layers.{name}.weight", (depth, *size)) for name, size in layers],
        ("norm.weight", (dim,)),
        ("freq_cos", (length, shape.head_dim // 2)),
        ("freq_sin", (length, shape.head_dim // 2)),
        *([] if shape.tied else [("head.weight", (shape.vocab, dim))]),
    ]


def _named(found: dict[str, Tensor], depth: int) -> dict[str, Tensor]:
    state = {}
    for name, value in found.items():
        if name.startswith("layers."):
            for layer in range(depth):
                state[name.replace("layers.", f"layers.{layer}.")] = value[layer]
        elif not name.startswith("freq"):
            state[name] = value
    return state
