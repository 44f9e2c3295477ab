"""Shaw's, Transformer-XL's and DeBERTa's relative vectors, as published and as their peers run."""

import math

import oracles_sequences as oracles
import pytest
import torch

import posenc_mm as pm
from posenc_mm.bias.deberta import _bucket_of_distance

HEADS, WIDTH = 3, 4
QUERIES, KEYS = [7.0, 3.0, 30.0], [0.0, 7.0, 2.0, 41.0, -6.0]


def noise(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def shaken(module):
    with torch.no_grad():
        for seed, parameter in enumerate(module.parameters()):
            parameter.copy_(noise(*parameter.shape, seed=seed))
    return module.double()


def near(a, b, atol=1e-11):
    torch.testing.assert_close(a.detach(), b.detach(), rtol=0, atol=atol)


def at(places):
    return torch.tensor(places, dtype=torch.float64).unsqueeze(-1)


def asked(seed=0):
    q, k = (
        noise(2, HEADS, len(QUERIES), WIDTH, seed=seed),
        noise(2, HEADS, len(KEYS), WIDTH, seed=9),
    )
    return q, k


MAKE = {
    "shaw": lambda: shaken(pm.ShawBias(HEADS, WIDTH, 5, 2)),
    "shaw on values": lambda: shaken(pm.ShawBias(HEADS, WIDTH, 5, on="kv")),
    "transformer-xl": lambda: shaken(pm.TransformerXLBias(HEADS, WIDTH, width=6)),
    "deberta": lambda: shaken(pm.DeBERTaBias(HEADS, WIDTH, 6, 20)),
}
each = pytest.mark.parametrize("make", MAKE.values(), ids=list(MAKE))

# ------------------------------------------------------------ values


@pytest.mark.parametrize("step", [1.0, 0.3])
@pytest.mark.parametrize(("left", "right"), [(5, 5), (64, 8), (3, 0), (0, 0)])
def test_shaw_is_the_published_one_and_a_line_between_offsets(left, right, step):
    bias, (q, k) = shaken(pm.ShawBias(HEADS, WIDTH, left, right)), asked()
    queries, keys = ([step * p for p in places] for places in (QUERIES, KEYS))
    got = bias(at(queries), at(keys)).logits(q, k)
    for b in range(2):
        for h in range(HEADS):
            wanted = oracles.shaw(q[b, h], queries, keys, bias.tables["k"], left, right)
            near(got[b, h], wanted * WIDTH**-0.5)


@pytest.mark.parametrize("step", [1.0, 0.3])
@pytest.mark.parametrize("causal", [True, False])
def test_shaw_adds_to_values_as_published(causal, step):
    bias = shaken(pm.ShawBias(HEADS, WIDTH, 2, 1, on="kv"))
    places = [step * p for p in (0.0, 1.0, 2.0, 5.0, 6.0)]
    q, k, v = (noise(2, HEADS, 5, WIDTH, seed=seed) for seed in range(3))
    got = pm.attend(q, k, v, bias=bias, q_positions=at(places), causal=causal)
    tables = bias.tables["k"], bias.tables["v"]
    for b in range(2):
        for h in range(HEADS):
            heads = (x[b, h] for x in (q, k, v))
            near(got[b, h], oracles.shaw_attention(*heads, places, *tables, 2, 1, causal))


def test_shaw_on_values_with_grouped_keys_padding_and_blind_rows():
    """Against one head at a time with its keys repeated, and rows of samples alone."""
    bias = shaken(pm.ShawBias(4, WIDTH, 2, 1, on="kv"))
    q, k, v = noise(2, 4, 5, WIDTH), noise(2, 2, 5, WIDTH, seed=1), noise(2, 2, 5, WIDTH, seed=2)
    mask = torch.tensor([[False, False, True, True, True], [True] * 5])
    options = {"bias": bias, "q_positions": pm.sequence(5), "causal": True}
    got = pm.attend(q, k, v, key_mask=mask, **options)
    assert torch.equal(got[0, :, :2], torch.zeros(4, 2, WIDTH, dtype=torch.float64))
    wide = [x.repeat_interleave(2, 1) for x in (k, v)]
    near(got[1], pm.attend(q, *wide, **options)[1])
    near(
        got[0, :, 2:],
        pm.attend(
            q[:1, :, 2:], *(x[:1, :, 2:] for x in wide), **options | {"q_positions": pm.sequence(3)}
        )[0],
    )
    with pytest.raises(ValueError, match="as wide"):
        pm.attend(q, k, noise(2, 2, 5, WIDTH + 1), **options)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_transformer_xl_is_the_published_one(layout):
    bias = shaken(pm.TransformerXLBias(HEADS, WIDTH, width=6, base=50.0, layout=layout))
    q, k = asked()
    got = bias(at(QUERIES), at(KEYS)).logits(q, k)
    for b in range(2):
        for h in range(HEADS):
            parts = bias.u[h], bias.v[h], bias.weight[h]
            wanted = oracles.transformer_xl(q[b, h], k[b, h], QUERIES, KEYS, *parts, 50.0, layout)
            near(got[b, h], wanted * WIDTH**-0.5)


@pytest.mark.parametrize("terms", [("c2p", "p2c"), ("c2p",), ("p2c",)])
@pytest.mark.parametrize(("buckets", "most"), [(6, 20), (4, 9), (8, None)])
def test_deberta_is_the_published_one(buckets, most, terms):
    bias, (q, k) = shaken(pm.DeBERTaBias(HEADS, WIDTH, buckets, most, terms=terms)), asked()
    said = bias(at(QUERIES).long(), at(KEYS).long())
    got = said.logits(q, k)
    assert said.scale == (WIDTH * (1 + len(terms))) ** -0.5
    for b in range(2):
        for h in range(HEADS):
            tables = {term: bias.tables[term][h] for term in terms}
            wanted = oracles.deberta(q[b, h], k[b, h], QUERIES, KEYS, tables, buckets, most)
            near(got[b, h], wanted * said.scale)


@pytest.mark.parametrize(("buckets", "most"), [(4, 9), (8, 20), (32, 128), (256, 512)])
def test_boundaries_of_debertas_buckets(buckets, most):
    found = _bucket_of_distance(buckets // 2, most)
    assert len(found) == most + 1
    assert list(found) == [oracles.deberta_bucket(n, buckets, most) for n in range(most + 1)]
    assert (found[-2], found[-1]) == (buckets - 1, buckets)


def test_attention_scales_contents_as_deberta_does_unless_told_otherwise():
    bias, places = shaken(pm.DeBERTaBias(HEADS, WIDTH, 4, 9)), pm.sequence(5)
    q, k, v = (noise(2, HEADS, 5, WIDTH, seed=seed) for seed in range(3))
    for given, scale in ((None, (3 * WIDTH) ** -0.5), (0.7, 0.7)):
        logits = scale * q @ k.mT + bias(places, places).logits(q, k)
        got = pm.attend(q, k, v, bias=bias, q_positions=places, scale=given)
        near(got, logits.softmax(-1) @ v)


# ------------------------------------------------------------ laws


@each
def test_only_differences_of_positions_count_at_any_distance_from_zero(make):
    bias, (q, k) = make(), asked()
    queries, keys = at(QUERIES).long(), at(KEYS).long()
    wanted = bias(queries, keys)
    for shift in (17, 10_000_000):
        said = bias(queries + shift, keys + shift)
        near(said.logits(q, k), wanted.logits(q, k), 1e-6)


@each
def test_a_query_late_in_a_cache_gets_its_row_of_the_whole(make):
    """More keys than queries: lengths do not stand in for positions."""
    bias, places = make(), pm.sequence(20)
    q, k, v = (noise(1, HEADS, 20, WIDTH, seed=seed) for seed in range(3))
    whole, options = bias(places, places).logits(q, k), {"bias": bias, "k_positions": places}
    seen = pm.attend(q, k, v, causal=True, q_positions=places, **options)
    for rows in (slice(19, 20), slice(16, 20)):
        near(bias(places[rows], places).logits(q[:, :, rows], k), whole[:, :, rows])
        got = pm.attend(q[:, :, rows], k, v, causal=True, q_positions=places[rows], **options)
        near(got, seen[:, :, rows])
    start = pm.attend(q[:, :, :8], k, v, causal=True, q_start=0, q_positions=places[:8], **options)
    near(start, seen[:, :, :8])


@each
def test_gradients_are_those_of_finite_differences(make):
    bias, places = make(), pm.sequence(4)
    inputs = [noise(1, HEADS, 4, WIDTH, seed=seed).requires_grad_() for seed in range(3)]

    def run(q, k, v, *parameters):
        names = [name for name, _ in bias.named_parameters()]
        state = dict(zip(names, parameters, strict=True))
        said = torch.func.functional_call(bias, state, (places, places))
        return pm.attend(q, k, v, bias=said, causal=True)

    assert torch.autograd.gradcheck(run, (*inputs, *bias.parameters()))


@each
def test_half_precision_stays_near(make):
    bias, places = make(), pm.sequence(6) + 5000
    q, k, v = (noise(2, HEADS, 6, WIDTH, seed=seed) for seed in range(3))
    exact = pm.attend(q, k, v, bias=bias, q_positions=places)
    low = [x.bfloat16() for x in (q, k, v)]
    got = pm.attend(*low, bias=bias, q_positions=places)
    assert got.dtype == torch.bfloat16
    assert (got.double() - exact).abs().max() < 0.1 * exact.abs().max()


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: pm.ShawBias(0, 8), "heads"),
        (lambda: pm.ShawBias(2, 0), "head_dim"),
        (lambda: pm.ShawBias(2, 8, -1), "left"),
        (lambda: pm.ShawBias(2, 8, right=-1), "right"),
        (lambda: pm.ShawBias(2, 8, on="v"), "on"),
        (lambda: pm.ShawBias(2, 8, std=-1.0), "std"),
        (lambda: pm.TransformerXLBias(2, 8, width=5), "width"),
        (lambda: pm.TransformerXLBias(2, 8, base=0.0), "base"),
        (lambda: pm.TransformerXLBias(2, 8, layout="both"), "layout"),
        (lambda: pm.DeBERTaBias(2, 8, 5), "buckets"),
        (lambda: pm.DeBERTaBias(2, 8, 2), "buckets"),
        (lambda: pm.DeBERTaBias(2, 8, 8, 5), "max_distance"),
        (lambda: pm.DeBERTaBias(2, 8, terms=()), "terms"),
        (lambda: pm.DeBERTaBias(2, 8, terms=("c2p", "p2p")), "terms"),
        (lambda: pm.DeBERTaBias(2, 8, scale=-1.0), "scale"),
        (lambda: pm.Transformer(12, 1, 2, bias=pm.ShawBias(3, 6)), "3 heads"),
        (lambda: pm.Transformer(12, 1, 2, bias=pm.ShawBias(2, 4)), "4 channels"),
    ],
)
def test_what_does_not_fit_is_refused(make, name):
    with pytest.raises(ValueError, match=name):
        make()


@each
def test_calls_that_do_not_fit_are_refused(make):
    bias, place = make(), pm.sequence(3)
    with pytest.raises(ValueError, match="axes|axis"):
        bias(pm.grid(1, 3), pm.grid(1, 3))
    with pytest.raises(ValueError, match="4 channels"):
        wrong = noise(1, HEADS, 3, WIDTH + 2)
        pm.attend(wrong, wrong, wrong, bias=bias, q_positions=place)
    if not isinstance(bias, pm.TransformerXLBias):
        with pytest.raises(ValueError, match="numbers"):
            bias(torch.tensor([[math.nan]]), torch.zeros(1, 1))
