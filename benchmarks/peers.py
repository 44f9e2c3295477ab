"""How other libraries turn queries and keys, by their fastest public way, imported as asked for.

Each function prepares the tables, outside the time that is measured, and returns what turns queries
and keys. Tables are the library's own where it makes them for a sequence.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.correctness import angles

Turn = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


@contextmanager
def strangers() -> Iterator[None]:
    """Import others: what they warn of is not ours to change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@dataclass(frozen=True)
class Sizes:
    """What is turned: queries and keys ``(B, H, N, D)``."""

    batch: int
    heads: int
    tokens: int
    width: int
    dtype: torch.dtype
    device: str


def llama(sizes: Sizes) -> Turn:
    """As Llama of transformers, and most of its models, turn halves."""
    with strangers():
        from transformers import LlamaConfig
        from transformers.models.llama import modeling_llama as llama
    config = LlamaConfig(
        hidden_size=sizes.heads * sizes.width,
        num_attention_heads=sizes.heads,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
    )
    cos, sin = _tables(llama.LlamaRotaryEmbedding(config).to(sizes.device), sizes)
    return lambda q, k: llama.apply_rotary_pos_emb(q, k, cos, sin)


def cohere(sizes: Sizes) -> Turn:
    """As Cohere of transformers turns neighbours, with real numbers."""
    with strangers():
        from transformers import CohereConfig
        from transformers.models.cohere import modeling_cohere as cohere
    config = CohereConfig(
        hidden_size=sizes.heads * sizes.width,
        num_attention_heads=sizes.heads,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
    )
    cos, sin = _tables(cohere.CohereRotaryEmbedding(config).to(sizes.device), sizes)
    return lambda q, k: cohere.apply_rotary_pos_emb(q, k, cos, sin)


def _tables(module: Callable[..., tuple[Tensor, Tensor]], sizes: Sizes) -> tuple[Tensor, Tensor]:
    like = torch.zeros((), dtype=sizes.dtype, device=sizes.device)
    cos, sin = module(like, torch.arange(sizes.tokens, device=sizes.device)[None])
    return cos, sin


def llama4(sizes: Sizes) -> Turn:
    """As Llama 4 of transformers turns neighbours, as complex numbers; tokens before heads."""
    with strangers():
        from transformers.models.llama4.modeling_llama4 import apply_rotary_emb
    theta = angles(sizes.tokens, sizes.width)
    turns = torch.polar(torch.ones_like(theta), theta).to(torch.complex64).to(sizes.device)[None]
    return lambda q, k: apply_rotary_emb(q, k, turns)


def timm(sizes: Sizes, half: bool) -> Turn:
    """As timm's vision transformers turn; tables in the dtype of the model, as ``.to(dtype)``."""
    with strangers():
        from timm.layers import apply_rot_embed_cat
    theta = angles(sizes.tokens, sizes.width)
    wide = torch.cat((theta, theta), -1) if half else theta.repeat_interleave(2, -1)
    table = torch.cat((wide.sin(), wide.cos()), -1).to(sizes.device, sizes.dtype)

    def turn(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return apply_rot_embed_cat(q, table, half=half), apply_rot_embed_cat(k, table, half=half)

    return turn


def rotary_embedding_torch(sizes: Sizes) -> Turn:
    """As lucidrains' rotary-embedding-torch: angles are kept, cosines and sines made each time."""
    with strangers():
        from rotary_embedding_torch import RotaryEmbedding
    module = RotaryEmbedding(sizes.width, cache_max_seq_len=sizes.tokens).to(sizes.device)
    like = torch.zeros(1, 1, sizes.tokens, sizes.width, device=sizes.device)
    module.rotate_queries_or_keys(like)  # in float32 first: its positions take the dtype of x
    turn = module.rotate_queries_or_keys
    return lambda q, k: (turn(q), turn(k))


def x_transformers(sizes: Sizes) -> Turn:
    """As lucidrains' x-transformers: angles are given, cosines and sines made each time."""
    with strangers():
        from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb
    module = RotaryEmbedding(sizes.width).to(sizes.device)
    theta, scale = module.forward_from_seq_len(sizes.tokens)
    return lambda q, k: (
        apply_rotary_pos_emb(q, theta, scale),
        apply_rotary_pos_emb(k, theta, scale),
    )


def flash_attn(sizes: Sizes, interleaved: bool) -> Turn:
    """As flash-attn's Triton kernel, on CUDA; tokens before heads."""
    with strangers():
        from flash_attn.layers.rotary import apply_rotary_emb
    theta = angles(sizes.tokens, sizes.width).to(sizes.device)
    cos, sin = theta.cos().to(sizes.dtype), theta.sin().to(sizes.dtype)

    def turn(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return tuple(apply_rotary_emb(x, cos, sin, interleaved=interleaved) for x in (q, k))

    return turn


def liger(sizes: Sizes) -> Turn:
    """As Liger's Triton kernel, on CUDA, in halves; it may write over what it is given."""
    with strangers():
        from liger_kernel.transformers.rope import liger_rotary_pos_emb
    theta = angles(sizes.tokens, sizes.width).to(sizes.device)
    wide = torch.cat((theta, theta), -1)[None]
    cos, sin = wide.cos().to(sizes.dtype), wide.sin().to(sizes.dtype)
    return lambda q, k: liger_rotary_pos_emb(q, k, cos, sin)


@dataclass(frozen=True)
class RotaryPeer:
    """A library's way to turn, its layout, and what to install."""

    name: str
    package: str
    layout: str
    make: Callable[[Sizes], Turn]
    tokens_first: bool = False
    cuda: bool = False


ROTARY = (
    RotaryPeer("transformers (Llama 4)", "transformers", "interleaved", llama4, tokens_first=True),
    RotaryPeer("transformers (Cohere)", "transformers", "interleaved", cohere),
    RotaryPeer("timm", "timm", "interleaved", lambda sizes: timm(sizes, False)),
    RotaryPeer(
        "rotary-embedding-torch", "rotary-embedding-torch", "interleaved", rotary_embedding_torch
    ),
    RotaryPeer("x-transformers", "x-transformers", "interleaved", x_transformers),
    RotaryPeer(
        "flash-attn",
        "flash-attn",
        "interleaved",
        lambda sizes: flash_attn(sizes, True),
        tokens_first=True,
        cuda=True,
    ),
    RotaryPeer("transformers (Llama)", "transformers", "half", llama),
    RotaryPeer("timm, half", "timm", "half", lambda sizes: timm(sizes, True)),
    RotaryPeer(
        "flash-attn, half",
        "flash-attn",
        "half",
        lambda sizes: flash_attn(sizes, False),
        tokens_first=True,
        cuda=True,
    ),
    RotaryPeer("Liger", "liger-kernel", "half", liger, cuda=True),
)
