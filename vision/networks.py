"""timm networks by name, and the widths that an encoding has to fit."""

import json
from functools import lru_cache
from typing import Any, NamedTuple

import timm
import torch
from torch import nn


class Widths(NamedTuple):
    """What an encoding must fit in a network.

    Attributes:
        dim: channels of a token.
        heads: attention heads.
        head_dim: channels of a head.
        grid: patches per axis (rows, columns) of an image of the network's own size.
    """

    dim: int
    heads: int
    head_dim: int
    grid: tuple[int, int]


def create(
    network: str,
    arguments: dict[str, Any] | None = None,
    *,
    image_size: int | tuple[int, int] = 224,
    channels: int = 3,
    classes: int = 1000,
) -> nn.Module:
    """Create a timm network that takes images of other sizes too, where its family can.

    Args:
        network: any name that ``timm.create_model`` knows.
        arguments: any keyword of it but those below.
        image_size: pixels, one number or (height, width).
        channels: of an image.
        classes: to tell apart.

    Returns:
        The network.

    Raises:
        ValueError: timm does not know the name, or ``arguments`` names what is given here.
    """
    arguments = dict(arguments or {})
    taken = {"img_size": "size of the data", "in_chans": "data", "num_classes": "data"}
    for name in taken.keys() & arguments.keys():
        raise ValueError(
            f"network_args may not hold {name!r}, which comes from the {taken[name]}, "
            f"got network_args={arguments}"
        )
    if ":" not in network and not timm.is_model(network):  # a colon: from a hub
        close = ", ".join(timm.list_models(f"*{network.partition('_')[0]}*")[:5]) or "none"
        raise ValueError(
            f"network must be a name that timm.create_model knows, got {network!r} "
            f"(close ones: {close})"
        )
    given = {"in_chans": channels, "num_classes": classes, **arguments}
    size = image_size if isinstance(image_size, int) else tuple(image_size)
    # Convolutional families take no size at all, and some others cannot change theirs.
    for sizes in ({"img_size": size, "dynamic_img_size": True}, {"img_size": size}):
        try:
            return timm.create_model(network, **sizes, **given)
        except TypeError as error:
            if not any(name in str(error) for name in sizes):
                raise
    return timm.create_model(network, **given)


def widths(
    network: str, arguments: dict[str, Any] | None, image_size: int | tuple[int, int]
) -> Widths:
    """Read off a network what an encoding has to fit, without allocating its weights.

    Args:
        network: any name that ``timm.create_model`` knows.
        arguments: keywords for it.
        image_size: pixels, one number or (height, width).

    Returns:
        The widths.

    Raises:
        ValueError: the network does not cut its images into one grid of patches.
    """
    return _widths(network, json.dumps(arguments or {}, sort_keys=True, default=str), image_size)


@lru_cache(maxsize=32)
def _widths(network: str, arguments: str, image_size: int | tuple[int, int]) -> Widths:
    with torch.device("meta"):
        # Never the weights of a pretrained network: only its shape is wanted.
        keywords = {**json.loads(arguments), "pretrained": False}
        model = create(network, keywords, image_size=image_size)
    try:
        attention = model.blocks[0].attn
        heads = attention.num_heads
        head_dim = getattr(attention, "head_dim", model.embed_dim // heads)
        return Widths(model.embed_dim, heads, head_dim, tuple(model.patch_embed.grid_size))
    except (AttributeError, TypeError, IndexError) as error:
        raise ValueError(
            f"network must be of a family with one grid of patches (VisionTransformer, Eva) to "
            f"take an encoding, got {network!r}, a {type(model).__name__}"
        ) from error
