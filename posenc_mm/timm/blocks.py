"""What stands in front of timm's blocks and stages, and which modules each of the fronts fits."""

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

from timm.models import beit, eva, swin_transformer, swin_transformer_v2, vision_transformer
from timm.models import vision_transformer_relpos as relpos
from timm.models import vision_transformer_sam as sam
from torch import Tensor

from posenc_mm.fronting import Fronted
from posenc_mm.timm.attentions import ATTENTIONS, DifferentialFront, Normed, paired
from posenc_mm.timm.views import Acts, Blocks, Front, View


class _NormedByToken(View):
    """Queries and keys are normed as (B, N, H, D)."""

    def q_norm(self, q: Tensor) -> Any:
        return self._acts.turn(self._module.q_norm(q).transpose(1, 2)).transpose(1, 2)

    def k_norm(self, k: Tensor) -> Any:
        return self._acts.turn(self._module.k_norm(k).transpose(1, 2)).transpose(1, 2)


class Calling(View):
    """The attention is called with what it is given."""

    def attn(self, x: Tensor, *args: Any, **kwargs: Any) -> Any:
        acts = self._acts
        return self._module.attn(x, *args, **{**kwargs, **acts.given}, acts=acts)


class _CallingWindows(Calling):
    def _attn(self, x: Tensor) -> Any:
        return self._module._original._attn(self, x)


class _Branch(Calling):
    def __call__(self, x: Tensor) -> Any:
        branch = self._module
        return branch.drop_path(branch.ls(self.attn(branch.norm(x))))


class _Branches(View):
    @property
    def attns(self) -> list[_Branch]:
        return [_Branch(branch, self._acts) for branch in self._module.attns]


class _Stage(View):
    @property
    def blocks(self) -> Blocks:
        each = zip(self._module.blocks, self._acts, strict=True)
        return Blocks([partial(block, acts=acts) for block, acts in each])


class BlockFront(Front):
    """A block that calls its attention as ``self.attn``."""

    _view = Calling


class WindowBlockFront(Front):
    """A block of Swin, which calls its attention from ``_attn``."""

    _view = _CallingWindows


class BranchesFront(Front):
    """A block of several attentions side by side."""

    _view = _Branches


class ParallelFront(Front):
    """A block that is its own attention."""

    _view: ClassVar[Any] = _NormedByToken

    def forward(self, x: Tensor, *args: Any, acts: Any = None, **kwargs: Any) -> Any:
        given = {} if acts is None else acts.given
        return super().forward(x, *args, acts=acts, **{**kwargs, **given})


class DifferentialParallelFront(ParallelFront):
    """The same with two maps per head."""

    _view = Normed

    def forward(self, x: Tensor, *args: Any, acts: Any = None, **kwargs: Any) -> Any:
        if acts is not None:
            acts = Acts(acts.rotation, acts.bias, acts.native, paired(self, acts.given))
        return super().forward(x, *args, acts=acts, **kwargs)


class StageFront(Front):
    """A stage of blocks."""

    _view = _Stage


# By name, as timm's releases differ in which of them they have and where.
_BLOCKS: list[tuple[Any, dict[str, type[Front]]]] = [
    (vision_transformer, dict.fromkeys(("Block", "ResPostBlock"), BlockFront)),
    (vision_transformer, {"ParallelThingsBlock": BranchesFront}),
    (vision_transformer, {"ParallelScalingBlock": ParallelFront}),
    (vision_transformer, {"DiffParallelScalingBlock": DifferentialParallelFront}),
    (eva, dict.fromkeys(("EvaBlock", "EvaBlockPostNorm"), BlockFront)),
    (beit, {"Block": BlockFront}),
    (relpos, dict.fromkeys(("RelPosBlock", "ResPostRelPosBlock"), BlockFront)),
    (swin_transformer, {"SwinTransformerBlock": WindowBlockFront}),
    (swin_transformer_v2, {"SwinTransformerV2Block": WindowBlockFront}),
    (sam, {"Block": BlockFront}),
]
_DIFFERENTIAL = (DifferentialFront, DifferentialParallelFront)


def front_of(module: Any) -> type[Front] | None:
    """What fits in front of a block or an attention, by the code that it runs."""
    kind = module._original if isinstance(module, Fronted) else type(module)
    forward = getattr(kind, "forward", None)
    for file, fronts in (*_BLOCKS, *ATTENTIONS):
        for name, front in fronts.items():
            known = getattr(file, name, None)
            if known is not None and known.forward is forward:
                return front
    return None


def attentions_of(name: str, block: Any) -> Iterator[tuple[str, Any]]:
    """The attentions of a block by name; a block may be its own."""
    front = front_of(block)
    if front is not None and issubclass(front, ParallelFront):
        yield name, block
    elif front is BranchesFront:
        for index, branch in enumerate(block.attns):
            yield f"{name}.attns.{index}.attn", branch.attn
    elif getattr(block, "attn", None) is not None:
        yield f"{name}.attn", block.attn


def heads_of(attention: Any) -> tuple[int, set[int], int]:
    """Heads whose logits take a bias, heads whose queries and keys turn, channels of the latter."""
    heads = attention.num_heads
    # Grouped queries: there are fewer heads of keys.
    turning = {heads, getattr(attention, "num_kv_heads", heads)}
    if front_of(attention) in _DIFFERENTIAL:
        turning = {2 * heads}
    width = getattr(attention, "head_dim", None) or attention.proj.in_features // heads
    return heads, turning, width
