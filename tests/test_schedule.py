"""Layers that differ, temperatures by position, positions drawn from a longer sequence."""

import copy
import pickle

import oracles_sequences as oracles
import pytest
import torch
from torch import Tensor

import posenc_mm as pm
from posenc_mm.positions import RandomisedSequence
from posenc_mm.schedule import every
from posenc_mm.temperature import LogTemperature, StepTemperature

DIM, HEADS, HEAD_DIM = 24, 4, 6


def host(depth: int = 3, **given) -> pm.Transformer:
    return pm.Transformer(DIM, depth, HEADS, causal=True, **given).double().eval()


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def close(a: Tensor, b: Tensor, atol: float = 1e-11) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


class Counted(pm.Rotary):
    """A rotary that counts its calls."""

    calls = 0

    def forward(self, positions: Tensor) -> pm.Rotation:
        self.calls += 1
        return super().forward(positions)


# ------------------------------------------------------------ layers


def test_every_so_many_th_layer_is_special_as_in_transformers():
    assert every(4, 9, 0, 1) == [1, 1, 1, 0, 1, 1, 1, 0, 1]
    assert every(1, 2, 0, 1) == [0, 0] and every(5, 3, 0, 1) == [1, 1, 1]
    transformers = pytest.importorskip("transformers")
    config = transformers.SmolLM3Config(num_hidden_layers=10, no_rope_layer_interval=4)
    assert every(4, 10, 0, 1) == config.no_rope_layers
    with pytest.raises(ValueError, match="interval"):
        every(0, 3, 0, 1)


def by_hand(model: pm.Transformer, x: Tensor, at: Tensor, slots: list[dict]) -> Tensor:
    """Layer by layer with attend's own arguments."""
    for block, slot in zip(model.blocks, slots, strict=True):
        parts = block.attention.qkv(block.norm1(x)).unflatten(-1, (3 * HEADS, HEAD_DIM))
        q, k, v = parts.transpose(1, 2).chunk(3, dim=1)
        q = q * slot.pop("factor", 1.0)
        seen = pm.attend(q, k, v, causal=True, q_positions=at, **slot)
        x = x + block.attention.out(seen.transpose(1, 2).flatten(2))
        x = x + block.mlp(block.norm2(x))
    return model.norm(x)


def test_each_layer_has_its_own_slots():
    """Local layers with their base and window, global ones with another, one without positions."""
    local, far = pm.Rotary(HEAD_DIM), pm.Rotary(HEAD_DIM, base=1e6)
    shaw, alibi = pm.ShawBias(HEADS, HEAD_DIM, 3), pm.ALiBi(HEADS)
    cooler, at = StepTemperature(length=2), pm.sequence(7)
    model = host(
        rotary=[local, far, None],
        bias=(shaw, alibi, None),
        temperature=[None, None, cooler],
        window=[3, None, None],
    )
    x, factor = noise(2, 7, DIM), cooler(at).double()
    slots = [
        {"rotation": local(at), "bias": shaw, "window": 3},
        {"rotation": far(at), "bias": alibi},
        {"factor": factor},
    ]
    close(model(x, at), by_hand(model, x, at, slots))
    plain = host(rotary=local)
    plain.blocks.load_state_dict(model.blocks.state_dict())
    assert not torch.allclose(model(x, at), plain(x, at), atol=1e-3)


def test_biases_of_both_kinds_may_alternate():
    erpe, shaw, at = pm.ERPE(HEADS, 9), pm.ShawBias(HEADS, HEAD_DIM, on="kv"), pm.sequence(5)
    torch.nn.init.normal_(erpe.relative.table)
    model, x = host(2, bias=[erpe, shaw]), noise(1, 5, DIM)
    close(model(x, at), by_hand(model, x, at, [{"bias": erpe}, {"bias": shaw}]))


def test_layers_that_share_an_encoding_evaluate_it_once():
    local, far = Counted(HEAD_DIM), Counted(HEAD_DIM, base=1e6)
    model = host(6, rotary=every(3, 6, far, local))
    model(noise(1, 4, DIM), pm.sequence(4))
    assert (local.calls, far.calls) == (1, 1)
    assert len(model.rotary) == 2
    learned = [pm.T5Bias(HEADS), pm.T5Bias(HEADS)]
    model = host(4, bias=every(2, 4, *learned))
    assert len([name for name in model.state_dict() if "bias." in name and "weight" in name]) >= 2
    ours = {id(p) for p in model.bias.parameters()}
    assert ours == {id(p) for bias in learned for p in bias.parameters()}


def test_one_for_all_layers_is_one_per_layer_of_the_same():
    rotary, x, at = pm.Rotary(HEAD_DIM), noise(2, 5, DIM), pm.sequence(5)
    one, many = host(rotary=rotary), host(rotary=[rotary] * 3)
    many.load_state_dict(one.state_dict())
    assert torch.equal(one(x, at), many(x, at))
    for twin in (copy.deepcopy(many), pickle.loads(pickle.dumps(many))):
        assert torch.equal(twin(x, at), many(x, at))
    empty = host(rotary=[None] * 3, window=[None] * 3)
    empty.load_state_dict(one.state_dict())
    assert torch.equal(empty(x, at), by_hand(empty, x, at, [{}, {}, {}]))


@pytest.mark.parametrize("raw", [True, False])
def test_layers_that_differ_decode_as_the_whole(raw: bool):
    model = host(
        rotary=every(3, 3, None, pm.Rotary(HEAD_DIM)),
        temperature=every(3, 3, StepTemperature(length=3), None),
        bias=[pm.ALiBi(HEADS), None, pm.TransformerXLBias(HEADS, HEAD_DIM)],
        window=[2, 4, None],
    )
    x, cache = noise(2, 9, DIM), pm.KVCache(raw=raw)
    cuts = [slice(0, 5), slice(5, 6), slice(6, 9)]
    pieces = [model(x[:, rows], pm.sequence(9)[rows], cache=cache) for rows in cuts]
    close(torch.cat(pieces, 1), model(x, pm.sequence(9)))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rotary": [pm.Rotary(HEAD_DIM)] * 2}, "rotary.*3, got 2"),
        ({"rotary": [pm.Rotary(HEAD_DIM), None, pm.ALiBi(HEADS)]}, "rotary must be"),
        ({"rotary": [pm.Rotary(HEAD_DIM), None, pm.Rotary(8)]}, "8 channels"),
        ({"bias": [pm.ALiBi(HEADS + 1), None, None]}, "5 heads"),
        ({"bias": [None, None, pm.Rotary(HEAD_DIM)]}, "bias must be"),
        ({"temperature": [LogTemperature(9)] * 4}, "temperature.*got 4"),
        ({"window": [1, 0, None]}, "window"),
        ({"window": 0}, "window"),
    ],
    ids=str,
)
def test_layers_that_do_not_fit_are_refused(given: dict, said: str):
    with pytest.raises(ValueError, match=said):
        host(**given)


# ------------------------------------------------------------ temperature


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.float64], ids=str)
def test_temperatures_are_the_published_ones(dtype: torch.dtype):
    places = [-3, 0, 2, 3, 4, 7, 8, 8190, 8191, 8192, 16_383, 10_000_000]
    at = torch.tensor(places).unsqueeze(-1).to(dtype)
    for given in ({}, {"length": 4, "beta": 0.3}, {"length": 4, "first": 0}):
        made = StepTemperature(**given)
        wanted = [oracles.step_temperature(p, made.length, made.beta, made.first) for p in places]
        assert made(at).dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        close(made(at).double().squeeze(-1), torch.tensor(wanted, dtype=torch.float64), 1e-6)
    wanted = [oracles.log_temperature(p, 4) for p in places]
    close(LogTemperature(4)(at).double().squeeze(-1), torch.tensor(wanted).double(), 3e-6)
    assert LogTemperature(4)(at)[4] > 1 == LogTemperature(4)(at)[3]


def test_temperatures_are_those_of_transformers():
    pytest.importorskip("transformers")
    from transformers.models.ministral3.modeling_ministral3 import get_llama_4_attn_scale

    at = torch.arange(0, 70_000, 501)
    theirs = get_llama_4_attn_scale(at[None], 0.1, 16_384)[0, 0]
    close(StepTemperature(16_384, first=0)(at[:, None]), theirs, 1e-6)


@pytest.mark.parametrize("made", [StepTemperature(length=2), LogTemperature(3)], ids=str)
def test_padded_and_packed_queries_get_the_temperature_of_their_own_place(made):
    """Positions count, not rows nor the length of a cache."""
    model, texts = host(temperature=made), [noise(n, DIM) for n in (4, 6)]
    alone = [model(text[None], pm.sequence(len(text)))[0] for text in texts]
    mask = torch.tensor([[False] * 2 + [True] * 4, [True] * 6])
    x = torch.stack((torch.cat((noise(2, DIM), texts[0])), texts[1]))
    out = model(x, pm.from_mask(mask), key_mask=mask)
    close(out[0, 2:], alone[0])
    close(out[1], alone[1])
    ends = torch.tensor([0, 4, 10])
    out = model(torch.cat(texts)[None], pm.packed(ends), segments=pm.segments(ends))
    close(out[0], torch.cat(alone))
    assert not torch.allclose(alone[1], host_like(model)(texts[1][None], pm.sequence(6))[0])


def host_like(model: pm.Transformer) -> pm.Transformer:
    other = host()
    other.load_state_dict(model.state_dict())
    return other


def test_temperatures_that_do_not_fit_are_refused():
    for wrong in ({"length": 0}, {"beta": -1.0}, {"first": -1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            StepTemperature(**wrong)
    with pytest.raises(ValueError, match="length"):
        LogTemperature(1)
    for made in (StepTemperature(), LogTemperature(9)):
        with pytest.raises(ValueError, match="1 axes"):
            made(pm.grid(2, 3))


# ------------------------------------------------------------ randomised positions


def test_draws_are_sorted_distinct_and_every_subset_as_likely():
    made = RandomisedSequence(5)
    drawn = made(2, training=True, samples=4000, generator=torch.Generator().manual_seed(0))
    assert drawn.shape == (4000, 2, 1) and drawn.dtype == torch.int64
    assert (drawn[:, 1] > drawn[:, 0]).all() and drawn.min() == 0 and drawn.max() == 4
    counts = (drawn[:, 0, 0] * 5 + drawn[:, 1, 0]).bincount(minlength=25)
    counts = counts[counts > 0]
    assert len(counts) == 10
    assert ((counts - 400).abs() < 5 * (400 * 0.9) ** 0.5).all()


def test_draws_are_of_training_alone_and_repeat_with_their_seed():
    made, seed = RandomisedSequence(100), torch.Generator().manual_seed
    assert torch.equal(made(7), pm.sequence(7))
    shared = made(7, training=True, generator=seed(1))
    assert shared.shape == (7, 1)
    assert torch.equal(shared, made(7, training=True, generator=seed(1)))
    assert not torch.equal(shared, made(7, training=True, generator=seed(2)))
    assert torch.equal(made(100, training=True), pm.sequence(100))
    assert made(0, training=True, samples=2).shape == (2, 0, 1)
    state = torch.get_rng_state()
    made(7, training=True, generator=seed(1))
    assert torch.equal(torch.get_rng_state(), state)
    for given, said in (
        ({"length": 101, "training": True}, "101"),
        ({"length": 5, "samples": 2}, "training"),
        ({"length": 5, "generator": seed(0)}, "training"),
        ({"length": -1, "training": True}, "length"),
    ):
        with pytest.raises(ValueError, match=said):
            made(**given)
    with pytest.raises(ValueError, match="longest"):
        RandomisedSequence(0)
