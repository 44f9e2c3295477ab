"""Patch embeddings for patches of another size."""

import torch
from torch import Tensor

from posenc_mm.checks import check_sizes
from posenc_mm.resizing.matrices import apply, matrix
from posenc_mm.resizing.rules import Rule, rule_of


def resize_patch_kernel(
    weight: Tensor, target: int | tuple[int, ...], *, rule: str | Rule = "timm"
) -> Tensor:
    r"""Resize a kernel that embeds patches such that resized patches embed as before.

    .. math:: w' = ((W_1 \otimes \cdots \otimes W_A)^{\top})^{+} \, w \quad\Rightarrow\quad
        \langle W x, w' \rangle = \langle x, w \rangle

    The law holds exactly where the kernel gets larger (and :math:`W` has full column rank); where
    it gets smaller, :math:`w'` comes nearest to it over patches :math:`x` of white noise.

    References:
        Beyer et al.: FlexiViT: One Model for All Patch Sizes (2022),
        https://arxiv.org/abs/2212.08013

    Args:
        weight: ``(D, C, *size)`` of a convolution of any number of axes, patch by patch.
        target: cells wanted per axis.
        rule: how patches are resized: ``"timm"``, ``"flexivit"``, any rule, or a name of
            :data:`~posenc_mm.resizing.RULES`.

    Returns:
        ``(D, C, *target)`` in the dtype of ``weight``, computed in float64 where the device has it;
        ``weight`` itself where the sizes are equal.

    Raises:
        ValueError: ``weight`` has no axes of a patch, ``target`` another number of them, or the
            rule is unknown.

    Example:
        >>> kernel = torch.randn(8, 3, 4, 4)
        >>> resize_patch_kernel(kernel, (8, 6)).shape
        torch.Size([8, 3, 8, 6])
    """
    found, new = rule_of(rule), check_sizes("target", target)
    old = tuple(weight.shape[2:])
    if not old or len(old) != len(new):
        raise ValueError(
            f"weight must be (D, C, *size) with one axis for each of target={new}, got shape "
            f"{tuple(weight.shape)}"
        )
    if old == new:
        return weight
    work = matrix(1, 1, device=weight.device)
    inverses = []
    for n, m in zip(old, new, strict=True):
        # On the CPU: where a device has no float64, the inverse is rounded once, at the end.
        inverse = torch.linalg.pinv(matrix(n, m, found, device="cpu")).T
        inverses.append(inverse.to(work.device, work.dtype))
    out = apply(inverses, weight.movedim((0, 1), (-2, -1)))
    return out.movedim((-2, -1), (0, 1)).to(weight.dtype).contiguous()
