"""xPos: scores of differences, stable where centred ones overflow, right with caches."""

import math

import oracles_sequences as oracles
import pytest
import torch

import posenc_mm as pm

WIDTH = 8


def noise(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def near(a, b, atol=1e-11):
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


def at(places):
    return torch.tensor(places).unsqueeze(-1)


def scores(encoding, q, k, queries, keys):
    of_q, of_k = encoding.pair(queries, keys)
    return pm.rotate(q, of_q) @ pm.rotate(k, of_k).mT


@pytest.mark.parametrize(("scale_base", "gamma"), [(512.0, 0.4), (30.0, 1.5)])
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_scores_are_the_published_ones(layout, scale_base, gamma):
    given = {"base": 50.0, "layout": layout, "scale_base": scale_base, "gamma": gamma}
    queries, keys = [40, 7, 55], [0, 40, 3, 38, 12]
    q, k = noise(3, WIDTH), noise(5, WIDTH, seed=1)
    got = scores(pm.XPos(WIDTH, **given), q, k, at(queries).double(), at(keys).double())
    near(got, oracles.xpos_scores(q, k, queries, keys, **given))


def test_scores_are_those_of_rotary_embedding_torch():
    peer = pytest.importorskip("rotary_embedding_torch")
    theirs = peer.RotaryEmbedding(WIDTH, use_xpos=True).double()
    q, k = noise(2, 3, 50, WIDTH), noise(2, 3, 50, WIDTH, seed=1)
    turned = theirs.rotate_queries_and_keys(q, k)
    places = pm.sequence(50)
    got = scores(pm.XPos(WIDTH), q, k, places.double(), places.double())
    with torch.no_grad():
        near(got, turned[0] @ turned[1].mT, 1e-5)


def test_the_module_alone_is_of_queries_about_zero():
    encoding, places = pm.XPos(WIDTH), at([0, 3, 500])
    of_q, of_k = encoding.pair(at([0]), places)
    ours, alone = encoding(places), encoding.pair(places, places)[0]
    assert torch.equal(ours.cos, alone.cos) and torch.equal(ours.sin, alone.sin)
    near(ours.cos * of_k.cos + ours.sin * of_k.sin, torch.ones(3, WIDTH // 2), 1e-6)
    near(of_q.cos, torch.ones(1, WIDTH // 2))


@pytest.mark.parametrize("start", [1_000_000, 10_000_000, 1_700_000_000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_nothing_overflows_however_far_the_sequence_has_come(start, dtype):
    """Keys up to a million behind the queries; near ones must come out as at the start."""
    behind = [0, 5, 300, 2_000, 40_000, 1_000_000]
    q, k = noise(2, WIDTH, dtype=dtype), noise(6, WIDTH, seed=1, dtype=dtype)
    queries, keys = at([start, start + 2]), at([start - n for n in behind])
    got = scores(pm.XPos(WIDTH), q, k, queries, keys)
    assert got.isfinite().all()
    wanted = oracles.xpos_scores(q, k, [start, start + 2], [start - n for n in behind])
    near(got.double(), wanted, 8 * torch.finfo(dtype).eps * float(wanted.abs().max()))


def test_scores_do_not_move_with_the_sequence_nor_with_other_queries_of_the_call():
    encoding, keys = pm.XPos(WIDTH), pm.sequence(9)
    q, k = noise(9, WIDTH), noise(9, WIDTH, seed=1)
    whole = scores(encoding, q, k, keys.double(), keys.double())
    for shift in (1000, 2_000_000):
        moved = (keys + shift).double()
        near(scores(encoding, q, k, moved, moved), whole, 1e-9)
    for rows in (slice(8, 9), slice(3, 7)):
        near(scores(encoding, q[rows], k, keys[rows].double(), keys.double()), whole[rows])


def test_each_sample_has_its_own_origin():
    encoding, places = pm.XPos(WIDTH), torch.stack((pm.sequence(4), pm.sequence(4) + 500_000))
    x = noise(1, 1, 4, WIDTH).expand(2, 1, 4, WIDTH)
    got = scores(encoding, x, x, places.double(), places.double())
    near(got[0], got[1], 1e-9)


def host(**given):
    return pm.Transformer(2 * WIDTH, 2, 2, rotary=pm.XPos(WIDTH, **given), causal=True).eval()


@pytest.mark.parametrize("start", [0, 1_000_000])
def test_a_prompt_far_beyond_the_reach_goes_in_chunks(start):
    """With a scale_base of 1, 400 tokens are as far as 200,000 are at the usual one."""
    model, length = host(scale_base=1.0), 400
    reach = model.rotary.reach
    assert reach < 70
    x, places = noise(1, length, 2 * WIDTH), pm.sequence(length, offset=start)
    with pytest.raises(ValueError, match="chunks"):
        model.double()(x, places)
    cache, pieces = pm.KVCache(), []
    for rows in range(0, length, 50):
        part = slice(rows, rows + 50)
        pieces.append(model.float()(x[:, part].float(), places[part], cache=cache))
    wanted = whole_pass(model.double(), x, places)
    near(torch.cat(pieces, 1).double(), wanted, 2e-5)


def whole_pass(model, x, places):
    """In float64, where factors of e**500 are numbers: origin 0, no cache."""
    far = (places - places[0]).double()
    rotary = model.rotary
    fading = far * torch.tensor(rotary.fading, dtype=torch.float64)
    plain = pm.Rotary(WIDTH, layout="interleaved")(far)
    sides = [
        plain._replace(cos=plain.cos * s.exp(), sin=plain.sin * s.exp()) for s in (fading, -fading)
    ]
    for block in model.blocks:
        parts = block.attention.qkv(block.norm1(x)).unflatten(-1, (6, WIDTH)).transpose(1, 2)
        q, k, v = parts.chunk(3, dim=1)
        logits = pm.rotate(q, sides[0]) @ pm.rotate(k, sides[1]).mT / math.sqrt(WIDTH)
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        seen = logits.masked_fill(hidden, -math.inf).softmax(-1) @ v
        x = x + block.attention.out(seen.transpose(1, 2).flatten(2))
        x = x + block.mlp(block.norm2(x))
    return model.norm(x)


def test_a_cache_of_rotated_keys_is_refused_and_one_that_may_choose_chooses():
    model, x = host(), noise(1, 3, 2 * WIDTH, dtype=torch.float32)
    with pytest.raises(ValueError, match="raw"):
        model(x, pm.sequence(3), cache=pm.KVCache(raw=False))
    cache = pm.KVCache()
    model(x, pm.sequence(3), cache=cache)
    assert cache.raw is True


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"head_dim": 7}, "head_dim"),
        ({"head_dim": 0}, "head_dim"),
        ({"base": 0.0}, "base"),
        ({"scale_base": -1.0}, "scale_base"),
        ({"gamma": 0.0}, "gamma"),
        ({"layout": "axis_half"}, "layout"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(given, name):
    with pytest.raises(ValueError, match=name):
        pm.XPos(**({"head_dim": WIDTH} | given))


def test_positions_out_of_reach_are_refused():
    encoding = pm.XPos(WIDTH)
    assert 32_000 < encoding.reach < 33_000
    near_by = at([0, encoding.reach])
    assert encoding(near_by).cos.isfinite().all()
    encoding.pair(near_by, at([-(10**9), encoding.reach]))
    for call in (
        lambda: encoding(near_by + 1),
        lambda: encoding.pair(at([0, -encoding.reach - 1]), at([0])),
        lambda: encoding.pair(at([0]), near_by + 1),
        lambda: encoding.pair(at([math.nan]), at([0.0])),
    ):
        with pytest.raises(ValueError, match="positions"):
            call()


def test_attention_takes_queries_and_keys_of_one_pair_only():
    q = k = v = noise(1, 2, 5, 8)
    encoding, at = pm.XPos(8), pm.sequence(5)
    of_q, of_k = encoding.pair(at, at)
    with pytest.raises(ValueError, match="k_rotation must be given.*queries alone.*pair()"):
        pm.attend(q, k, v, rotation=encoding(at), causal=True)
    for wrong in ((of_q, of_q), (of_k, of_q), (of_q, pm.Rotary(8)(at)), (of_k, of_k)):
        with pytest.raises(ValueError, match="rotation must be for queries and k_rotation for key"):
            pm.attend(q, k, v, rotation=wrong[0], k_rotation=wrong[1], causal=True)
