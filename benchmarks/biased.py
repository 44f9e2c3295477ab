"""How torch and other libraries attend with ALiBi or T5's bias; imported as they are asked for."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.correctness import slopes
from benchmarks.peers import strangers

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Sizes:
    """What attends: queries, keys and values ``(B, H, N, D)``, and T5's numbers where asked for."""

    batch: int
    heads: int
    tokens: int
    width: int
    dtype: torch.dtype
    device: str
    weight: Tensor | None = None


def plain(sizes: Sizes, causal: bool) -> Attend:
    """Attend without any bias: the unit."""
    attend = functional.scaled_dot_product_attention
    return lambda q, k, v: attend(q, k, v, is_causal=causal)


def _hidden(sizes: Sizes) -> Tensor:
    return torch.ones(sizes.tokens, sizes.tokens, dtype=torch.bool, device=sizes.device).triu(1)


def built(sizes: Sizes) -> Attend:
    """Build the penalties of all pairs in each call, and pass them as a mask: the common way."""
    each = slopes(sizes.heads).float().to(sizes.device)[:, None, None]

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        at = torch.arange(sizes.tokens, device=sizes.device, dtype=torch.float32)
        bias = each * (at[None, :] - at[:, None])
        bias = bias.masked_fill(_hidden(sizes), -math.inf).to(q.dtype)
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=bias[None])

    return attend


def x_transformers(sizes: Sizes) -> Attend:
    """Attend as x-transformers with ``attn_flash=True, alibi_pos_bias=True``."""
    with strangers():
        from x_transformers.attend import Attend as Module
        from x_transformers.x_transformers import AlibiPositionalBias
    bias = AlibiPositionalBias(heads=sizes.heads).to(sizes.device)
    module = Module(causal=True, heads=sizes.heads, flash=True).to(sizes.device)
    bias(sizes.tokens, sizes.tokens)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        said = bias(sizes.tokens, sizes.tokens).to(q.dtype)
        return module(q, k, v, attn_bias=said)[0]

    return attend


def bloom(sizes: Sizes) -> Attend:
    """Take the penalties of Bloom in transformers, which are of keys alone."""
    with strangers():
        from transformers.models.bloom.modeling_bloom import build_alibi_tensor
    return _of_keys(sizes, build_alibi_tensor)


def falcon(sizes: Sizes) -> Attend:
    """Take the penalties of Falcon in transformers, which multiplies in bfloat16."""
    with strangers():
        from transformers.models.falcon.modeling_falcon import build_alibi_tensor
    return _of_keys(sizes, build_alibi_tensor)


def _of_keys(sizes: Sizes, build: Callable[[Tensor, int, torch.dtype], Tensor]) -> Attend:
    real = torch.ones(sizes.batch, sizes.tokens, dtype=torch.long, device=sizes.device)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        penalty = build(real, sizes.heads, q.dtype).view(sizes.batch, sizes.heads, 1, -1)
        mask = penalty.masked_fill(_hidden(sizes), torch.finfo(q.dtype).min)
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    return attend


def flex(sizes: Sizes) -> Attend:
    """Compile torch's FlexAttention with the penalty as its ``score_mod``."""
    with strangers():
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    each, tokens = slopes(sizes.heads).float().to(sizes.device), sizes.tokens

    def penalised(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return score + each[h] * (j - i)

    def past(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return i >= j

    blocks = create_block_mask(past, None, None, tokens, tokens, device=sizes.device)
    compiled = torch.compile(flex_attention, dynamic=False)
    return lambda q, k, v: compiled(q, k, v, score_mod=penalised, block_mask=blocks)


def flash_attn(sizes: Sizes) -> Attend:
    """Attend by flash-attn's own ALiBi, on CUDA in half precision; tokens before heads."""
    with strangers():
        from flash_attn import flash_attn_func
    each = slopes(sizes.heads).float().to(sizes.device)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        turned = (x.transpose(1, 2) for x in (q, k, v))
        return flash_attn_func(*turned, causal=True, alibi_slopes=each).transpose(1, 2)

    return attend


def t5(sizes: Sizes) -> Attend:
    """Compute T5's bias of all pairs as transformers does, and pass it as a mask."""
    with strangers():
        from transformers import T5Config
        from transformers.models.t5.modeling_t5 import T5Attention
    config = T5Config(num_heads=sizes.heads, d_model=sizes.heads * sizes.width, d_kv=sizes.width)
    module = T5Attention(config, has_relative_attention_bias=True).to(sizes.device)
    with torch.no_grad():
        module.relative_attention_bias.weight.copy_(sizes.weight)

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        bias = module.compute_bias(sizes.tokens, sizes.tokens).to(q.dtype)
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)

    return attend
