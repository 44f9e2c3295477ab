"""How one axis of a grid is resized: the published rules."""

from dataclasses import dataclass

from posenc_mm.checks import check_number

_KERNELS = ("cubic", "linear", "area", "nearest")


@dataclass(frozen=True)
class Rule:
    r"""How the entries of an axis weigh in each entry of another length.

    Entry :math:`i` of :math:`m` lies at :math:`x_i = (i + \tfrac{1}{2}) s - \tfrac{1}{2}` among the
    :math:`n` of the source, with :math:`s = n / (m + \text{offset})`, and weighs source entry
    :math:`j` by :math:`k(j - x_i)`.

    References:
        Keys: Cubic Convolution Interpolation for Digital Image Processing (1981),
        https://doi.org/10.1109/TASSP.1981.1163711

    Args:
        kernel: ``"cubic"`` (Keys' kernel, :math:`a = -0.75`, but :math:`a = -0.5` where it
            antialiases, as PyTorch has it), ``"linear"``, ``"area"`` (the mean of the entries that
            a cell touches) or ``"nearest"`` (the entry whose cell holds :math:`x_i`).
        antialias: widen the kernel to :math:`s` entries where the axis gets shorter, and divide by
            the sum of the weights, at the borders too; else entries beyond repeat the outermost.
        align_corners: put the first and last entry on each other, :math:`x_i = i (n-1) / (m-1)`.
        offset: added to the target length (0.1 in DINOv2), but where the grid stays as it is.
        keep_aspect: refuse targets that scale the axes differently.

    Raises:
        ValueError: an unknown kernel, a negative offset, or settings that do not go together.

    Example:
        >>> from posenc_mm.resizing import matrix
        >>> matrix(2, 4, Rule("linear")).tolist()
        [[1.0, 0.0], [0.75, 0.25], [0.25, 0.75], [0.0, 1.0]]
    """

    kernel: str = "cubic"
    antialias: bool = False
    align_corners: bool = False
    offset: float = 0.0
    keep_aspect: bool = False

    def __post_init__(self) -> None:
        if self.kernel not in _KERNELS:
            raise ValueError(f"kernel must be one of {_KERNELS}, got kernel={self.kernel!r}")
        check_number(offset=self.offset)
        smooth = self.kernel in ("cubic", "linear")
        if not smooth and (self.antialias or self.align_corners or self.offset):
            raise ValueError(
                f"antialias, align_corners and offset are for the kernels 'cubic' and 'linear', "
                f"leave them out of {self}"
            )
        if self.align_corners and (self.antialias or self.offset):
            raise ValueError(
                f"align_corners excludes antialias and offset, leave one out of {self}"
            )


RULES = {
    "timm": Rule("cubic", antialias=True),
    "bicubic": Rule("cubic"),
    "bilinear": Rule("linear"),
    "mae": Rule("cubic"),
    "deit": Rule("cubic"),
    "swin": Rule("cubic"),
    "dinov2": Rule("cubic", offset=0.1),
    "dinov2_reg": Rule("cubic", antialias=True),
    "flexivit": Rule("linear"),
    "radio": Rule("linear"),
    "pe": Rule("linear"),
    "big_vision": Rule("linear", align_corners=True),
    "naflex": Rule("linear", antialias=True),
    "qwen3": Rule("linear", align_corners=True),
    "vjepa2": Rule("cubic", keep_aspect=True),
    "vjepa2_video": Rule("linear"),
    "area": Rule("area"),
    "nearest": Rule("nearest"),
}
"""The rules by the names of those who published them, and PyTorch's by theirs.

``big_vision`` is its resampling when a checkpoint is loaded; its learned tables of images in their
own shapes resize by ``naflex``.
"""


def rule_of(rule: str | Rule) -> Rule:
    """Find a rule by its name, or take it as it comes.

    Args:
        rule: one of ``RULES``, or a rule.

    Returns:
        The rule.

    Raises:
        ValueError: no rule has the name.

    Example:
        >>> rule_of("mae").kernel
        'cubic'
    """
    if isinstance(rule, Rule):
        return rule
    if rule not in RULES:
        raise ValueError(f"rule must be a Rule or one of {sorted(RULES)}, got rule={rule!r}")
    return RULES[rule]
