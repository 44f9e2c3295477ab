"""Time2Vec: a learned line and learned sines of time, added to the tokens."""

import torch
from torch import Tensor, nn

from posenc_mm.additive.base import AdditiveEncoding
from posenc_mm.checks import check_number, check_whole
from posenc_mm.frequencies import angles, check_positions
from posenc_mm.timestamps.civil import real_of


class Time2Vec(AdditiveEncoding):
    r"""A line and sines of time, with learned slope, frequencies and phases.

    .. math:: e_0(\tau) = \omega_0 \tau + \varphi_0, \quad
        e_i(\tau) = \sin(\omega_i \tau + \varphi_i), \quad \tau = (p - p_0) / s

    The origin is subtracted exactly, before anything is rounded.

    Traps: frequencies are of the order of one radian per unit of :math:`\tau`, so the scale says
    which seasons can be found: a day or so for hourly data, be the positions hours or nanoseconds.
    The line grows without end, so the origin belongs near the data. Some codes have the line last.

    References:
        Kazemi et al.: Time2Vec: Learning a Vector Representation of Time (2019),
        https://arxiv.org/abs/1907.05321

    Args:
        dim: width :math:`D`: the line, then :math:`D - 1` sines.
        scale: :math:`s`, the time that counts as one, in units of position.
        origin: :math:`p_0`, the position of :math:`\tau = 0`, whole.

    Shape:
        ``positions (..., N, 1) -> (..., N, D)``, in float64 where the positions are, else float32

    Raises:
        ValueError: ``dim`` is below 1, ``scale`` not positive or ``origin`` not whole; at the call,
            positions do not have one axis.

    Example:
        >>> encoding = Time2Vec(dim=4, scale=86_400, origin=1_700_000_000)
        >>> encoding(torch.tensor([[1_700_000_000], [1_700_003_600]])).shape
        torch.Size([2, 4])
    """

    def __init__(self, dim: int, *, scale: float = 1.0, origin: int = 0) -> None:
        super().__init__()
        check_whole(dim=dim)
        check_number(above=True, scale=scale)
        check_whole(-(2**63), origin=origin)
        self.dim, self.scale, self.origin = dim, float(scale), origin
        self.frequencies = nn.Parameter(torch.empty(dim))
        self.phases = nn.Parameter(torch.empty(dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw slope, frequencies and phases anew, from a standard normal distribution."""
        nn.init.normal_(self.frequencies)
        nn.init.normal_(self.phases)

    def forward(self, positions: Tensor) -> Tensor:
        check_positions(positions, 1)
        real = real_of(positions.device)
        exact = positions.to(real) if positions.is_floating_point() else positions.long()
        tau = (exact - self.origin).to(real) / self.scale
        line = tau * self.frequencies[:1] + self.phases[:1]
        theta = angles(tau, self.frequencies[None, 1:]) + self.phases[1:]
        encoded = torch.cat((line, theta.sin()), dim=-1)
        return encoded.to(torch.promote_types(positions.dtype, torch.float32))

    def extra_repr(self) -> str:
        return f"dim={self.dim}, scale={self.scale}, origin={self.origin}"
