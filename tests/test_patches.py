"""Where a patch is: at the mean of its rows, in whole ticks, whatever does not come out even."""

import math

import oracles_time as reference
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import posenc_mm as pm
from posenc_mm.positions import patches

aligns = st.sampled_from(["end", "start"])


@given(
    rows=st.lists(st.integers(-(2**53), 2**53), min_size=1, max_size=24),
    patch=st.integers(1, 9),
    stride=st.integers(1, 11),
    align=aligns,
)
def test_whole_moments_lose_nothing(rows, patch, stride, align):
    """Exact where the mean is a float64, and else the float64 beside it."""
    patch = min(patch, len(rows))
    at = torch.tensor([[row, -row] for row in rows])
    got = patches(at, patch, stride, align=align)
    wanted = reference.patch_centres(at, patch, stride, align)
    assert got.dtype == torch.float64 and got.shape == wanted.shape
    for mine, exact in zip(got.flatten().tolist(), wanted.flatten().tolist(), strict=True):
        assert abs(mine - exact) <= math.ulp(exact)


@given(start=st.integers(-(2**53) + 10**6, 2**53 - 10**6), step=st.integers(1, 10**4))
def test_even_spacing_is_kept_to_the_last_bit(start, step):
    """Odd patches of equal steps: the centre is the middle row itself, though sums overflow."""
    at = (start + step * torch.arange(40)).unsqueeze(-1)
    got = patches(at, 5, 3, align="start")
    assert torch.equal(got.long(), at[2:-2:3][: len(got)])


def test_nanoseconds_do_not_overflow():
    """Three moments of 2023 in nanoseconds have a sum beyond 64 bits after six."""
    at = 1_700_000_000 * 10**9 + 10**9 * torch.arange(64).unsqueeze(-1)
    assert patches(at, 64)[0, 0] == 1_700_000_031_500_000_000


@given(
    rows=st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=20),
    patch=st.integers(1, 4),
    stride=st.integers(1, 5),
    align=aligns,
)
def test_fractional_positions(rows, patch, stride, align):
    at = torch.tensor(rows, dtype=torch.float64).unsqueeze(-1)
    got = patches(at, patch, stride, align=align)
    wanted = reference.patch_centres(at, patch, stride, align)
    torch.testing.assert_close(got, wanted, rtol=1e-14, atol=1e-9)


def test_far_fractional_moments_are_rounded_once():
    """Sums of seconds since 1970 would be rounded to 16 microseconds and more on the way."""
    far = torch.rand(1500, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    at = (1_700_000_000 + far * 3600).sort().values.unsqueeze(-1)
    got, wanted = patches(at, 300, 40), reference.patch_centres(at, 300, 40)
    assert (got - wanted).abs().max() <= math.ulp(1_700_000_000) / 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8, torch.int32])
def test_every_dtype_gives_float64(dtype):
    got = patches(torch.arange(200, 240).unsqueeze(-1).to(dtype), 8)
    assert got.dtype == torch.float64
    wanted = torch.arange(200, 240).to(dtype).double().unflatten(0, (5, 8)).mean(1)
    assert torch.equal(got[:, 0], wanted)


def test_a_patch_of_more_rows_than_a_byte_holds():
    assert patches((torch.arange(600) % 250).byte().unsqueeze(-1), 300).tolist() == [
        *([[(sum(range(250)) + sum(range(50))) / 300]]),
        *([[(sum(range(50, 250)) + sum(range(100))) / 300]]),
    ]


# ------------------------------------------------------------ which rows


@pytest.mark.parametrize(
    ("rows", "patch", "stride", "count"), [(336, 16, 8, 41), (512, 16, 8, 63), (104, 24, 2, 41)]
)
def test_the_published_numbers_of_patches(rows, patch, stride, count):
    """PatchTST/42 and /64 less the padded one, and its ILI script."""
    got = patches(pm.sequence(rows), patch, stride)
    assert got.shape == (count, 1)
    assert torch.equal(got, patches(pm.sequence(rows), patch, stride, align="start"))


def test_the_newest_rows_count_unless_asked_otherwise():
    at = pm.sequence(11)
    assert patches(at, 4)[:, 0].tolist() == [4.5, 8.5]
    assert patches(at, 4, align="start")[:, 0].tolist() == [1.5, 5.5]
    assert patches(at, 3, 6)[:, 0].tolist() == [3, 9]
    assert patches(at, 11)[:, 0].tolist() == [5]
    assert torch.equal(patches(at, 1), at.double())


@given(extra=st.integers(0, 40), patch=st.integers(1, 8), stride=st.integers(1, 8))
def test_older_rows_do_not_move_the_newest_patches(extra, patch, stride):
    """A longer lookback adds patches in front: what is there stays, as in a cache."""
    short, long = pm.sequence(20, offset=100), pm.sequence(20 + extra, offset=100 - extra)
    kept, more = patches(short, patch, stride), patches(long, patch, stride)
    assert torch.equal(more[len(more) - len(kept) :], kept)


def test_patches_of_samples_and_axes_are_those_of_each():
    """Rows per sample, padding at the front of one: its patches are its own."""
    mask = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1, 1, 1], [1] * 10])
    at = torch.cat((pm.from_mask(mask), torch.randint(0, 99, (2, 10, 1))), -1)
    got = patches(at, 4, 3)
    assert got.shape == (2, 3, 2)
    for sample, result in zip(at, got, strict=True):
        assert torch.equal(result, patches(sample, 4, 3))
        for axis in range(2):
            column = patches(sample[:, axis : axis + 1], 4, 3)
            assert torch.equal(result[:, axis : axis + 1], column)
    assert patches(at[:0], 4, 3).shape == (0, 3, 2)


def test_physical_time_does_not_depend_on_the_sampling_rate():
    """Four hours are one patch at 30 minutes as at 60: centres differ by half a step only."""
    hours = 3600 * torch.arange(48).unsqueeze(-1)
    halves = 1800 * torch.arange(96).unsqueeze(-1)
    coarse, fine = patches(hours, 4), patches(halves, 8)
    assert torch.equal(coarse - 1800 * 3, fine - 900 * 7)
    gap = torch.cat((hours[:20], hours[20:] + 86_400))
    assert patches(gap, 4).diff(dim=0).max() == 86_400 + 4 * 3600


# ------------------------------------------------------------ modules, refusals


class Patched(torch.nn.Module):
    def __init__(self, align):
        super().__init__()
        self.encoding, self.align = pm.Sinusoidal(6), align

    def forward(self, at):
        return self.encoding(patches(at, 4, 3, align=self.align))


@pytest.mark.parametrize("align", ["end", "start"])
def test_patches_compile_whole_and_export_with_any_length(align):
    torch._dynamo.reset()
    module = Patched(align)
    compiled = torch.compile(module, backend="eager", fullgraph=True, dynamic=True)
    length = torch.export.Dim("length", min=7, max=60)  # two patches: one is another shape
    program = torch.export.export(module, (pm.sequence(12),), dynamic_shapes=({0: length},))
    for count in (12, 31, 7, 20):
        at = pm.sequence(count, offset=10**15)
        assert torch.equal(compiled(at), module(at))
        assert torch.equal(program.module()(at), module(at))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: patches(pm.sequence(5), 6), r"at least patch=6 rows, got shape \(5, 1\)"),
        (lambda: patches(pm.sequence(0), 1), "patch=1"),
        (lambda: patches(pm.sequence(5), 0), "patch"),
        (lambda: patches(pm.sequence(5), 2.0), "patch"),
        (lambda: patches(pm.sequence(5), 2, 0), "stride"),
        (lambda: patches(pm.sequence(5), 2, align="left"), "align must be .*'left'"),
        (lambda: patches(torch.arange(5), 2), r"\(\.\.\., N, A\).*shape \(5,\)"),
        (lambda: patches(pm.sequence(5) > 2, 2), "torch.bool"),
    ],
)
def test_refusals_say_what_was_wanted_and_what_came(call, said):
    with pytest.raises(ValueError, match=said):
        call()
