"""LieRE: dense rotations of blocks, which are relative on one axis or in pairs, and not beyond."""

import inspect

import every_encoding
import oracles_rotary
import pytest
import test_contract
import test_equivalence
import torch

import posenc_mm as pm

UNIT = torch.linspace(0, 1, 4, dtype=torch.float64)


def noise(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def near(a, b, atol=1e-10):
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


def liere(axes=2, dim=12, block=6, **kwargs):
    torch.manual_seed(0)
    return pm.LieRE(dim, axes, block=block, **kwargs).double()


def scores(encoding, q, k, p, r):
    return pm.rotate(q, encoding(p)) @ pm.rotate(k, encoding(r)).mT


def whole(rotation):
    """(..., N, D, D) from the blocks of a rotation."""
    blocks = rotation.matrices.movedim(-3, 0)
    size, width = rotation.matrices.shape[-1], 2 * rotation.cos.shape[-1]
    result = rotation.cos.new_zeros(*rotation.cos.shape[:-1], width, width)
    for k, block in enumerate(blocks):
        result[..., k * size : (k + 1) * size, k * size : (k + 1) * size] = block
    return result


# ------------------------------------------------------------ laws


@pytest.mark.parametrize("heads", [None, 3])
@pytest.mark.parametrize("block", [4, 6, 12])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_liere_is_the_exponential_of_its_generators(axes, block, heads):
    encoding, at = liere(axes, block=block, heads=heads), noise(3, axes)
    rotation = encoding(at)
    generators = encoding.generators.detach()
    for head in range(heads or 1):
        own = (generators[head] if heads else generators).tolist()
        wanted = oracles_rotary.matrices(lambda p, own=own: oracles_rotary.liere(p, own, block), at)
        got = whole(rotation)[head] if heads else whole(rotation)
        near(got, wanted)
        near(got @ got.mT, torch.eye(12, dtype=torch.float64).expand(3, -1, -1))


def test_rotated_channels_are_the_matrices_times_them():
    x, at = noise(2, 3, 5, 14), noise(5, 2)
    for heads in (None, 3):
        rotation = liere(heads=heads)(at)
        wanted = (whole(rotation) @ x[..., :12].unsqueeze(-1)).squeeze(-1)
        turned = pm.rotate(x, rotation)
        near(turned[..., :12], wanted, 1e-13)
        assert torch.equal(turned[..., 12:], x[..., 12:]) and turned.is_contiguous()
        near(pm.rotate(turned, rotation.inverse()), x)


def test_one_axis_is_relative():
    encoding, q, k = liere(1), noise(1, 2, 5, 12), noise(1, 2, 4, 12, seed=1)
    p, r = noise(5, 1, seed=2), noise(4, 1, seed=3)
    near(scores(encoding, q, k, p + 50, r + 50), scores(encoding, q, k, p, r))


def test_two_axes_of_large_blocks_are_not_relative_and_of_pairs_are():
    q, k = noise(1, 2, 5, 12), noise(1, 2, 4, 12, seed=1)
    p, r, shift = noise(5, 2, seed=2), noise(4, 2, seed=3), torch.tensor([[1.0, -0.5]]).double()
    for block, relative in ((2, True), (4, False), (12, False)):
        encoding = liere(block=block)
        moved = scores(encoding, q, k, p + shift, r + shift) - scores(encoding, q, k, p, r)
        assert bool(moved.abs().max() < 1e-10) is relative
        assert relative or moved.abs().max() > 0.3


def test_blocks_of_two_are_rope_mixed():
    x, at = noise(2, 3, 15, 12), pm.grid(3, 5).double()
    pairs, mixed = liere(block=2, heads=3), pm.MixedRotary(12, 3).double()
    with torch.no_grad():
        mixed.frequencies.copy_(pairs.generators.squeeze(-1))
    assert pairs(at).matrices is None
    assert torch.equal(pm.rotate(x, pairs(at)), pm.rotate(x, mixed(at)))
    wanted = oracles_rotary.matrices(
        lambda p: oracles_rotary.liere(p, pairs.generators[1].tolist(), 2), at
    )
    near(pm.rotate(x, pairs(at))[:, 1], torch.einsum("nij,bnj->bni", wanted, x[:, 1]))


def test_generators_are_the_authors_with_the_other_sign():
    """Theirs: the upper triangle of uniform numbers less a half, minus its transpose."""
    encoding, raw = liere(block=4, dim=4), noise(2, 1, 4, 4)
    upper = raw.triu(1) - 0.5
    rows, columns = torch.tril_indices(4, 4, -1)
    with torch.no_grad():
        encoding.generators.copy_(-raw.mT[..., rows, columns])
    at = torch.cartesian_prod(UNIT, UNIT[:3])
    wanted = torch.linalg.matrix_exp(torch.einsum("na,akij->nkij", at, upper - upper.mT))
    near(encoding(at).matrices, wanted)


def test_cosines_and_sines_tell_how_pairs_turn_within_themselves():
    rotation = liere(block=4, dim=4)(noise(5, 2))
    r = whole(rotation)
    for i in range(2):
        a, b = 2 * i, 2 * i + 1
        near(rotation.cos[:, i], (r[:, a, a] + r[:, b, b]) / 2)
        near(rotation.sin[:, i], (r[:, b, a] - r[:, a, b]) / 2)


# ------------------------------------------------------------ in use


@pytest.mark.parametrize("heads", [None, 3])
@pytest.mark.parametrize("batched", [False, True])
def test_prefix_and_keep(batched, heads):
    encoding, at = liere(heads=heads), noise(2, 6, 2) if batched else noise(6, 2)
    x, kept = noise(2, 3, 9, 12), torch.tensor([[8, 0, 4], [2, 5, 3]])
    rotation = encoding(at).prefix(3)
    turned = pm.rotate(x, rotation)
    assert torch.equal(turned[:, :, :3], x[:, :, :3])
    near(turned[:, :, 3:], pm.rotate(x[:, :, 3:], encoding(at)), 1e-13)
    rows = torch.stack([x[b, :, kept[b]] for b in range(2)])
    some = pm.rotate(rows, rotation.keep(kept))
    near(some, torch.stack([turned[b, :, kept[b]] for b in range(2)]), 1e-13)


def test_a_bfloat16_module_exponentiates_in_float32():
    encoding = liere(heads=3).bfloat16()
    lifted = liere(heads=3)
    lifted.load_state_dict(encoding.state_dict())
    at = noise(5, 2)
    exact, rotation = lifted(at), encoding(at.float())
    assert rotation.matrices.dtype == torch.float32
    near(rotation.matrices.double(), exact.matrices, 1e-5)
    x = noise(2, 3, 5, 12).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        turned, again = pm.rotate(x, rotation), encoding(at.float())
    assert torch.equal(again.matrices, rotation.matrices) and turned.dtype == torch.bfloat16
    assert torch.equal(turned, pm.rotate(x.float(), rotation).bfloat16())
    halves = rotation._replace(matrices=rotation.matrices.bfloat16())
    assert torch.equal(pm.rotate(x, halves), pm.rotate(x.float(), halves).bfloat16())


def test_gradients_are_right():
    encoding = liere(dim=4, block=4)
    x, at = noise(1, 2, 3, 4).requires_grad_(), noise(3, 2).requires_grad_()

    def turned(x, at, generators):
        rotation = torch.func.functional_call(encoding, {"generators": generators}, (at,))
        return pm.rotate(x, rotation)

    assert torch.autograd.gradcheck(turned, (x, at, encoding.generators.detach().requires_grad_()))


DENSE = every_encoding.Case(
    "liere 2-D", lambda: pm.LieRE(every_encoding.HEAD_DIM, 2, block=4, scale=0.1), 2, learned=True
)
# Not in the list of all: the one law of a rotation that this does not keep is to be relative.
NOT_KEPT = {"test_relative_encodings_do_not_move_with_the_sequence"}
# Of the whole list, not of one encoding.
OF_ALL = {"test_the_repr_names_every_argument_and_tells_encodings_apart"}


def contracts():
    """Each test of the contract and of equivalence, with each set of its own parameters."""
    for module in (test_contract, test_equivalence):
        for name, test in inspect.getmembers(module, inspect.isfunction):
            if not name.startswith("test_") or name in NOT_KEPT | OF_ALL:
                continue
            marks = [m for m in test.pytestmark if m.name == "parametrize" and m.args[0] != "case"]
            chosen = [{}]
            for mark in marks:
                chosen = [kept | {mark.args[0]: v} for kept in chosen for v in mark.args[1]]
            yield from (pytest.param(test, kept, id=f"{name}-{kept}") for kept in chosen)


@pytest.mark.parametrize(("test", "kept"), list(contracts()))
def test_two_axes_keep_to_the_contract_of_all_encodings(test, kept):
    if "sample" in inspect.signature(test).parameters:
        size = (2, test_equivalence.LENGTH, every_encoding.DIM)
        kept = kept | {"sample": torch.randn(*size, dtype=torch.float64)}
    test(case=DENSE, **kept)


def test_the_law_that_is_left_out_is_indeed_not_kept():
    size = (2, test_equivalence.LENGTH, every_encoding.DIM)
    test = test_equivalence.test_relative_encodings_do_not_move_with_the_sequence
    with pytest.raises(AssertionError):
        test(DENSE, torch.randn(*size, dtype=torch.float64))


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: pm.LieRE(8, block=3), "block"),
        (lambda: pm.LieRE(8, block=6), "block"),
        (lambda: pm.LieRE(7), "block"),
        (lambda: pm.LieRE(8, heads=0), "heads"),
        (lambda: pm.LieRE(8, scale=0.0), "scale"),
        (lambda: pm.LieRE(8)(torch.zeros(5, 3)), "axes"),
        (lambda: pm.LieRE(8, block=2)(torch.zeros(5, 1)), "axes"),
    ],
)
def test_impossible_generators_are_refused(make, word):
    with pytest.raises(ValueError, match=word):
        make()


@pytest.mark.parametrize("shape", [(5, 8, 8), (4, 1, 8, 8), (5, 1, 4, 4), (5, 2, 8, 8)], ids=str)
def test_matrices_that_do_not_fit_are_refused(shape):
    rotation = pm.Rotary(8)(pm.sequence(5))._replace(matrices=torch.ones(shape))
    with pytest.raises(ValueError, match="matrices"):
        pm.rotate(torch.zeros(2, 3, 5, 8), rotation)
