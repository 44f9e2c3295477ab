"""Where the keys of a cache are: their positions, kept in the cache itself.

Each kind of layer that a cache has (growing, of a fixed size, with a window) gets one more layer of
that kind, which holds positions where the others hold keys. Whatever happens to the keys then
happens to their positions: beams are reordered, rejected tokens cropped, old ones fall out of the
window, and a compiled step writes in place.
"""

from typing import Any

from torch import Tensor
from transformers.cache_utils import (
    Cache,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    StaticLayer,
    StaticSlidingWindowLayer,
)

Kind = tuple[Any, ...]


def kind_of(cache: Cache, index: int, count: int, name: str | None) -> Kind:
    """Say of which kind a layer of a cache is.

    Args:
        cache: of any class that has a list of layers.
        index: which layer.
        count: layers of the model, that a cache makes as they come.
        name: of the positions, where layers differ in them.

    Returns:
        What layers whose keys have the same rows share.

    Raises:
        ValueError: the cache has no such list.
    """
    layers = getattr(cache, "layers", None)
    if not isinstance(layers, list):
        raise ValueError(
            f"cache must be one with a list of layers, such as DynamicCache or StaticCache, for a "
            f"bias to know where its keys are, got a {type(cache).__name__}"
        )
    while cache.layer_class_to_replicate is not None and len(layers) < count:
        layers.append(cache.layer_class_to_replicate())
    layer: Any = layers[index]
    if isinstance(layer, StaticLayer):
        sliding = isinstance(layer, StaticSlidingWindowLayer)
        return (name, "static", sliding, layer.max_cache_len)
    window = layer.sliding_window if isinstance(layer, DynamicSlidingWindowLayer) else None
    return (name, "dynamic", window)


def key_positions(
    cache: Cache, index: int, count: int, kind: Kind, points: Tensor
) -> tuple[Tensor, bool]:
    """Append the positions of new tokens, once per forward and kind.

    Args:
        cache: as in :func:`kind_of`.
        index: a layer of that kind, which has not seen these tokens yet.
        count: layers of the model.
        kind: as :func:`kind_of` says.
        points: ``(B, N, A)`` of the new tokens.

    Returns:
        ``(B, M, A)``, of all rows of the keys that such a layer is about to return, and whether
        these tokens are the first.

    Raises:
        ValueError: the cache holds tokens already whose positions nobody kept.
    """
    known = [each for each in cache.layers[count:] if getattr(each, "posenc", None) == kind]
    if not known:
        layer: Any = cache.layers[index]
        if layer.is_initialized and layer.get_seq_length() != 0:
            raise ValueError(
                "cache must be empty when a model with a bias attached first sees it, as nobody "
                "kept the positions of what it holds: run the prompt again with a new cache"
            )
        cache.layers.append(_like(layer, kind))
    record: Any = known[0] if known else cache.layers[-1]
    rows = points.unsqueeze(1)
    held, _ = record.update(rows, rows[..., :0])
    positions: Tensor = held.squeeze(1)
    return positions, not known


def _like(layer: Any, kind: Kind) -> Any:
    """An empty layer whose rows come and go as those of another."""
    made: Any
    if kind[1] == "static":
        size = layer.max_cache_len
        sliding = {"sliding_window": size} if kind[2] else {}
        made = (StaticSlidingWindowLayer if sliding else StaticLayer)(max_cache_len=size, **sliding)
        # Earlier ones are told by the attention where to write, and would write at 0 here.
        if not isinstance(getattr(made, "cumulative_length", None), Tensor):
            raise ValueError(
                "cache of a fixed size must count its own tokens, as in transformers 5.24, for a "
                "bias: use a DynamicCache, or that transformers"
            )
    elif kind[2] is not None:
        made = DynamicSlidingWindowLayer(sliding_window=layer.sliding_window)
        made.record_past = getattr(layer, "record_past", False)
    else:
        made = DynamicLayer()  # type: ignore[no-untyped-call]
    made.posenc = kind
    return made
