"""eRPE acts beside the softmax: under every mask, in groups, in low precision, with a cache."""

import itertools

import oracles
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from test_attention import close, masked, noise, qkv
from timm_models import HEADS, tiny

import posenc_mm as pm
from posenc_mm.bias import ERPE, BiasSum
from posenc_mm.timm import attach

BACKENDS = ["auto", "dense"]


def trained(heads=4, size=9, seed=7):
    bias = ERPE(heads, size).double()
    with torch.no_grad():
        bias.relative.table.copy_(noise(2 * size - 1, heads, seed=seed))
    return bias


def beside(q, k, v, after, causal=False, q_start=None, key_mask=None, segments=None, window=None):
    """Sum of after * v over the keys that a query sees, in plain loops."""
    (batch, heads, queries, _), (groups, keys) = q.shape, k.shape[1:3]
    result = torch.zeros(batch, heads, queries, v.shape[-1], dtype=torch.float64)
    for b, h, i, j in itertools.product(*map(range, (batch, heads, queries, keys))):
        start = keys - queries if q_start is None else q_start
        start = start[b] if isinstance(start, list) else start
        rows = segments[b] if segments is not None and segments.ndim == 2 else segments
        rows = None if rows is None else rows.tolist()
        real = None if key_mask is None else key_mask[b].tolist()
        if oracles.visible(i, j, start, causal, window, rows, real):
            weight = (after[b] if after.ndim == 4 else after)[h, i, j]
            result[b, h, i] += weight * v[b, h // (heads // groups), j]
    return result


# ------------------------------------------------------------ what is added


@given(
    size=st.integers(1, 5),
    queries=st.lists(st.integers(-9, 9), min_size=1, max_size=5),
    keys=st.lists(st.integers(-9, 9), min_size=1, max_size=5),
)
def test_table_is_read_by_query_minus_key_and_its_ends_reach_on(size, queries, keys):
    bias = trained(3, size)
    got = bias(torch.tensor(queries)[:, None], torch.tensor(keys)[:, None])
    for (i, q), (j, k) in itertools.product(enumerate(queries), enumerate(keys)):
        row = min(max(q - k + size - 1, 0), 2 * size - 2)
        assert torch.equal(got[:, i, j], bias.relative.table.detach()[row])


def test_the_authors_index_reads_the_same_table():
    """Their flat row of the token pair (i, j) of L is i - j + L - 1, heads last."""
    theirs, length = noise(2 * 6 - 1, 3), 6
    bias = ERPE(3, length).double()
    bias.load_state_dict({"relative.table": theirs})
    index = torch.arange(length)[:, None] - torch.arange(length) + length - 1
    expected = theirs.gather(0, index.reshape(-1, 1).repeat(1, 3)).reshape(length, length, 3)
    assert torch.equal(bias(pm.sequence(6), pm.sequence(6)), expected.permute(2, 0, 1))
    assert list(bias.state_dict()) == ["relative.table"] and not list(bias.buffers())
    assert bias.extra_repr() == "heads=3, size=6"


def test_it_starts_as_plain_attention_and_starts_again():
    q, k, v = qkv(queries=5, keys=5)
    bias = ERPE(4, 3).double()
    assert torch.equal(
        pm.attend(q, k, v, bias=bias, q_positions=pm.sequence(5)), pm.attend(q, k, v)
    )
    bias = trained()
    bias.reset_parameters()
    assert not bias.relative.table.any()


def test_weights_are_those_of_the_softmax_plus_the_table():
    """No logits: only the softmax is uniform, and no row sums to one."""
    zero, identity = torch.zeros(1, 4, 5, 2).double(), torch.eye(5).double().expand(1, 4, -1, -1)
    bias, at = trained(), pm.sequence(5)
    weights = pm.attend(zero, zero, identity, bias=bias, q_positions=at)[0]
    close(weights, 0.2 + bias(at, at).detach())


def test_moving_the_series_changes_no_weight():
    q, k, v = qkv(queries=5, keys=5)
    bias, at = trained(), pm.sequence(5)
    first, later = (pm.attend(q, k, v, bias=bias, q_positions=at + s) for s in (0, 10**15))
    assert torch.equal(first, later)


# ------------------------------------------------------------ under masks


@pytest.mark.parametrize("backend", BACKENDS)
@given(case=masked(), per_sample=st.booleans())
def test_what_acts_beside_the_softmax_sees_what_it_sees(backend, case, per_sample):
    """Together with a bias on the logits, in every shape that a host evaluates."""
    (q, k, v), options = case
    lead = (q.shape[0],) if per_sample else ()
    after = noise(*lead, q.shape[1], q.shape[2], k.shape[2], seed=5)
    masks = {
        name: options[name]
        for name in ("causal", "q_start", "key_mask", "segments", "window")
        if name in options
    }
    expected = oracles.attention(q, k, v, **options) + beside(q, k, v, after, **masks)
    if isinstance(options["q_start"], list):
        options = options | {"q_start": torch.tensor(options["q_start"])}
    close(pm.attend(q, k, v, after=after, backend=backend, **options), expected)


@pytest.mark.parametrize("backend", [*BACKENDS, "sdpa"])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_the_softmax_stays_fused_beside_it(groups, causal, backend):
    q, k, v = qkv(groups=groups, queries=6, keys=6)
    bias, at = trained(), pm.sequence(6)
    expected = oracles.attention(q, k, v, causal=causal)
    expected = expected + beside(q, k, v, bias(at, at).detach(), causal)
    for given_as in ({"bias": bias}, {"after": bias}, {"after": bias(at, at)}):
        got = pm.attend(q, k, v, q_positions=at, causal=causal, backend=backend, **given_as)
        close(got, expected)


def test_a_decoded_token_reads_its_row():
    q, k, v = qkv(queries=1, keys=7)
    bias, last = trained(), pm.sequence(1, offset=6)
    got = pm.attend(q, k, v, bias=bias, q_positions=last, k_positions=pm.sequence(7), causal=True)
    after = bias(last, pm.sequence(7)).detach()
    close(got, oracles.attention(q, k, v) + beside(q, k, v, after))


@pytest.mark.parametrize("backend", BACKENDS)
def test_queries_that_see_nothing_give_zeros_and_clean_gradients(backend):
    q, k, v = (part.requires_grad_() for part in qkv(2, 2, 1, 4, 4, dim=3, width=5))
    after = noise(2, 4, 4).requires_grad_()
    mask = torch.tensor([[0, 0, 1, 1], [0, 0, 0, 0]]).bool()

    def attended(q, k, v, after):
        return pm.attend(q, k, v, after=after, causal=True, key_mask=mask, backend=backend)

    got = attended(q, k, v, after)
    assert (got[0, :, :2] == 0).all() and (got[1] == 0).all() and (got[0, :, 2:] != 0).all()
    assert torch.autograd.gradcheck(attended, (q, k, v, after))


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_behind_a_mask_cannot_leak_however_large(backend):
    q, k, v = qkv(queries=6, keys=6)
    bias, options = trained(), {"q_positions": pm.sequence(6), "backend": backend}
    mask = torch.tensor([[1, 1, 1, 1, 0, 0]]).bool().expand(2, -1)
    before = pm.attend(q, k, v, bias=bias, key_mask=mask, **options)
    causal = pm.attend(q, k, v, bias=bias, causal=True, **options)
    k[:, :, 4:], v[:, :, 4:] = 1e30, 1e30
    assert torch.equal(pm.attend(q, k, v, bias=bias, key_mask=mask, **options), before)
    again = pm.attend(q, k, v, bias=bias, causal=True, **options)
    assert torch.equal(again[:, :, :4], causal[:, :, :4])


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_queries_dtype_comes_back(dtype, autocast):
    q, k, v = (part.to(dtype) for part in qkv(2, 4, 2, 16, 16))
    bias, at = trained().float(), pm.sequence(16)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        got = pm.attend(q, k, v, bias=bias, q_positions=at, causal=True)
    assert got.dtype == dtype or autocast
    after = bias(at, at).detach().double()
    expected = oracles.attention(q, k, v, causal=True) + beside(q, k, v.double(), after, True)
    eps = torch.finfo(torch.bfloat16 if autocast else dtype).eps
    close(got, expected, max(16 * eps * expected.abs().max().item(), 1e-6))


# ------------------------------------------------------------ in a host


def host(**arguments):
    return pm.Transformer(24, 2, 4, bias=trained(4, 5), **arguments).double().eval()


@pytest.mark.parametrize("causal", [True, False])
def test_a_host_applies_it_after_the_softmax_of_every_layer(causal):
    model, x, at = host(causal=causal, kv_heads=2), noise(2, 7, 24), pm.sequence(7)
    y = x
    for block in model.blocks:
        qkv_of = block.attention.qkv(block.norm1(y)).unflatten(-1, (-1, 6)).transpose(1, 2)
        q, k, v = qkv_of.split((4, 2, 2), dim=1)
        seen = oracles.attention(q, k, v, causal=causal)
        seen = seen + beside(q, k, v, model.bias(at, at), causal)
        y = y + block.attention.out(seen.transpose(1, 2).flatten(2))
        y = y + block.mlp(block.norm2(y))
    close(model(x, at), model.norm(y))


@pytest.mark.parametrize("cuts", [[4, 1, 1, 1], [3, 3, 1], [1] * 7], ids=str)
def test_prefill_decode_and_chunks_equal_the_whole(cuts):
    model, x, at = host(causal=True, kv_heads=2), noise(2, 7, 24), pm.sequence(7)
    cache, start, pieces = pm.KVCache(), 0, []
    for size in cuts:
        rows = slice(start, start + size)
        pieces.append(model(x[:, rows], at[rows], cache=cache))
        start += size
    close(torch.cat(pieces, dim=1), model(x, at))


@pytest.mark.parametrize("causal", [True, False])
def test_padded_and_packed_rows_are_as_if_alone(causal):
    model, x, at = host(causal=causal), noise(2, 7, 24), pm.sequence(7)
    alone = model(x[:, :4], at[:4])
    mask = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0]]).bool()
    padded = torch.full_like(x, 1e3)
    padded[0, 3:], padded[1, :4] = x[0, :4], x[1, :4]
    got = model(padded, pm.from_mask(mask), key_mask=mask)
    close(got[mask].reshape(2, 4, 24), alone)
    cumulative = torch.tensor([0, 4, 7])
    packed = model(x, pm.packed(cumulative), segments=pm.segments(cumulative))
    close(packed[:, :4], alone)
    close(packed[:, 4:], model(x[:, 4:], at[:3]))


def test_left_padded_rows_decode_as_if_alone():
    model, x, at = host(causal=True), noise(2, 6, 24), pm.sequence(6)
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]).bool()
    padded = x[:, :5].clone()
    padded[0, 2:], padded[0, :2] = x[0, :3], 1e3
    cache = pm.KVCache()
    model(padded, pm.from_mask(mask), key_mask=mask, cache=cache)
    new = torch.stack((x[0, 3:4], x[1, 5:6]))
    got = model(new, torch.tensor([[[3]], [[5]]]), cache=cache)
    close(got[0, 0], model(x[:1, :4], at[:4])[0, 3])
    close(got[1, 0], model(x[1:], at)[0, 5])


# ------------------------------------------------------------ refusals


def attended(**arguments):
    q, k, v = qkv(queries=3, keys=3)
    return pm.attend(q, k, v, q_positions=pm.sequence(3), **arguments)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ERPE(0, 4), "heads"),
        (lambda: ERPE(2, 0), "size=0"),
        (lambda: ERPE(2, 4)(pm.grid(2, 2), pm.grid(2, 2)), "1 axes"),
        (lambda: ERPE(2, 4)(pm.sequence(3) / 2, pm.sequence(3)), "from whole ones .* rows"),
        (lambda: ERPE(2, 4)(pm.sequence(3) * torch.nan, pm.sequence(3)), "from whole ones"),
        (lambda: ERPE(2, 4)(pm.sequence(3) > 1, pm.sequence(3)), "positions .*bool"),
        (lambda: attended(after=pm.ALiBi(4)), "after must act after the softmax, got ALiBi"),
        (lambda: attended(bias=ERPE(4, 3), after=noise(3, 3)), "bias must act on .* got ERPE"),
        (lambda: attended(bias=ERPE(3, 3)), "after is for 3 heads, but q has 4"),
        (lambda: attended(after=3), "after must be an AttentionBias or a tensor, got int"),
        (lambda: attended(after=noise(2, 3)), "after must broadcast"),
        (lambda: attended(after=torch.ones(3, 3).bool()), "after must be floating"),
        (lambda: pm.attend(*qkv(), bias=ERPE(4, 3)), "after is a module: give q_positions"),
        (lambda: BiasSum([ERPE(4, 3)]), "ERPE acts after the softmax"),
        (lambda: attach(tiny("vit"), bias=ERPE(HEADS, 3)), "ERPE acts after the softmax"),
    ],
)
def test_what_cannot_act_there_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_whole_positions_may_be_floats():
    bias, at = trained(), pm.sequence(5)
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.int16):
        assert torch.equal(bias(at.to(dtype), at), bias(at, at))
