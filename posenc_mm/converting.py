"""Moving whole checkpoints from one rotary layout to another."""

import re
from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from posenc_mm.checks import check_whole
from posenc_mm.layouts import convert_layout

_FUSED = ("qkv", "Wqkv", "qkv_proj")
_PROJECTIONS = {
    "q_proj": "k_proj",
    "query": "key",
    "query_proj": "key_proj",
    "wq": "wk",
    "to_q": "to_k",
    "q_lin": "k_lin",
}
_NORMS = {"q_norm": "k_norm", "q_layernorm": "k_layernorm", "norm_q": "norm_k"}
_QUERIES = (*_PROJECTIONS, *_NORMS)
_KEYS = (*_PROJECTIONS.values(), *_NORMS.values())
# Eva has the biases of its joint projection apart from it.
_NAMED = re.compile(
    rf"(?P<where>(?:.*\.)?)(?:(?P<name>{'|'.join((*_FUSED, *_QUERIES, *_KEYS))})"
    r"(?P<rest>(?:\.linear)?\.(?:weight|bias))|(?P<bias>[qk])_bias)"
)


def convert_checkpoint(
    state: Mapping[str, Tensor],
    heads: int,
    *,
    source: str,
    target: str,
    kv_heads: int | None = None,
    rotary_dim: int | None = None,
    axes: int = 1,
    prefix: str = "",
) -> dict[str, Tensor]:
    """Reorder queries and keys in all attentions of a state dict, for another rotary layout.

    Every model that computes with the other layout, such as timm's with ``rotate_half`` switched,
    gives the same scores and outputs from the result. Projections are found by name: joint ones,
    queries then keys then values (``qkv``, ``Wqkv``, ``qkv_proj``), and separate ones (``q_proj``
    and ``k_proj``, ``query`` and ``key``, ``wq`` and ``wk``, ...), weights and biases, and the
    norms of queries and keys beside them (``q_norm`` and ``k_norm``, ...). Converting back gives
    the same bits. See :func:`convert_layout` for one weight of another name.

    Args:
        state: a state dict; left as it is.
        heads: number of query heads :math:`H`.
        source: layout that it was trained with, ``"interleaved"``, ``"half"`` or ``"axis_half"``.
        target: layout to convert to, one of these.
        kv_heads: number of key heads; ``heads`` unless given.
        rotary_dim: number of leading channels of a head that turn; all unless given.
        axes: number of axes :math:`A`, the blocks of ``"axis_half"``.
        prefix: converts only names that start with it, such as ``"vision_tower."``, where other
            attentions have no rotary or another number of heads.

    Returns:
        A new state dict, which shares the tensors that stay as they are.

    Raises:
        ValueError: no projection is found, queries come without their keys or the reverse, rows do
            not fit the heads, ``kv_heads`` does not divide ``heads``, or a layout is unknown.

    Example:
        >>> state = {"attn.qkv.weight": torch.arange(12.0), "attn.proj.weight": torch.ones(4)}
        >>> new = convert_checkpoint(state, heads=1, source="interleaved", target="half")
        >>> new["attn.qkv.weight"]
        tensor([ 0.,  2.,  1.,  3.,  4.,  6.,  5.,  7.,  8.,  9., 10., 11.])
    """
    kv_heads = heads if kv_heads is None else kv_heads
    check_whole(heads=heads, kv_heads=kv_heads)
    if heads % kv_heads:
        raise ValueError(f"kv_heads must divide heads, got kv_heads={kv_heads} and heads={heads}")
    found = {key: _NAMED.fullmatch(key) for key in state if key.startswith(prefix)}
    named = {key: match for key, match in found.items() if match is not None}
    sizes: dict[str, int] = {}
    for key, match in named.items():
        _check_partner(state, key, match)
        _measure(sizes, key, match, state[key], heads, kv_heads)
    if not sizes:
        raise ValueError(
            f"state has no projection of queries and keys under prefix={prefix!r}: wanted names "
            f"that end in one of {(*_FUSED, *_PROJECTIONS)} and '.weight', got "
            f"{sorted(state)[:4]}..."
        )
    convert = partial(
        convert_layout, source=source, target=target, rotary_dim=rotary_dim, axes=axes
    )
    new = dict(state)
    for key, match in named.items():
        if match["where"] not in sizes:  # a norm of something that has no rotary, such as a pool
            continue
        size, value = sizes[match["where"]], state[key]
        turned = (heads + kv_heads) * size if match["name"] in _FUSED else value.shape[0]
        counts = [heads, kv_heads] if match["name"] in _FUSED else [turned // size]
        if sum(counts) * size != turned:
            raise ValueError(
                f"{key} must have a multiple of the {size} channels of a head, got shape "
                f"{tuple(value.shape)}"
            )
        parts = torch.split(value[:turned], [count * size for count in counts])
        done = [convert(*part) for part in zip(parts, counts, strict=True)]
        new[key] = torch.cat((*done, value[turned:]))
    return new


def _check_partner(state: Mapping[str, Tensor], key: str, match: re.Match[str]) -> None:
    """Queries and keys are turned together; a bias may be of one alone."""
    name, rest = match["name"], match["rest"]
    if name is None or name in _FUSED or rest.endswith("bias"):
        return
    place = _QUERIES.index(name) if name in _QUERIES else _KEYS.index(name)
    partner = (_KEYS if name in _QUERIES else _QUERIES)[place]
    if f"{match['where']}{partner}{rest}" not in state:
        raise ValueError(
            f"state must have {match['where']}{partner}{rest} beside {key}: scores stay what they "
            f"were only if queries and keys are both converted"
        )


def _measure(
    sizes: dict[str, int],
    key: str,
    match: re.Match[str],
    value: Tensor,
    heads: int,
    kv_heads: int,
) -> None:
    """Note how many channels a head has in the attention that a projection's weight is of."""
    name, where = match["name"], match["where"]
    if name is None or name in (*_NORMS, *_NORMS.values()) or not match["rest"].endswith("weight"):
        return
    count = heads if name in _PROJECTIONS else kv_heads
    count = heads + 2 * kv_heads if name in _FUSED else count
    size = value.shape[0] // count
    if value.shape[0] % count or not size or sizes.setdefault(where, size) != size:
        raise ValueError(
            f"{key} must have as many rows for each of heads={heads} and kv_heads={kv_heads} as "
            f"the queries of its attention, got shape {tuple(value.shape)}"
        )
