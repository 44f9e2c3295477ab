"""STRING: commuting generators, so that scores see differences of positions, in any basis."""

import oracles_rotary
import pytest
import torch
from torch import nn

import posenc_mm as pm


def noise(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def near(a, b, atol=1e-10):
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


def drawn(encoding):
    """With parameters that make a difference."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in encoding.parameters():
            parameter.normal_()
    return encoding.double()


def cayley(axes=2, dim=12, **kwargs):
    return drawn(pm.CayleySTRING(dim, axes, **kwargs))


def circulant(axes=2, dim=12, **kwargs):
    return drawn(pm.CirculantSTRING(dim, axes, **kwargs))


KINDS = [
    cayley,
    lambda axes=2: cayley(axes, layout="interleaved", heads=3),
    circulant,
    lambda axes=2: circulant(axes, heads=3),
    lambda axes=2: circulant(axes, dim=13),
]
every = pytest.mark.parametrize("make", KINDS, ids=lambda make: str(KINDS.index(make)))


def scores(encoding, q, k, p, r):
    return pm.rotate(q, encoding(p)) @ pm.rotate(k, encoding(r)).mT


def sample(encoding, axes, seed=0):
    width = encoding.head_dim
    q, k = noise(2, 3, 5, width, seed=seed), noise(2, 3, 4, width, seed=seed + 1)
    return q, k, 9 * noise(5, axes, seed=seed + 2), 9 * noise(4, axes, seed=seed + 3)


# ------------------------------------------------------------ laws


@every
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_scores_depend_on_the_difference_of_each_axis_and_on_every_axis(make, axes):
    encoding = make(axes)
    q, k, p, r = sample(encoding, axes)
    right, shift = scores(encoding, q, k, p, r), 100 * noise(1, axes, seed=7)
    near(scores(encoding, q, k, p + shift, r + shift), right)
    for axis in range(axes):
        step = torch.zeros(1, axes, dtype=torch.float64)
        step[0, axis] = 1.0
        assert (scores(encoding, q, k, p + step, r) - right).abs().max() > 1e-2


@every
def test_lengths_are_kept_and_equal_positions_leave_scores_alone(make):
    encoding = make()
    q, k, p, _ = sample(encoding, 2)
    near(pm.rotate(q, encoding(p)).norm(dim=-1), q.norm(dim=-1))
    near(scores(encoding, q, k, p[:1].expand(5, -1), p[:1].expand(4, -1)), q @ k.mT)


@every
def test_an_inverse_undoes_and_is_undone(make):
    encoding = make()
    q, _, p, _ = sample(encoding, 2)
    rotation = encoding(p)
    near(pm.rotate(pm.rotate(q, rotation), rotation.inverse()), q)
    near(pm.rotate(pm.rotate(q, rotation.inverse()), rotation), q)
    assert torch.equal(pm.rotate(q, rotation.inverse().inverse()), pm.rotate(q, rotation))


def test_the_basis_acts_before_the_rotation():
    """After it, it would cancel between queries and keys, and there would be plain RoPE."""
    encoding = cayley(layout="interleaved")
    q, k, p, r = sample(encoding, 2)
    rotations = [encoding(p)._replace(basis=None), encoding(r)._replace(basis=None)]
    plain = pm.rotate(q, rotations[0]) @ pm.rotate(k, rotations[1]).mT
    basis = encoding(p).basis
    near((pm.rotate(q, rotations[0]) @ basis) @ (pm.rotate(k, rotations[1]) @ basis).mT, plain)
    assert (scores(encoding, q, k, p, r) - plain).abs().max() > 0.1


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_a_fresh_cayley_string_is_the_rotary_that_it_starts_from(layout):
    x, at = noise(2, 3, 15, 12), pm.grid(3, 5).double()
    fresh = pm.CayleySTRING(12, 2, base=100.0, layout=layout).double()
    near(
        pm.rotate(x, fresh(at)), pm.rotate(x, pm.Rotary(12, 2, base=100.0, layout=layout)(at)), 1e-6
    )


# ------------------------------------------------------------ the published definitions


def assert_scores_of(encoding, exponentials_of, axes):
    q, k, p, r = sample(encoding, axes)
    left, right = (oracles_rotary.matrices(exponentials_of, at / 9) for at in (p, r))
    moved = torch.einsum("nij,bhnj->bhni", left, q), torch.einsum("nij,bhnj->bhni", right, k)
    near(scores(encoding, q, k, p / 9, r / 9), moved[0] @ moved[1].mT)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_cayley_string_is_the_exponential_of_its_generators(axes, layout):
    encoding = cayley(axes, layout=layout)
    speeds, entries = encoding.frequencies.tolist(), encoding.skew.tolist()
    assert_scores_of(
        encoding, lambda p: oracles_rotary.cayley_string(p, speeds, entries, layout), axes
    )
    near(
        encoding(noise(1, axes)).basis,
        torch.tensor(oracles_rotary.cayley_basis(entries, 12), dtype=torch.float64),
    )


@pytest.mark.parametrize("dim", [3, 4, 12, 13])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_circulant_string_is_the_exponential_of_its_generators(axes, dim):
    encoding = circulant(axes, dim)
    speeds = encoding.frequencies.tolist()
    assert_scores_of(encoding, lambda p: oracles_rotary.circulant_string(p, speeds, dim), axes)


@pytest.mark.parametrize("make", [cayley, circulant])
def test_heads_are_those_of_one_head_each(make):
    encoding, at = make(heads=3), 9 * noise(2, 5, 2)
    x = noise(2, 3, 5, 12)
    for head in range(3):
        one = make()
        state = {name: value[head] for name, value in encoding.state_dict().items()}
        one.load_state_dict(state)
        alone = pm.rotate(x[:, head : head + 1], one(at))
        near(pm.rotate(x, encoding(at))[:, head : head + 1], alone, 1e-13)


# ------------------------------------------------------------ in use


@every
def test_prefix_tokens_score_with_patches_as_at_the_origin(make):
    """Mixed by the basis as all tokens are, they meet keys at every place as position 0 does."""
    encoding = make()
    q, k, p, _ = sample(encoding, 2)
    origin = torch.cat((torch.zeros(2, 2, dtype=torch.float64), p))
    x = torch.cat((k[:, :, :2], q), dim=2)
    near(pm.rotate(x, encoding(p).prefix(2)), pm.rotate(x, encoding(origin)), 1e-13)


@every
def test_kept_tokens_turn_as_they_did_among_all(make):
    encoding = make()
    x, kept = noise(2, 3, 6, encoding.head_dim), torch.tensor([[5, 0, 3], [2, 1, 4]])
    for at in (noise(6, 2), noise(2, 6, 2)):
        whole = pm.rotate(x, encoding(at))
        rows = torch.stack([x[b, :, kept[b]] for b in range(2)])
        some = pm.rotate(rows, encoding(at).keep(kept))
        near(some, torch.stack([whole[b, :, kept[b]] for b in range(2)]), 1e-13)


@every
def test_the_basis_is_applied_in_float32_whatever_the_dtype_of_queries(make):
    encoding = make().bfloat16()
    x, at = noise(2, 3, 5, encoding.head_dim).bfloat16(), 9 * noise(5, 2).float()
    rotation = encoding(at)
    assert rotation.basis.dtype == rotation.cos.dtype == torch.float32
    single = pm.rotate(x.float(), rotation)
    assert torch.equal(pm.rotate(x, rotation), single.bfloat16())
    cast = rotation._replace(basis=rotation.basis.bfloat16().float())
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(pm.rotate(x, rotation), single.bfloat16())
        assert torch.equal(pm.rotate(x.float(), rotation), single)
    assert not torch.equal(pm.rotate(x.float(), cast), single)


@every
def test_gradients_are_right(make):
    encoding = make()
    x, at = noise(1, 3, 2, encoding.head_dim).requires_grad_(), noise(2, 2).requires_grad_()
    names, values = zip(*encoding.named_parameters(), strict=True)

    def turned(x, at, *values):
        rotation = torch.func.functional_call(
            encoding, dict(zip(names, values, strict=True)), (at,)
        )
        return pm.rotate(x, rotation)

    inputs = (x, at, *(value.detach().requires_grad_() for value in values))
    assert torch.autograd.gradcheck(turned, inputs, fast_mode=True)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: pm.CayleySTRING(10, 2), "head_dim"),
        (lambda: pm.CayleySTRING(8, heads=0), "heads"),
        (lambda: pm.CayleySTRING(8, std=-1.0), "std"),
        (lambda: pm.CayleySTRING(8, base=0.0), "base"),
        (lambda: pm.CirculantSTRING(2), "head_dim"),
        (lambda: pm.CirculantSTRING(8, 0), "axes"),
        (lambda: pm.CayleySTRING(8)(torch.zeros(5, 3)), "axes"),
        (lambda: pm.CirculantSTRING(8)(torch.zeros(5, 1)), "axes"),
    ],
)
def test_impossible_strings_are_refused(make, word):
    with pytest.raises(ValueError, match=word):
        make()


@pytest.mark.parametrize("shape", [(8,), (6, 8), (4, 4), (3, 8, 8)], ids=str)
def test_a_basis_that_does_not_fit_is_refused(shape):
    rotation = pm.Rotary(8)(pm.sequence(5))._replace(basis=torch.ones(shape))
    with pytest.raises(ValueError, match="basis"):
        pm.rotate(torch.zeros(2, 3, 5, 8), rotation)


def test_a_basis_wider_than_the_queries_is_refused():
    rotation = pm.CirculantSTRING(10, 1)(pm.sequence(5))
    with pytest.raises(ValueError, match="D=10"):
        pm.rotate(torch.zeros(2, 3, 5, 8), rotation)


class Called(torch.overrides.TorchFunctionMode):
    """Which functions of torch are called."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.names.add(getattr(function, "__name__", ""))
        return function(*args, **(kwargs or {}))


def test_a_basis_costs_nothing_where_there_is_none():
    called, rotations = [], [encoding(pm.sequence(5)) for encoding in (pm.Rotary(8), cayley(1, 8))]
    for rotation in rotations:
        with Called() as seen:
            pm.rotate(torch.ones(1, 1, 5, 8), rotation)
        called.append(seen.names)
    assert called[1] - called[0] >= {"matmul"} and "cat" in called[0]


def test_a_model_with_a_string_learns_its_basis():
    model = pm.Transformer(24, 1, 2, rotary=pm.CayleySTRING(12, 2))
    out = model(torch.randn(2, 15, 24), pm.grid(3, 5))
    nn.functional.mse_loss(out, torch.randn_like(out)).backward()
    assert model.rotary.skew.grad.abs().max() > 0 and model.rotary.frequencies.grad.abs().max() > 0
