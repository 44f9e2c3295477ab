"""Blocks of the caller's own: whether they call their attention so that encodings reach it."""

from typing import Any, ClassVar

import torch
from torch import Tensor

from posenc_mm.timm.blocks import Calling
from posenc_mm.timm.views import Acts, Front

_TOKENS = 3


class _Seen(Acts):
    """Counts how often something turned and whether a mask came through."""

    def __init__(self, mask: Tensor, masked: bool) -> None:
        super().__init__(given={"attn_mask": mask} if masked else {})
        self.turns = 0

    def turn(self, x: Tensor) -> Tensor:
        self.turns += 1
        return x


class CustomFront(Front):
    """A block of the caller's own, which takes no mask by itself."""

    _view: ClassVar[Any] = Calling


def probe(model: Any, blocks: dict[str, Any], slots: Any) -> None:
    """Run each of the caller's own blocks on a few tokens, and refuse it if encodings do not show.

    Args:
        model: its blocks are fronted already.
        blocks: by name.
        slots: which of them are filled.

    Raises:
        ValueError: the attention of a block did not turn queries and keys, or the block failed.
    """
    for name, block in blocks.items():
        if not isinstance(block, CustomFront):
            continue
        module: Any = block
        weight = next(model.parameters())
        tokens = torch.linspace(-1, 1, _TOKENS * model.embed_dim, device=weight.device)
        tokens = tokens.to(weight.dtype).reshape(1, _TOKENS, -1)
        mask = torch.zeros(1, 1, _TOKENS, _TOKENS, device=weight.device, dtype=weight.dtype)
        seen = _Seen(mask, "bias" in slots)
        modes = {part: part.training for part in module.modules()}
        try:
            with torch.no_grad():
                module.eval()
                CustomFront.forward(block, tokens, acts=seen)
            why = (
                "" if seen.turns == 2 else f"its queries and keys turned {seen.turns} times, not 2"
            )
        except (TypeError, AttributeError, RuntimeError, ValueError) as error:
            why = f"it raised {type(error).__name__}: {error}"
        for part, mode in modes.items():
            part.training = mode
        if why:
            raise ValueError(
                f"{name} must call its attention once, as self.attn(x, ...) in its forward: a "
                f"{block._original.__name__} was tried on {_TOKENS} tokens, and {why}"
            )
