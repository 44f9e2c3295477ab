"""Whether something looks into the future: change it, and see whether the past moves."""

import math
from collections.abc import Callable

import torch
from torch import Tensor


def leak(function: Callable[[Tensor], Tensor], inputs: Tensor, first: int) -> float:
    """Measure how much outputs before a row change when the inputs from that row on do.

    Anything may leak: an encoding, a network, a scaler that saw the whole series. What does not is
    at 0 exactly. The function must be deterministic: a network in ``eval()``.

    Floats from the row on become noise beyond all values there are, above and below. Integers,
    which may be rows of a table, become the first row, then the last one before.

    Args:
        function: of inputs ``(..., N, D)``, with outputs ``(..., N, E)``.
        inputs: ``(..., N, D)``, tokens or positions, in the order of time.
        first: the first row of the future, 1 to N - 1.

    Returns:
        The largest change; infinite where a number becomes none.

    Raises:
        ValueError: there is no past or no future, outputs have other rows than inputs, or integers
            are all the same, so that nothing can be seen.

    Example:
        >>> x = torch.randn(2, 9, 3)
        >>> leak(lambda x: x.cumsum(dim=1), x, first=6)
        0.0
        >>> leak(lambda x: x - x.mean(dim=1, keepdim=True), x, first=6) > 0
        True
    """
    if inputs.ndim < 2 or not 0 < first < inputs.shape[-2]:
        raise ValueError(
            f"first must leave rows of inputs (..., N, D) on both sides, got first={first} and "
            f"shape {tuple(inputs.shape)}"
        )
    past, future = inputs[..., :first, :], inputs[..., first:, :]
    others = _others(inputs, first)
    if all(torch.equal(other, future) for other in others):
        raise ValueError(f"inputs must change over time to show a leak, got {inputs}")
    with torch.no_grad():
        before = _past_of(function(inputs.clone()), inputs, first)
        changes = [
            _change(before, _past_of(function(torch.cat((past, other), dim=-2)), inputs, first))
            for other in others
        ]
    return max(changes)


def _others(inputs: Tensor, first: int) -> list[Tensor]:
    future = inputs[..., first:, :]
    if not inputs.is_floating_point():
        return [inputs[..., row, None, :].expand_as(future) for row in (0, first - 1)]
    draw = torch.Generator("cpu").manual_seed(0)
    noise = torch.rand(future.shape, generator=draw, dtype=torch.float64, device="cpu") + 1
    sides = torch.randint(0, 2, future.shape, generator=draw, device="cpu") * 2 - 1
    reach = 1 + 2 * inputs.abs().nan_to_num(0.0, 0.0).amax()
    beyond = (noise * sides).to(inputs.device, inputs.dtype) * reach
    return [beyond, -beyond]


def _past_of(outputs: Tensor, inputs: Tensor, first: int) -> Tensor:
    if outputs.ndim < 2 or outputs.shape[-2] != inputs.shape[-2]:
        raise ValueError(
            f"outputs must have the {inputs.shape[-2]} rows of inputs, (..., N, E), got shape "
            f"{tuple(outputs.shape)}"
        )
    return outputs[..., :first, :].double()


def _change(before: Tensor, after: Tensor) -> float:
    same = torch.isclose(before, after, rtol=0, atol=0, equal_nan=True)
    change = (after - before).abs().masked_fill(same, 0)
    return float(change.masked_fill(change.isnan(), math.inf).max())
