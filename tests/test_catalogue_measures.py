"""What is measured on an encoding, on some whose answers are plain."""

import pytest
import torch
from torch import nn

import posenc_mm
from posenc_mm.catalogue.example import Example
from posenc_mm.catalogue.measuring import axes_of, beyond, measure, relative


def test_liere_is_relative_where_its_generators_commute():
    pairs = posenc_mm.LieRE(8, 2, block=2, scale=0.5)
    blocks = posenc_mm.LieRE(8, 2, block=4, scale=0.5)
    line = posenc_mm.LieRE(8, 1, block=4, scale=0.5)
    assert (relative(pairs, 2), relative(line, 1), relative(blocks, 2)) == (True, True, False)


def test_a_clipped_table_counts_far_offsets_as_one_and_another_refuses_them():
    clipped = posenc_mm.RelativeBias(2, 5)
    assert beyond(clipped, 1) == "alike"
    assert beyond(posenc_mm.RelativeBias(2, 5, clip=False), 1) == "rescaled"


class OffByRow(posenc_mm.AttentionBias):
    """A bias that looks at one place: what a relative one never does."""

    heads = 1

    def forward(self, q_positions, k_positions):
        return (q_positions == 3).float()[None, :, :1] + 0 * k_positions[None, None, :, 0]


class Slope(posenc_mm.AttentionBias):
    """A learned penalty on distance, which starts at none."""

    heads = 1

    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.zeros(()))

    def forward(self, q_positions, k_positions):
        return self.slope * (q_positions - k_positions.mT).float().abs().unsqueeze(0)


class Whole(posenc_mm.AdditiveEncoding):
    """Takes two axes, small whole numbers alone, and has nothing to learn."""

    dim = 1

    def forward(self, positions):
        if positions.shape[-1] != 2 or positions.is_floating_point() or positions.max() > 9:
            raise ValueError("refused")
        return positions[..., :1].float()


def test_measures_on_made_up_encodings():
    assert not relative(OffByRow(), 1) and relative(Slope(), 1)
    assert beyond(Slope(), 1) == "yes", "what starts at zero is drawn first"
    assert beyond(Whole(), 2) == "no"
    assert axes_of(Example(Whole)) == (2,)
    traits = measure(Example(Whole), Whole())
    assert (traits.learned, traits.relative, traits.beyond) == ("no", False, "no")
    with pytest.raises(ValueError, match="1 to 4 axes, got Never"):
        measure(Example(Never), Never())


class Never(posenc_mm.AdditiveEncoding):
    def forward(self, positions):
        raise ValueError("refused")
