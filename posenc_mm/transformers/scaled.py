"""A model's own ladder of frequencies under a scaling."""

import dataclasses

import torch
from torch import Tensor, nn

from posenc_mm.frequencies import angles
from posenc_mm.rotary import Rotation
from posenc_mm.scaling import RotarySettings, Scaling


class Scaled(nn.Module):
    """Turns as the model was trained to, with speeds that a scaling changes.

    A scaling that depends on the length gets the one of each forward, the largest position plus
    one, which is read back from the device for it.

    Args:
        settings: the model's own.
        scaling: in place of theirs.
        layout: where the model's pairs sit.
    """

    def __init__(self, settings: RotarySettings, scaling: Scaling, layout: str) -> None:
        super().__init__()
        self.settings = dataclasses.replace(settings, scaling=scaling)
        self.layout = layout

    def forward(self, positions: Tensor) -> Rotation:
        if self.settings.scaling.static or not positions.numel():
            return self._turned(positions, None)
        turned: Rotation = self._of_a_length_read_back_from_the_device(positions)
        return turned

    def _turned(self, positions: Tensor, length: int | None) -> Rotation:
        theta = angles(positions, [self.settings.frequencies(length=length)])
        factor = self.settings.amplitude(length)
        return Rotation(theta.cos() * factor, theta.sin() * factor, self.layout, amplitude=factor)

    # Compiled, numbers that depend on the length would be compiled anew for each. Where a single
    # graph is asked for, torch names this function in its error.
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def _of_a_length_read_back_from_the_device(self, positions: Tensor) -> Rotation:
        return self._turned(positions, int(positions.amax()) + 1)

    def extra_repr(self) -> str:
        own = self.settings
        return f"{own.scaling}, rotary_dim={own.rotary_dim}, base={own.base}"
