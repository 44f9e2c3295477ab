"""Finding out what the choice among backends depends on, without reading from a device."""

import torch
from torch import Tensor, nn

from posenc_mm.attention.calls import Call, working_dtype
from posenc_mm.attention.choosing import WORTH, Facts
from posenc_mm.bias import AttentionBias, Contextual, ContextualBias
from posenc_mm.bias.base import wide
from posenc_mm.checks import is_followed


def survey(call: Call, ordered: bool | None, backend: str, every: bool = False) -> Facts:
    """Gather the facts.

    Args:
        call: what was asked.
        ordered: whether positions never fall from one row to the next, if the caller knows.
        backend: what is asked for: only what may matter for it is found out.
        every: whether to find out everything.

    Returns:
        The facts.
    """
    q, bias = call.q, call.bias
    traced = is_traced(q)
    pairs = 0 if traced else q.shape[0] * q.shape[1] * q.shape[2] * call.k.shape[2]
    may = backend == "auto" and q.device.type == "cpu" and (traced or pairs >= WORTH)
    causal = call.causal and not call.last
    factored, past_only, tabled, scored = None, False, False, None
    if isinstance(bias, AttentionBias) and call.q_positions is not None:
        q_at, k_at = call.q_positions, call.k_positions
        if every or backend == "factors" or (may and call.square):
            found = bias.factors(q_at, k_at)  # type: ignore[arg-type]
            factored, past_only = found is not None, found is not None and found.past_only
        if past_only and not call.causal:
            ordered = False
        elif past_only and ordered is None:
            ordered = looked_in_order(q_at, k_at)  # type: ignore[arg-type]
        if every or backend == "blocks" or may:
            tabled = bias.by_difference and consecutive(q_at, k_at)  # type: ignore[arg-type]
        if every or backend == "flex":
            scored = bias.score_mod(q_at, k_at) is not None  # type: ignore[arg-type]
    given = {"key_mask": call.key_mask, "segments": call.segments, "window": call.window}
    masks = tuple(name for name, mask in given.items() if mask is not None)
    if call.causal and call.q_start is not None:
        masks += ("q_start",)
    return Facts(
        device=q.device.type,
        dtype=working_dtype(q),
        traced=traced,
        pairs=pairs,
        causal=causal,
        square=call.square,
        upright=call.scale is None or call.scale > 0,
        masks=masks,
        bias=_kind(bias),
        name="" if bias is None or isinstance(bias, Tensor) else type(bias).__name__,
        factored=factored,
        past_only=past_only,
        ordered=ordered,
        tabled=tabled,
        scored=scored,
        after=call.after is not None,
        trains=torch.is_grad_enabled() and learns(call),
        learned=torch.is_grad_enabled() and any(x.requires_grad for x in _parameters(bias)),
    )


def _kind(bias: object) -> str:
    if bias is None:
        return "none"
    kinds = {Tensor: "tensor", Contextual: "evaluated", ContextualBias: "contextual"}
    return next((name for kind, name in kinds.items() if isinstance(bias, kind)), "module")


def is_traced(q: Tensor) -> bool:
    """Whether a compiler, an exporter or a tensor without numbers watches."""
    return is_followed(q) or q.device.type == "meta"


def learns(call: Call) -> bool:
    """Whether anything that attention reads wants a gradient."""
    tensors = [x for x in (call.q, call.k, call.v, call.bias, call.after) if isinstance(x, Tensor)]
    tensors += [*_parameters(call.bias), *_parameters(call.after)]
    return any(x.requires_grad for x in tensors)


def _parameters(bias: object) -> list[Tensor]:
    return list(bias.parameters()) if isinstance(bias, nn.Module) else []


def looked_in_order(q_positions: Tensor, k_positions: Tensor) -> bool | None:
    """Look whether no key up to a query's row is ahead of it; None where looking would stall."""
    queries = q_positions.shape[-2]
    if not _readable(q_positions, k_positions) or queries > k_positions.shape[-2]:
        return None
    if queries == 0:
        return True
    return bool((q_positions >= k_positions.cummax(-2).values[..., -queries:, :]).all())


def consecutive(q_positions: Tensor, k_positions: Tensor) -> bool:
    """Look whether positions are whole and grow by one per row, with one offset in all samples."""
    one_axis = q_positions.shape[-1] == k_positions.shape[-1] == 1
    if not one_axis or not _readable(q_positions, k_positions):
        return False
    if q_positions.numel() == 0 or k_positions.numel() == 0:
        return False
    q, k = wide(q_positions), wide(k_positions)
    grow = [((side.diff(dim=-2) == 1).all() & (side == side.trunc()).all()) for side in (q, k)]
    nearest = (q[..., 0, 0] - k[..., 0, 0]).flatten()
    return bool(grow[0] & grow[1] & (nearest == nearest[0]).all())


def _readable(*tensors: Tensor) -> bool:
    """Whether numbers can be looked at without waiting for a device or breaking a graph."""
    return not is_followed(*tensors) and all(x.device.type == "cpu" for x in tensors)
