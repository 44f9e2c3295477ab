"""Rotations in use: number types, decoding, dropped tokens, axes that look alike, layouts."""

import copy
import pickle

import oracles
import pytest
import torch

import posenc_mm as pm

LAYOUTS = ["interleaved", "half"]


def noise(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def reference(x, positions, dim, layout):
    angles = oracles.turning_angles(positions, oracles.rope_matrix(dim))
    return oracles.rotate(x, angles, layout)


# ------------------------------------------------------------ number types


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_rotated_tensor_keeps_its_type_and_accuracy(dtype, autocast, layout):
    x = noise(2, 3, 16, 32).to(dtype)
    positions = pm.sequence(16, offset=100)
    positions = positions.double() if dtype == torch.float64 else positions
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        got = pm.rotate(x, pm.Rotary(32, layout=layout)(positions))
    assert got.dtype == dtype
    expected = reference(x, positions, 32, layout)
    limit = 1e-10 if dtype == torch.float64 else 4 * torch.finfo(dtype).eps * x.abs().max().item()
    torch.testing.assert_close(got.double(), expected, rtol=0, atol=limit)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_casting_the_module_does_not_round_the_angles(dtype):
    """Also down and up again: what a rounded table has lost does not come back."""
    positions, x = pm.sequence(2048), noise(1, 1, 2048, 32)
    plain = pm.Rotary(32)(positions)
    for cast in (pm.Rotary(32).to(dtype), pm.Rotary(32).to(dtype).float()):
        assert all(map(torch.equal, cast(positions)[:2], plain[:2]))
    assert plain.cos[1857, 1].item() == pytest.approx(0.3066928, abs=1e-6)
    expected = reference(x.to(dtype), positions, 32, "half")
    got = pm.rotate(x.to(dtype), pm.Rotary(32).to(dtype)(positions)).double()
    limit = 4 * torch.finfo(dtype).eps * x.abs().max().item()
    torch.testing.assert_close(got, expected, rtol=0, atol=limit)


def test_positions_that_no_half_precision_number_holds():
    positions = torch.tensor([[2048], [2049], [4097], [65504], [65520]])
    x = noise(1, 1, 1, 32).expand(1, 1, 5, 32).half()
    got = pm.rotate(x, pm.Rotary(32).half()(positions)).double()
    assert torch.isfinite(got).all()
    torch.testing.assert_close(got, reference(x, positions, 32, "half"), rtol=0, atol=2e-2)
    assert torch.cdist(got[0, 0], got[0, 0]).fill_diagonal_(1).min() > 0.05


def test_fractional_times_keep_their_digits_beside_a_bfloat16_module():
    times = torch.tensor([[998.3897], [1000.0]])
    rotation = pm.Rotary(16).bfloat16()(times)
    angles = oracles.turning_angles(times.double(), oracles.rope_matrix(16))
    torch.testing.assert_close(rotation.cos.double(), angles.cos(), rtol=0, atol=1e-6)
    torch.testing.assert_close(rotation.sin.double(), angles.sin(), rtol=0, atol=1e-6)


# ------------------------------------------------------------ decoding, dropped and prefix tokens


def test_one_token_at_a_time_equals_all_at_once_in_any_order():
    """A table remembered by length alone would hand back the first offset's angles."""
    encoding, x = pm.Rotary(16), noise(2, 3, 12, 16)
    whole = pm.rotate(x, encoding(pm.sequence(12).double()))
    pieces = [(start, 1) for start in range(12)] + [(0, 4), (4, 4), (8, 4), (3, 1), (0, 12)]
    for start, length in pieces:
        positions = pm.sequence(length, offset=start).double()
        piece = pm.rotate(x[:, :, start : start + length], encoding(positions))
        assert torch.equal(piece, whole[:, :, start : start + length])


def test_rotary_has_no_longest_sequence_and_stores_nothing():
    for calls in ([(50, 0)], [(8, 0), (17, 0), (50, 0)], [(1, 49)], [(16, 0), (17, 0)]):
        encoding = pm.Rotary(8)
        for length, start in calls:
            positions = pm.sequence(length, offset=start)
            angles = oracles.turning_angles(positions, oracles.rope_matrix(8))
            got = encoding(positions).cos.double()
            torch.testing.assert_close(got, angles.cos(), rtol=0, atol=1e-6)
        assert not encoding.state_dict() and not list(encoding.buffers())
        pm.Rotary(8).load_state_dict(encoding.state_dict())


@pytest.mark.parametrize("per_head", [False, True])
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("heads", [2, 3])
def test_kept_tokens_turn_as_they_did_among_all(heads, batched, per_head):
    """Other tokens in each of 3 samples, unsorted; with 3 heads, batch and heads look alike."""
    torch.manual_seed(0)
    encoding = pm.MixedRotary(16, heads).double() if per_head else pm.Rotary(16, 2)
    x, positions = noise(3, heads, 24, 16), pm.grid(4, 6).double()
    if batched:
        positions = positions + noise(3, 1, 2)
    indices = torch.stack([torch.randperm(24)[:10] for _ in range(3)])
    rotation = encoding(positions)
    whole, kept = pm.rotate(x, rotation), rotation.keep(indices)
    for b, rows in enumerate(indices):
        got = pm.rotate(torch.stack([x[s, :, indices[s]] for s in range(3)]), kept)[b]
        torch.testing.assert_close(got, whole[b, :, rows], rtol=0, atol=1e-14)
    again = encoding(pm.keep(positions, indices))
    assert kept.per_head == again.per_head and torch.equal(kept.cos, again.cos)
    everything = rotation.keep(torch.arange(24).expand(3, -1))
    assert torch.equal(pm.rotate(x, everything), whole)


@pytest.mark.parametrize("per_head", [False, True])
@pytest.mark.parametrize("batched", [False, True])
def test_prefix_tokens_do_not_turn(batched, per_head):
    encoding = pm.MixedRotary(8, 2).double() if per_head else pm.Rotary(8, 2, layout="interleaved")
    positions = pm.grid(3, 4).double() + 1
    rotation = encoding(positions.expand(5, -1, -1) if batched else positions)
    x = noise(5, 2, 15, 8)
    got = pm.rotate(x, rotation.prefix(3))
    assert torch.equal(got[:, :, :3], x[:, :, :3])
    assert torch.equal(got[:, :, 3:], pm.rotate(x[:, :, 3:], rotation))
    assert rotation.prefix(3).layout == rotation.layout
    assert torch.equal(pm.rotate(x[:, :, 3:], rotation.prefix(0)), got[:, :, 3:])


@pytest.mark.parametrize("encoding", [pm.Rotary(8, 2), pm.MixedRotary(8, 4)], ids=str)
def test_copies_turn_alike_and_are_apart(encoding):
    positions = pm.grid(3, 5)
    before = encoding(positions)
    for copied in (copy.deepcopy(encoding), pickle.loads(pickle.dumps(encoding))):
        after = copied(positions)
        assert torch.equal(after.cos, before.cos) and torch.equal(after.sin, before.sin)
        for parameter in copied.parameters():
            parameter.data.zero_()
        assert torch.equal(encoding(positions).cos, before.cos)


@pytest.mark.parametrize("batch", [0, 2])
@pytest.mark.parametrize("heads", [0, 3])
@pytest.mark.parametrize("tokens", [0, 4])
def test_empty_inputs_give_empty_outputs_and_gradients(batch, heads, tokens):
    x = torch.zeros(batch, heads, tokens, 8, requires_grad=True)
    got = pm.rotate(x, pm.Rotary(8)(pm.sequence(tokens)))
    assert got.shape == x.shape and got.dtype == x.dtype
    got.sum().backward()
    assert x.grad.shape == x.shape


# ------------------------------------------------------------ axes that look alike


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("tokens", [4, 6])
def test_rotation_goes_along_tokens_and_not_along_heads(tokens, layout):
    """With as many heads as tokens no shape can tell: values must."""
    x = noise(1, 1, 1, 8).expand(2, 4, tokens, 8)
    got = pm.rotate(x, pm.Rotary(8, layout=layout)(pm.sequence(tokens).double()))
    assert torch.equal(got, got[:1, :1].expand_as(got))
    apart = torch.cdist(got[0, 0], got[0, 0])
    assert apart.fill_diagonal_(1).min() > 0.1


def test_batch_of_positions_is_not_taken_for_heads_nor_heads_for_a_batch():
    """3 samples, 3 heads, 3 tokens."""
    x = noise(3, 3, 3, 8)
    per_sample = (pm.sequence(3) + torch.tensor([0, 10, 20])[:, None, None]).double()
    got = pm.rotate(x, pm.Rotary(8)(per_sample))
    for b in range(3):
        alone = pm.rotate(x[b : b + 1], pm.Rotary(8)(per_sample[b]))
        assert torch.equal(got[b : b + 1], alone)
    torch.manual_seed(0)
    encoding = pm.MixedRotary(8, 3, 1).double()
    shared, own = encoding(pm.sequence(3).double()), encoding(per_sample)
    for b in range(3):
        for h in range(3):
            for rotation, p in ((shared, pm.sequence(3).double()), (own, per_sample[b])):
                angles = oracles.mixed_angles(p, encoding.frequencies[h : h + 1].detach())[0]
                expected = oracles.rotate(x[b : b + 1, h : h + 1], angles, "interleaved")
                turned = pm.rotate(x, rotation)[b : b + 1, h : h + 1]
                torch.testing.assert_close(turned, expected, rtol=0, atol=1e-12)


def test_one_rotation_serves_queries_and_fewer_key_heads():
    rotation = pm.Rotary(8)(pm.sequence(5).double())
    q, k = noise(2, 8, 5, 8), noise(2, 2, 5, 8, seed=1)
    assert torch.equal(pm.rotate(q, rotation)[:, :2], pm.rotate(q[:, :2], rotation))
    torch.testing.assert_close(
        pm.rotate(k, rotation), reference(k, pm.sequence(5), 8, "half"), rtol=0, atol=1e-12
    )
