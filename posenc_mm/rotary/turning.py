"""How a rotation is applied to queries and keys."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from posenc_mm.layouts import ROTARY_LAYOUTS, check_layout
from posenc_mm.pairs import split, turn_first, turn_pairs, with_rest
from posenc_mm.rotary.eager import (
    are_numbers,
    memory_order,
    pays,
    turn_into,
    turn_numbers,
    turned,
    turned_in_place,
)
from posenc_mm.rotary.rotation import Rotation


def rotate(x: Tensor, rotation: Rotation, *, out: Tensor | None = None) -> Tensor:
    r"""Turn pairs of channels: :math:`(a, b) \to (a \cos - b \sin, \; a \sin + b \cos)`.

    The first :math:`2F` channels turn, the rest pass. Low-precision inputs are turned in float32
    and rounded once. The result has no gaps and keeps the order of ``x``'s axes in memory, but for
    exporters. Backward turns the other way and keeps the angles alone, not ``x``, unless they are
    learned. In eager mode on a CPU the interleaved layout is the faster one, by
    :func:`posenc_mm.convert_layout` also for weights that were trained with another; compiled and
    exported, all is real arithmetic.

    Args:
        x: queries or keys ``(B, H, N, D)``; leading axes may be missing where the rotation lacks
            them.
        rotation: from a :class:`RotaryEncoding`.
        out: takes the result, without gradients; like ``x``, which it may be.

    Returns:
        A tensor like ``x``, of its dtype; ``out`` where that is given.

    Raises:
        ValueError: ``x`` is not floating, is narrower than the rotation, has another number of
            tokens, heads or samples, or the rotation's layout, blocks, basis or matrices are not
            as :class:`Rotation` says; or ``out`` is not like ``x`` or takes part in gradients.

    Example:
        >>> from posenc_mm import Rotary, sequence
        >>> x = torch.tensor([[[[1.0, 0.0], [1.0, 0.0]]]])
        >>> rotate(x, Rotary(head_dim=2)(sequence(2)))
        tensor([[[[1.0000, 0.0000],
                  [0.5403, 0.8415]]]])
    """
    fitted = _fit(x, rotation)
    if out is not None:
        _check_out(out, x, fitted)
        if _at_once(x, fitted):
            turn_into(out, x, fitted.cos, fitted.sin, fitted.layout, fitted.blocks)
            return out
        return out.copy_(_apply(x, fitted))
    return _apply(x, fitted)


def rotate_(x: Tensor, rotation: Rotation) -> Tensor:
    """Turn queries or keys where they are: :func:`rotate` without another tensor.

    Gradients are right: what was computed before keeps its values or, where it needs those of
    ``x``, torch refuses its backward.

    Args:
        x: as for :func:`rotate`; not a leaf that requires gradients.
        rotation: from a :class:`RotaryEncoding`.

    Returns:
        ``x``

    Raises:
        ValueError: as for :func:`rotate`.

    Example:
        >>> from posenc_mm import Rotary, sequence
        >>> x = torch.ones(1, 1, 3, 4)
        >>> rotate_(x, Rotary(head_dim=4)(sequence(3))) is x
        True
    """
    fitted = _fit(x, rotation)
    if _at_once(x, fitted):
        return turned_in_place(x, fitted.cos, fitted.sin, fitted.layout, fitted.blocks)
    return x.copy_(_apply(x, fitted))


def _apply(x: Tensor, fitted: Rotation) -> Tensor:
    basis, matrices = fitted.basis, fitted.matrices
    result = x
    if basis is not None and not fitted.basis_last:
        result = _in_basis(result, basis)
    result = _turn(result, fitted) if matrices is None else _multiply(result, matrices)
    if basis is not None and fitted.basis_last:
        result = _in_basis(result, basis)
    return result if result.dtype == x.dtype else result.to(x.dtype)


def _at_once(x: Tensor, rotation: Rotation) -> bool:
    more = rotation.basis is not None or rotation.matrices is not None
    return not more and pays(x, rotation.cos, rotation.sin, rotation.layout)


def _check_out(out: Tensor, x: Tensor, rotation: Rotation) -> None:
    if out.shape != x.shape or out.dtype != x.dtype or out.device != x.device:
        raise ValueError(
            f"out must be like x, {tuple(x.shape)} in {x.dtype} on {x.device}, got "
            f"{tuple(out.shape)} in {out.dtype} on {out.device}"
        )
    parts = (out, x, rotation.cos, rotation.sin, rotation.basis, rotation.matrices)
    if torch.is_grad_enabled() and any(part is not None and part.requires_grad for part in parts):
        raise ValueError("out takes no part in gradients: leave it out, or use torch.no_grad()")


def _turn(x: Tensor, rotation: Rotation) -> Tensor:
    cos, sin, layout, blocks = rotation.cos, rotation.sin, rotation.layout, rotation.blocks
    numbers = are_numbers(x, cos, sin, layout)
    if not numbers and pays(x, cos, sin, layout):
        return turned(x, cos, sin, layout, blocks)
    steps = turn_numbers if numbers else turn_pairs
    if x.is_contiguous() or torch.compiler.is_exporting() or torch.jit.is_tracing():  # type: ignore[attr-defined, no-untyped-call]
        return turn_first(x, cos, sin, layout, blocks, steps)
    # Turned as it lies, as projections leave it, with no copy on the way or back.
    order = memory_order(x)
    cos, sin = (each[(None,) * (x.ndim - each.ndim)].permute(order) for each in (cos, sin))
    there = turn_first(x.permute(order), cos, sin, layout, blocks, steps)
    return there.permute([order.index(axis) for axis in range(x.ndim)])


def _in_basis(x: Tensor, basis: Tensor) -> Tensor:
    dtype = torch.promote_types(x.dtype, basis.dtype)
    with _no_autocast(x):
        mixed = x[..., : basis.shape[-1]].to(dtype) @ basis.to(dtype)
    return with_rest(mixed, x)


def _multiply(x: Tensor, matrices: Tensor) -> Tensor:
    blocks, size = matrices.shape[-3], matrices.shape[-1]
    dtype = torch.promote_types(x.dtype, matrices.dtype)
    parts = split(x[..., : blocks * size].to(dtype), blocks, size)
    with _no_autocast(x):
        # Not matmul, which would copy the matrices for every head and sample.
        mixed = torch.einsum("...kij,...kj->...ki", matrices.to(dtype), parts).flatten(-2)
    return with_rest(mixed.contiguous(), x)


def _no_autocast(x: Tensor) -> AbstractContextManager[object]:
    kind = x.device.type
    return torch.autocast(kind, enabled=False) if kind != "meta" else nullcontext()


def _lifted(values: Tensor) -> Tensor:
    """Undo the cast of a wrapper that casts what a block is given."""
    return values.float() if values.element_size() < 4 else values


def _fit(x: Tensor, rotation: Rotation) -> Rotation:
    """Check a rotation against what it is to turn, and give it the head axis that it lacks."""
    cos, sin = _lifted(rotation.cos), _lifted(rotation.sin)
    check_layout(rotation.layout, ROTARY_LAYOUTS)
    if not x.is_floating_point():
        raise ValueError(f"x must be floating, got dtype {x.dtype}")
    if cos.shape != sin.shape or cos.ndim < (3 if rotation.per_head else 2):
        raise ValueError(
            f"rotation must have cos and sin of one shape (..., N, F), with H before N per head, "
            f"got {tuple(cos.shape)} and {tuple(sin.shape)}"
        )
    if rotation.blocks < 1 or cos.shape[-1] % rotation.blocks:
        raise ValueError(
            f"rotation must have blocks that divide its {cos.shape[-1]} pairs, got "
            f"blocks={rotation.blocks}"
        )
    basis, matrices = _fit_products(cos, rotation)
    if not rotation.per_head and cos.ndim > 2:
        cos, sin = cos.unsqueeze(-3), sin.unsqueeze(-3)
        matrices = None if matrices is None else matrices.unsqueeze(-5)
    wanted = 2 * cos.shape[-1] if basis is None else basis.shape[-1]
    if x.ndim < cos.ndim or x.shape[-1] < wanted or x.shape[-2] != cos.shape[-2]:
        raise ValueError(
            f"x must be (B, H, N, D) with N={cos.shape[-2]} tokens and at least "
            f"D={wanted} channels for this rotation, got shape {tuple(x.shape)}"
        )
    for name, place in (("heads", -3), ("samples", -4)):
        if cos.ndim >= -place and cos.shape[place] not in (1, x.shape[place]):
            raise ValueError(
                f"rotation is of {cos.shape[place]} {name}, x has {x.shape[place]}: got shapes "
                f"{tuple(rotation.cos.shape)} and {tuple(x.shape)}"
            )
    return rotation._replace(cos=cos, sin=sin, basis=basis, matrices=matrices)


def _fit_products(cos: Tensor, rotation: Rotation) -> tuple[Tensor | None, Tensor | None]:
    basis, matrices, pairs = rotation.basis, rotation.matrices, cos.shape[-1]
    if basis is not None:
        basis = _lifted(basis)
        of_heads = cos.shape[-3:-2] if rotation.per_head else ()
        square = basis.shape[-2:] == (basis.shape[-1],) * 2 and basis.shape[-1] >= 2 * pairs
        if not square or basis.shape[:-2] not in ((), of_heads):
            raise ValueError(
                f"rotation must have a basis (W, W), or (H, W, W) where it is per head, of "
                f"W >= {2 * pairs} channels, got shape {tuple(basis.shape)} beside cos of "
                f"{tuple(cos.shape)}"
            )
    if matrices is not None:
        matrices = _lifted(matrices)
        size = matrices.shape[-1]
        if matrices.shape != (*cos.shape[:-1], 2 * pairs // max(size, 1), size, size):
            raise ValueError(
                f"rotation must have matrices (..., N, blocks, b, b) for the {2 * pairs} channels "
                f"and the tokens of cos {tuple(cos.shape)}, got shape {tuple(matrices.shape)}"
            )
    return basis, matrices
