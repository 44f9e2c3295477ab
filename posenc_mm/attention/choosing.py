"""Which way of computing attention is taken, and why: from facts, without looking at numbers."""

from typing import NamedTuple

import torch

BACKENDS = ("auto", "sdpa", "factors", "blocks", "flex", "dense")
# Below so many pairs a mask costs less than what goes around it.
WORTH = 2**22


class Facts(NamedTuple):
    """What the choice depends on.

    Attributes:
        device: type of the device.
        dtype: in which the kernel multiplies.
        traced: whether a compiler or an exporter watches: then sizes decide nothing, since each
            threshold would be another graph.
        pairs: heads times queries times keys, of all samples; 0 where traced.
        causal: whether a causal rule is left to say: not for one query beside the last key.
        square: whether query rows are the key rows, or are so for the kernel: no causal rule.
        upright: whether logits grow with queries times keys: a scale above zero.
        masks: names of the masks given, ``q_start`` under a causal rule included.
        bias: ``"none"``, ``"tensor"``, ``"evaluated"`` contextual, ``"contextual"`` or
            ``"module"``.
        name: the bias's class.
        factored: whether it has factors; None where nothing looked.
        past_only: whether these are right only for keys at or before the query.
        ordered: whether positions never fall from one row to the next; None where not known.
        tabled: whether it reads differences, of positions known to be consecutive.
        scored: whether it has a ``score_mod``; None where nothing looked.
        after: whether something is added after the softmax.
        trains: whether gradients are wanted, of anything.
        learned: whether gradients are wanted of the bias module.
    """

    device: str
    dtype: torch.dtype
    traced: bool
    pairs: int
    causal: bool
    square: bool
    upright: bool
    masks: tuple[str, ...]
    bias: str
    name: str
    factored: bool | None
    past_only: bool
    ordered: bool | None
    tabled: bool
    scored: bool | None
    after: bool
    trains: bool
    learned: bool


class Choice(NamedTuple):
    """How attention is computed.

    Attributes:
        backend: ``"sdpa"``, ``"factors"``, ``"blocks"``, ``"flex"`` or ``"dense"``.
        reason: why, in a sentence.
        refused: of each other way than ``"dense"``, why it is not taken.
    """

    backend: str
    reason: str
    refused: dict[str, str]


def choose(facts: Facts, backend: str) -> Choice:
    """Pick the fastest exact way, or the one that is asked for.

    Args:
        facts: what the choice depends on.
        backend: one of ``BACKENDS``.

    Returns:
        The choice.

    Raises:
        ValueError: the way asked for cannot do it.
    """
    cannot = {
        "sdpa": _not_plain(facts),
        "factors": _not_folded(facts),
        "blocks": _not_blocked(facts),
        "flex": _not_flexed(facts),
    }
    refused = {name: why for name, why in cannot.items() if why}
    if backend in refused:
        raise ValueError(
            f"backend={backend!r} cannot do this: {refused[backend]}. Use backend='auto' or 'dense'"
        )
    if backend != "auto":
        return Choice(backend, "It was asked for", refused)
    why = _unwise(facts)
    if "sdpa" not in refused and (why or not facts.after):
        return Choice("sdpa", "The fused kernel needs no mask for this", _but(refused, "sdpa"))
    if why:
        return Choice("dense", why, _but(refused, "dense", why))
    # A table leaves no copies of q, k and v. Gradients of slopes lose digits in 16 bits.
    table = facts.tabled and not facts.trains
    table = table or (facts.learned and facts.dtype.itemsize == 2 and not facts.traced)
    if "factors" not in refused and not table and not facts.after:
        what = f"{facts.name} is folded" if facts.name else "Hidden keys are folded"
        reason = f"{what} into a few channels, so that the fused kernel needs no mask"
        return Choice("factors", reason, _but(refused, "factors"))
    if "blocks" not in refused and not facts.traced and facts.bias != "tensor":
        reason = "A mask for a block of queries at a time"
        if facts.tabled:
            reason = (
                f"{facts.name} is a table of differences, read for a block of queries at a time"
            )
        return Choice("blocks", reason, _but(refused, "blocks"))
    why = "A mask for all pairs: the bias is one already"
    if facts.bias != "tensor":
        why = "A mask for all pairs: blocks would fix the length in a compiled graph"
    return Choice("dense", why, _but(refused, "dense", why))


def _unwise(facts: Facts) -> str:
    """Why not to look further than a mask."""
    if facts.device != "cpu":
        return f"A mask for all pairs: other ways are measured on CPUs only, not on {facts.device}"
    if not facts.traced and facts.pairs < WORTH:
        return f"A mask for all pairs: for as few as {facts.pairs}, nothing is faster"
    if facts.bias == "none" and facts.masks == ("key_mask",) and not facts.causal:
        return "A mask, which is small since all queries share it"
    return ""


def _but(refused: dict[str, str], taken: str, why: str = "") -> dict[str, str]:
    """Say of each other way why it is not taken, though some could be."""
    could = {name: why or f"It is exact too, but {taken} costs less" for name in BACKENDS[1:5]}
    could["flex"] = "It is taken only where asked for"
    return {name: refused.get(name, said) for name, said in could.items() if name != taken}


def _not_plain(facts: Facts) -> str:
    if facts.bias != "none":
        return "The fused kernel takes no bias without a tensor for it"
    if facts.masks:
        return f"The fused kernel takes no {' or '.join(facts.masks)} without a mask tensor"
    if facts.causal and not facts.square:
        return "The fused kernel's causal rule wants as many queries as keys, or one query"
    return ""


def _not_folded(facts: Facts) -> str:
    other = [name for name in facts.masks if name != "key_mask"]
    if other:
        return f"It has no room for {' and '.join(other)}"
    if facts.causal and not facts.square:
        return "The fused kernel's causal rule wants as many queries as keys, or one query"
    if facts.dtype not in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        return f"It does not know how to split numbers into {facts.dtype}"
    if facts.device == "mps":
        return "It needs float64 for positions"
    if not facts.upright:
        return "It needs a scale above zero"
    if facts.bias == "none":
        return "" if facts.masks else "There is nothing to fold"
    if facts.bias == "tensor":
        return "The bias came as numbers for all pairs: give the module and its positions"
    if facts.bias != "module":
        return f"{facts.name} depends on what tokens hold"
    if facts.factored is None:
        return "Nothing looked for factors, for so few pairs or on such a device"
    if not facts.factored:
        return f"{facts.name} is not a product of few numbers per query and key"
    return _not_in_order(facts)


def _not_in_order(facts: Facts) -> str:
    if not facts.past_only or facts.ordered:
        return ""
    if facts.ordered is None:
        return (
            f"{facts.name} is folded only where no key is ahead of its query: pass ordered=True if "
            f"positions never fall from one row to the next"
        )
    return f"{facts.name} is folded only under a causal rule along which positions never fall"


def _not_blocked(facts: Facts) -> str:
    if facts.bias == "evaluated":
        return "The bias was evaluated for all pairs: give the module and its positions"
    return ""


def _not_flexed(facts: Facts) -> str:
    if facts.after:
        return "FlexAttention adds nothing after the softmax"
    if facts.bias == "tensor":
        return "The bias came as numbers for all pairs: give the module and its positions"
    if facts.bias in ("evaluated", "contextual"):
        return f"{facts.name} depends on what tokens hold"
    if facts.bias == "module" and facts.scored is False:
        return f"{facts.name} has no score_mod for such positions"
    if facts.device == "cpu" and facts.trains:
        return "FlexAttention has no backward pass on a CPU: use backend='blocks'"
    if facts.dtype == torch.float64:
        return "FlexAttention has no float64"
    return ""
