"""Learned tables of grids: cubic curves, absolute windows, and what existing pieces give."""

import math

import oracles_grid as oracles
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

import posenc_mm as pm

KERNELS = ["cubic", "cubic_aa"]


def shaken(module):
    with torch.no_grad():
        for seed, parameter in enumerate(module.parameters()):
            generator = torch.Generator().manual_seed(seed)
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return module.double()


def resized(table, target, antialias=False):
    """Torch's own bicubic resizing of a (H, W, D) table, as (H' W', D)."""
    image = table.detach().movedim(-1, 0)[None]
    image = functional.interpolate(
        image, target, mode="bicubic", align_corners=False, antialias=antialias
    )
    return image[0].flatten(1).T


def read(encoding, target):
    return encoding(pm.rescale(pm.grid(*target).double(), target, encoding.sizes))


# ------------------------------------------------------------ cubic curves


@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    kernel=st.sampled_from(KERNELS),
    data=st.data(),
)
def test_cubic_table_between_its_cells(sizes, kernel, data):
    encoding = shaken(pm.Learned(3, tuple(sizes), kernel=kernel))
    place = st.tuples(*[st.floats(-0.5, size - 0.5) for size in sizes])
    positions = data.draw(st.lists(place, min_size=1, max_size=3))
    expected = oracles.cubic_table(encoding.table.detach(), positions, kernel)
    got = encoding(torch.tensor(positions, dtype=torch.float64))
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("target", [(30, 40), (10, 90), (3, 5), (13, 21), (1, 2)])
def test_cubic_reading_is_bicubic_resizing_at_any_size(target):
    encoding = shaken(pm.Learned(3, (13, 21), kernel="cubic"))
    expected = resized(encoding.table, target)
    torch.testing.assert_close(read(encoding, target), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("target", [(30, 40), (13, 22), (14, 21), (100, 21)])
def test_antialiased_reading_is_antialiased_resizing_to_finer_grids(target):
    """To coarser ones it is not: there antialiasing averages over more entries."""
    encoding = shaken(pm.Learned(3, (13, 21), kernel="cubic_aa"))
    expected = resized(encoding.table, target, antialias=True)
    torch.testing.assert_close(read(encoding, target), expected, rtol=0, atol=1e-12)
    coarse = resized(encoding.table, (6, 30), antialias=True)
    assert (read(encoding, (6, 30)) - coarse).abs().max() > 0.5


@pytest.mark.parametrize(("size", "target"), [(7, 19), (7, 4), (1, 3), (2, 5)])
def test_cubic_reading_of_one_axis_is_that_of_a_picture_of_one_row(size, target):
    encoding = shaken(pm.Learned(3, size, kernel="cubic"))
    expected = resized(encoding.table[None], (1, target))
    torch.testing.assert_close(read(encoding, (target,)), expected, rtol=0, atol=1e-12)


def test_cubic_reading_of_three_axes_resizes_one_after_another():
    encoding, target = shaken(pm.Learned(3, (3, 4, 5), kernel="cubic")), (4, 7, 6)
    frames = torch.stack([resized(frame, (7, 6)) for frame in encoding.table])
    expected = resized(frames, (4, 42)).reshape(-1, 3)
    torch.testing.assert_close(read(encoding, target), expected, rtol=0, atol=1e-12)


def test_cubic_reading_of_factorised_tables_resizes_each():
    encoding = shaken(pm.Learned(3, (4, 9), joint=False, kernel="cubic"))
    rows, columns = (
        resized(table[None], (1, count))
        for table, count in zip(encoding.tables, (6, 5), strict=True)
    )
    expected = (rows[:, None] + columns).flatten(0, 1)
    torch.testing.assert_close(read(encoding, (6, 5)), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kernel", ["linear", *KERNELS])
def test_every_kernel_picks_entries_at_whole_positions(kernel):
    encoding, at = shaken(pm.Learned(3, (3, 5), kernel=kernel)), pm.grid(3, 5)
    flat = encoding.table.detach().flatten(0, 1)
    assert torch.equal(encoding(at), flat) and torch.equal(encoding(at.double()), flat)


@pytest.mark.parametrize("kernel", ["linear", *KERNELS])
def test_sixteen_bit_tables_are_interpolated_in_more(kernel):
    """Rounding shares and sums to bfloat16 would cost several times its one rounding."""
    encoding = shaken(pm.Learned(16, (5, 7), kernel=kernel)).bfloat16()
    wide = pm.Learned(16, (5, 7), kernel=kernel)
    wide.load_state_dict(encoding.state_dict())
    at = pm.rescale(pm.grid(11, 9), (11, 9), (5, 7))
    got = encoding(at)
    assert got.dtype == torch.bfloat16 and torch.equal(got, wide(at).bfloat16())


def test_cubic_positions_far_outside_are_refused_and_names_checked():
    with pytest.raises(ValueError, match="rescale"):
        pm.Learned(3, (4, 4), kernel="cubic")(torch.tensor([[3.51, 0.0]]))
    for make in (
        lambda: pm.Learned(3, 4, kernel="bicubic"),
        lambda: pm.WindowedLearned(3, (4, 4), (2, 2), kernel="area"),
    ):
        with pytest.raises(ValueError, match="kernel"):
            make()


# ------------------------------------------------------------ absolute windows


@pytest.mark.parametrize("size", [(24, 40), (16, 16), (32, 24)])
def test_absolute_windows_are_those_of_timms_hiera(size):
    """Its own code on a picture of zeros, at every size that its windows divide."""
    hiera = pytest.importorskip("timm.models.hiera")
    model = hiera.Hiera(
        img_size=size, patch_kernel=(7, 7), patch_stride=(4, 4), patch_padding=(3, 3),
        embed_dim=12, num_heads=1, stages=(1, 1), q_pool=1, mask_unit_size=(2, 2), q_stride=(2, 2),
        abs_win_pos_embed=True, global_pos_size=(3, 4), num_classes=0, weight_init="skip",
    )  # fmt: skip
    shaken(model)
    encoding = pm.WindowedLearned(12, (3, 4), (2, 2)).double()
    with torch.no_grad():
        encoding.table.copy_(model.pos_embed[0].movedim(0, -1))
        encoding.window_table.copy_(model.pos_embed_win[0].movedim(0, -1))
    grid = [side // 4 for side in size]
    zeros = torch.zeros(1, math.prod(grid), 12, dtype=torch.float64)
    got = encoding(encoding.places(*grid).double())
    # places are in float32 here
    torch.testing.assert_close(got, model._pos_embed(zeros)[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("kernel", KERNELS)
def test_windowed_table_is_the_published_one_in_any_order_and_part(kernel):
    encoding = shaken(pm.WindowedLearned(5, (3, 4), (2, 3), kernel=kernel))
    places = encoding.places(7, 8).double()
    expected = oracles.windowed(
        places, encoding.table.detach(), encoding.window_table.detach(), kernel
    )
    got = encoding(places)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)
    kept = torch.randperm(56)[:20]
    assert torch.equal(encoding(places[kept]), got[kept])
    batch = torch.stack((places, places.flip(0)))
    assert torch.equal(encoding(batch), torch.stack((got, got.flip(0))))


def test_windows_repeat_and_the_picture_does_not():
    """At two sizes the window's part is the same per token, the global one per place."""
    encoding = shaken(pm.WindowedLearned(5, (3, 3), (2, 4)))
    with torch.no_grad():
        encoding.table.zero_()
    for sizes in ((4, 8), (7, 9)):
        got = encoding(encoding.places(*sizes)).unflatten(0, sizes)
        assert torch.equal(got[:2, :4], encoding.window_table)
        assert torch.equal(got[2:], got[:-2]) and torch.equal(got[:, 4:], got[:, :-4])
    again = shaken(pm.WindowedLearned(5, (3, 3), (2, 4)))
    with torch.no_grad():
        again.window_table.zero_()
    assert torch.equal(again(again.places(3, 3)), again.table.flatten(0, 1))
    # cells between the rows of the table: the picture's centre stays its centre
    assert torch.allclose(again(again.places(9, 9))[40], again.table[1, 1], atol=1e-12)


def test_places_of_a_picture_are_cells_then_places():
    encoding = pm.WindowedLearned(2, (2, 3), (2, 2))
    assert encoding.places(2, 3).tolist() == [[r, c, r, c] for r in range(2) for c in range(3)]
    assert encoding.places(4, 3)[:, 2].unique().tolist() == [-0.25, 0.25, 0.75, 1.25]
    fractional = torch.tensor([[0.6, 1.4, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0]])
    assert torch.equal(*encoding(fractional))
    for wrong in ((2,), (2, 3, 4), (0, 3)):
        with pytest.raises(ValueError, match="sizes|axes"):
            encoding.places(*wrong)
    for make in (
        lambda: pm.WindowedLearned(2, (2, 3), (2,)),
        lambda: pm.WindowedLearned(2, (2, 0), (2, 2)),
        lambda: pm.WindowedLearned(2, (2, 2), (2, 2), std=-1),
        lambda: encoding(pm.grid(2, 3)),
        lambda: encoding(torch.tensor([[0.0, 0, 0, 2.6]])),
    ):
        with pytest.raises(ValueError, match="window|sizes|std|axes|places"):
            make()


def test_absolute_windows_on_a_timm_model():
    """Positions come from the encoding itself, and prefix tokens get none."""
    vision_transformer = pytest.importorskip("timm.models.vision_transformer")
    timm = pytest.importorskip("posenc_mm.timm")
    model = vision_transformer.VisionTransformer(
        img_size=(24, 40), patch_size=4, embed_dim=12, depth=1, num_heads=2, num_classes=0
    ).eval()
    encoding = pm.WindowedLearned(12, (3, 4), (2, 2))
    image = torch.randn(1, 3, 24, 40)
    wanted = torch.cat((torch.zeros(1, 12), encoding(encoding.places(6, 10))))
    with torch.no_grad():
        model.pos_embed.copy_(wanted)
    expected = model(image)
    timm.attach(
        model,
        additive=encoding,
        positions=lambda h, w, device: encoding.places(h, w, device=device),
    )
    torch.testing.assert_close(model(image), expected, rtol=0, atol=1e-6)


# ------------------------------------------------------------ what existing pieces give


def test_two_tables_summed_are_navits():
    """Dehghani et al. 2023: a row's vector plus a column's, by whole positions."""
    encoding, at = shaken(pm.Learned(6, (5, 9), joint=False)), pm.grid(4, 7)
    rows, columns = encoding.tables
    expected = rows[at[:, 0]] + columns[at[:, 1]]
    assert torch.equal(encoding(at), expected)


def test_two_tables_side_by_side_are_detrs():
    """Carion et al. 2020, https://arxiv.org/abs/2005.12872: the column's half comes first."""
    column, row = shaken(pm.Learned(4, 50)), shaken(pm.Learned(4, 40))
    encoding = pm.Concat([column, row], axes=[[1], [0]])
    height, width = 3, 5
    wide = column.table[:width].repeat(height, 1, 1)
    high = row.table[:height].unsqueeze(1).repeat(1, width, 1)
    expected = torch.cat((wide, high), -1).flatten(0, 1)
    assert torch.equal(encoding(pm.grid(height, width)), expected)


def test_space_plus_time_is_hieras_video_table():
    """Its spatial table repeats over time, its temporal one over space (Ryali et al. 2023)."""
    hiera = pytest.importorskip("timm.models.hiera")
    model = hiera.Hiera(
        img_size=(6, 16, 24), patch_kernel=(3, 7, 7), patch_stride=(2, 4, 4),
        patch_padding=(1, 3, 3), embed_dim=12, num_heads=1, stages=(1, 1), q_pool=1,
        mask_unit_size=(1, 2, 2), q_stride=(1, 2, 2), sep_pos_embed=True, num_classes=0,
        weight_init="skip",
    )  # fmt: skip
    shaken(model)
    space, time = pm.Learned(12, (4, 6)).double(), pm.Learned(12, 3).double()
    with torch.no_grad():
        space.table.copy_(model.pos_embed_spatial[0].unflatten(0, (4, 6)))
        time.table.copy_(model.pos_embed_temporal[0])
    encoding = pm.Sum([space, time], axes=[[1, 2], [0]])
    zeros = torch.zeros(1, 72, 12, dtype=torch.float64)
    assert torch.equal(encoding(pm.grid(3, 4, 6)), model._pos_embed(zeros)[0])
