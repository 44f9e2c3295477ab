"""Misuse that once gave finite numbers, or an error that named nothing: each is refused by name."""

import numpy as np
import pytest
import torch

import posenc_mm as pm

Q, K = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 5, 8)
AT = pm.sequence(5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bias": torch.ones(5, 5).tril().bool()}, "bias must be floating"),
        ({"bias": torch.zeros(5, 5, dtype=torch.int64)}, "bias must be floating"),
        ({"bias": "alibi"}, "bias must be an AttentionBias"),
        ({"bias": pm.ALiBi(1), "q_positions": AT}, "bias is for 1 heads, but q has 4"),
        ({"q_start": 1.5}, "q_start"),
        ({"q_start": True}, "q_start"),
        ({"q_start": torch.zeros(3, dtype=torch.int64)}, "q_start"),
        (
            {"rotation": pm.Rotary(8)(AT), "k_rotation": pm.Rotary(8, rotary_dim=4)(AT)},
            "of one encoding",
        ),
        (
            {
                "rotation": pm.MixedRotary(8, 4, axes=1)(AT),
                "k_rotation": pm.MixedRotary(8, 2, axes=1)(AT),
            },
            "of one encoding",
        ),
    ],
)
def test_attention_refuses(arguments: dict, message: str):
    with pytest.raises(ValueError, match=message):
        pm.attend(Q, K, K, **arguments)


def test_numpy_integers_are_integers():
    one, two = pm.T5Bias(2, buckets=np.int64(32), max_distance=np.int64(128)), pm.T5Bias(2)
    two.load_state_dict(one.state_dict())
    at = pm.sequence(150)
    assert torch.equal(one(at, at), two(at, at))
    assert torch.equal(
        pm.grid(np.int64(2), 3, offset=np.int64(2**25 + 1))[0], torch.tensor([2**25 + 1] * 2)
    )
    assert pm.Learned(4, (np.int64(2), 3)).sizes == (2, 3)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: pm.ALiBi(None), "heads"),
        (lambda: pm.grid((3, 4)), "sizes"),
        (lambda: pm.grid(None, 2), "sizes"),
        (lambda: pm.T5Bias(2, max_distance=128.5), "max_distance"),
        (lambda: pm.Fourier(8, seed=None), "seed"),
        (lambda: pm.Rotary(8, base="10"), "base"),
        (lambda: pm.Rotary(8, base=True), "base"),
        (lambda: pm.Rotary(8, base=10**400), "base"),
        (lambda: pm.MixedRotary(8, 2, base="10"), "base"),
        (lambda: pm.Rotary(4, base=9.0, frequencies=[[1.0, 0.1]]), "base"),
        (lambda: pm.Learned(8, 3, std="0.1"), "std"),
        (lambda: pm.sequence(np.float32(2.5)), "length"),
        (lambda: pm.Transformer(32, 1, 4, rotary=pm.ALiBi(4)), "rotary must be a RotaryEncoding"),
    ],
)
def test_arguments_of_another_kind_are_refused_by_name(make, name: str):
    with pytest.raises(ValueError, match=name):
        make()


@pytest.mark.parametrize("bias", [pm.T5Bias(2), pm.RelativeBias(2, 4)], ids=repr)
def test_biases_refuse_positions_that_are_no_numbers(bias):
    with pytest.raises(ValueError, match="numbers"):
        bias(torch.tensor([[0.0], [torch.nan]]), AT.float())


def test_a_float_grid_beyond_a_window_is_refused_like_a_whole_one():
    bias = pm.RelativeBias(2, (3, 3))
    for at in (pm.grid(4, 4), pm.grid(4, 4).float()):
        with pytest.raises(ValueError, match="offsets"):
            bias(at, at)
    at = pm.rescale(pm.grid(9, 6), (9, 6), (3, 3))
    assert bias(at, at).isfinite().all()


def test_a_host_refuses_positions_and_caches_of_others():
    model = pm.Transformer(32, 2, 4, causal=True, additive=pm.Sinusoidal(32))
    x = torch.zeros(1, 4, 32)
    with pytest.raises(ValueError, match="positions"):
        model(x, torch.zeros(3, 4, 1))
    shallow, cache = pm.Transformer(32, 1, 4, causal=True), pm.KVCache()
    shallow(x, pm.sequence(4), cache=cache)
    with pytest.raises(ValueError, match="1 layers.*2"):
        model(x[:, :1], pm.sequence(1, offset=4), cache=cache)
    for wrong in ({"key_mask": torch.ones(1, 2, dtype=torch.bool)}, {}):
        at = pm.sequence(1, offset=4) if wrong else torch.tensor([[4.0]])
        with pytest.raises(ValueError, match="key_mask|positions"):
            shallow(x[:, :1], at, cache=cache, **wrong)
        assert len(cache) == 4 and cache.key_mask is None
    assert shallow(x[:, :1], pm.sequence(1, offset=4), cache=cache).shape == (1, 1, 32)


def test_bytes_are_row_numbers_not_a_mask():
    rows = torch.tensor([[0], [1], [2]])
    for dtype in (torch.uint8, torch.int32):
        kept = pm.keep(pm.sequence(3, offset=10), rows.to(dtype))
        assert kept.flatten().tolist() == [10, 11, 12]
        rotation = pm.Rotary(4)(pm.sequence(3)).keep(rows.to(dtype))
        assert rotation.cos.shape == (3, 1, 2)


def test_mixed_dtypes_do_not_round_positions():
    far, near = torch.tensor([[2**24 + 1]]), torch.tensor([[2.0**24]])
    assert pm.ALiBi(1)(far, near).item() == -(2**-8)
    assert pm.ALiBi(1)(near, far).item() == -(2**-8)


def test_mixed_frames_are_rotations_and_one_axis_is_plain():
    torch.manual_seed(0)
    frames = pm.mixed(2, heads=50)[..., [0, 1]].double()
    assert torch.allclose(torch.linalg.det(frames), torch.ones(50).double(), atol=1e-5)
    assert torch.allclose(pm.mixed(2, heads=4, axes=1)[:, 0], torch.tensor([1.0, 10**-0.5]))


class Resized(torch.nn.Module):
    def __init__(self, **grid: str) -> None:
        super().__init__()
        self.table, self.grid = pm.Learned(4, (3, 5)), grid

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        height, width = image.shape
        read = self.table(pm.rescale(pm.grid(height, width), (height, width), (3, 5)))
        return read + pm.normalised_grid(height, width, **self.grid).sum(-1, keepdim=True)


@pytest.mark.parametrize("grid", [{"by": "min"}, {"by": "max"}, {"ends": "edges"}, {}], ids=str)
def test_grids_and_resized_tables_export_and_compile_for_every_size(grid: dict):
    module = Resized(**grid)
    sizes = {0: torch.export.Dim("h", min=2, max=40), 1: torch.export.Dim("w", min=2, max=40)}
    program = torch.export.export(module, (torch.zeros(4, 6),), dynamic_shapes=(sizes,))
    compiled = torch.compile(module, backend="eager", fullgraph=True, dynamic=True)
    for shape in ((4, 6), (6, 4), (3, 5), (9, 11)):
        image = torch.zeros(shape)
        for other in (program.module(), compiled):
            assert torch.allclose(other(image), module(image), atol=1e-6)
