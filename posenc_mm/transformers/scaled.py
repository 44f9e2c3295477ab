"""A model's own ladder of frequencies under a scaling."""

import dataclasses

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
        settings = self.settings
        length = None
        if not settings.scaling.static and positions.numel():
            length = int(positions.amax()) + 1
        theta = angles(positions, [settings.frequencies(length=length)])
        factor = settings.amplitude(length)
        return Rotation(theta.cos() * factor, theta.sin() * factor, self.layout, amplitude=factor)

    def extra_repr(self) -> str:
        own = self.settings
        return f"{own.scaling}, rotary_dim={own.rotary_dim}, base={own.base}"
