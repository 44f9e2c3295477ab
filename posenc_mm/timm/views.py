"""How a timm model runs with other encodings: its own code, with another ``self``.

While something is attached, a class stands in front of a module's own. Its forward calls timm's
with a view of the module, which answers otherwise for what an encoding changes: a model's for the
positional embedding, the patch dropout and the blocks, a block's for its attention, an attention's
for ``q_norm`` and ``k_norm``. What holds for one image size is an argument of the calls it was
computed for and kept nowhere: other sizes before the backward, recomputation under gradient
checkpointing, compiled graphs, copies and threads cannot meet it. Modules are called: hooks run.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from posenc_mm.fronting import Fronted
from posenc_mm.rotary import Rotation, rotate
from posenc_mm.timm.slots import Here, Slots


class Acts:
    """What one attention is to do in one forward.

    Not a tuple or dataclass: what casts the tensors among a module's arguments (FSDP) must not see
    into it.

    Attributes:
        rotation: of its queries and keys, if any.
        bias: added to its logits where its forward has no argument for that.
        native: whether its own encoding stays in force.
        given: arguments of its forward by name.
    """

    def __init__(
        self,
        rotation: Rotation | None = None,
        bias: Tensor | None = None,
        native: bool = False,
        given: dict[str, Any] | None = None,
    ) -> None:
        self.rotation, self.bias, self.native = rotation, bias, native
        self.given: dict[str, Any] = {} if given is None else given

    def turn(self, x: Tensor) -> Tensor:
        """Turn queries or keys ``(B, H, N, D)``."""
        return x if self.rotation is None else rotate(x, self.rotation)


class View:
    """A module with other answers for the attributes that a subclass defines or sets."""

    def __init__(self, module: Any, acts: Any = None) -> None:
        self._module, self._acts = module, acts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class Embed(View):
    """A patch embedding whose output passes through a function that also sees the input."""

    def __call__(self, image: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        tokens: Tensor = self._acts(self._module(image, *args, **kwargs), image)
        return tokens


class Blocks(list[Callable[..., Tensor]]):
    """Blocks with what this forward gives them; called like ``nn.Sequential``, in order."""

    def __call__(self, tokens: Tensor) -> Tensor:
        for block in self:
            tokens = block(tokens)
        return tokens


class Front(Fronted):
    """A module below the model, which is given what an attention in it is to do."""

    _view: ClassVar[Callable[..., View]]

    def forward(self, x: Tensor, *args: Any, acts: Any = None, **kwargs: Any) -> Any:
        host = self if acts is None else self._view(self, acts)
        return self._original.forward(host, x, *args, **kwargs)


class Attached(Fronted):
    """A model that runs with the encodings in its ``posenc``; a subclass per family of timm.

    Attributes:
        native: which of the model's parameters are its own encodings, a regular expression.
        refused: slots that the family cannot carry, and why.
        checked: methods that must be timm's own, as their code is relied on.
        mask: the argument by which its attention takes a bias.
        inside: whether an encoding of its own sits in its attentions.
        conditional: whether its tokens keep their places from block to block, so that a
            conditional encoding can act between two of them.
    """

    posenc: Slots
    native: ClassVar[str]
    refused: ClassVar[dict[str, str]] = {}
    checked: ClassVar[tuple[str, ...]] = ("forward_features", "forward_intermediates")
    mask: ClassVar[str] = "attn_mask"
    inside: ClassVar[bool] = False
    conditional: ClassVar[bool] = False
    call: ClassVar[Any]

    def forward_features(self, x: Tensor, *args: Any, **kwargs: Any) -> Any:
        return self._original.forward_features(self.call(self), x, *args, **kwargs)

    def forward_intermediates(self, x: Tensor, *args: Any, **kwargs: Any) -> Any:
        return self._original.forward_intermediates(self.call(self), x, *args, **kwargs)

    def no_weight_decay(self) -> set[str]:
        own = {f"posenc.{name}" for name, _ in self.posenc.named_parameters()}
        return set(self._original.no_weight_decay(self)) | own

    def group_matcher(self, coarse: bool = False) -> dict[str, Any]:
        groups = self._original.group_matcher(self, coarse)
        return {**groups, "stem": f"{groups['stem']}|^posenc"}

    @classmethod
    def check(cls, model: Any, slots: Slots) -> None:
        """Refuse what the family cannot carry together."""

    @classmethod
    def stages(cls, model: Any) -> list[Any]:
        """Modules between it and its blocks."""
        return []

    @classmethod
    def width(cls, model: Any) -> int:
        """Channels of its patch tokens."""
        return int(model.embed_dim)

    @classmethod
    def blocks_of(cls, model: Any) -> dict[str, Any]:
        """Its blocks by name, in order; one used twice comes twice."""
        return {f"blocks.{index}": block for index, block in enumerate(model.blocks)}

    @classmethod
    def stages_of(cls, model: Any) -> list[int]:
        """In how many blocks each of its stages has, so that a list may have one for each stage."""
        return [1] * len(cls.blocks_of(model))

    @classmethod
    def places(cls, model: Any, here: Here) -> list[Here]:
        """Where each attention looks: everywhere, or within windows."""
        return [here]


def four_axes(bias: Tensor) -> Tensor:
    """As every kernel takes it."""
    return bias[(None,) * (4 - bias.ndim)]


def merge(bias: Tensor, mask: Tensor | None) -> Tensor:
    """A bias with the caller's mask, boolean or added, of four axes."""
    if mask is not None:
        bias = torch.where(mask, bias, -torch.inf) if mask.dtype == torch.bool else bias + mask
    return four_axes(bias)
