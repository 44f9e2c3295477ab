"""Biases on moments and on variates: durations in their own unit, exact at any date."""

import math
from fractions import Fraction

import oracles
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

import posenc_mm as pm
from posenc_mm.bias import ERPE, AnyVariateBias, BiasSum

TODAY = 1_700_000_000
HOUR, DAY, YEAR = 3600, 86_400, 365 * 86_400
# Irregular: seconds, a burst, a night, a week, a year.
STAMPS = [0, 1, 2, 90, HOUR, 40_000, DAY, DAY + 5, 8 * DAY, YEAR]
KEYS = [0, 30, HOUR - 1, 2 * HOUR, YEAR + 1]
BIASES = [
    lambda step: pm.ALiBi(3, step=step),
    lambda step: pm.LearnedALiBi(3, step=step),
    lambda step: pm.T5Bias(3, step=step),
    lambda step: pm.T5Bias(3, bidirectional=False, step=step),
]
every = pytest.mark.parametrize("make", BIASES, ids=["alibi", "learned", "t5", "t5 causal"])


def noise(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def column(values):
    return torch.tensor(values)[:, None]


# ------------------------------------------------------------ durations
@every
@pytest.mark.parametrize("per_second", [1, 10**9], ids=["s", "ns"])
def test_a_bias_is_the_same_bits_at_any_date(make, per_second):
    """Also where moments are 1.7e18, which no float tells from its neighbours."""
    bias = make(60.0 * per_second)
    queries, keys = column(STAMPS) * per_second, column(KEYS) * per_second
    later = TODAY * per_second + 1
    assert torch.equal(bias(queries + later, keys + later), bias(queries, keys))
    assert torch.equal(bias(queries - later, keys - later), bias(queries, keys))


@every
def test_fractional_moments_keep_what_float64_resolves(make):
    """Today's seconds in float64 are a quarter of a microsecond wide."""
    bias, halves = make(1.5), column([0.0, 0.25, 1.75, 7.5, 90.0]).double()
    assert torch.equal(bias(halves + TODAY, halves + TODAY), bias(halves, halves))


@every
def test_a_step_is_a_unit_of_time(make):
    torch.manual_seed(0)
    hourly = make(float(HOUR))
    for per_second in (10**3, 10**6, 10**9):
        torch.manual_seed(0)
        fine = make(float(HOUR) * per_second)
        queries, keys = column(STAMPS) * per_second, column(KEYS) * per_second
        wanted = hourly(column(STAMPS), column(KEYS))
        torch.testing.assert_close(fine(queries, keys), wanted, rtol=1e-6, atol=0)


@every
def test_without_a_step_it_is_one(make):
    plain, one = make(None), make(1.0)
    one.load_state_dict(plain.state_dict())
    assert plain.step == 1.0 and repr(plain) == repr(one) and "step=1.0" in repr(plain)
    assert torch.equal(plain(pm.sequence(5), pm.sequence(7)), one(pm.sequence(5), pm.sequence(7)))
    assert "step=3600.0" in repr(make(3600))


@pytest.mark.parametrize("learned", [False, True])
def test_alibi_of_irregular_stamps_is_minus_slope_times_duration(learned):
    bias = (pm.LearnedALiBi if learned else pm.ALiBi)(3, step=float(HOUR)).double()
    got = bias(column(STAMPS).double() + TODAY, column(KEYS).double() + TODAY)
    slopes = bias.log_slopes.exp().tolist() if learned else [2**-4, 2**-8, 2**-2]
    expected = [[[-m * abs(t - u) / HOUR for u in KEYS] for t in STAMPS] for m in slopes]
    torch.testing.assert_close(got, oracles.tensor(expected), rtol=1e-12, atol=0)


def test_alibi_of_several_axes_divides_their_common_distance():
    """A straight line of 5 is 2.5 steps of 2; along the axes it is 7."""
    queries, keys = torch.tensor([[0, 0]]), torch.tensor([[3, 4]])
    for distance, steps in (("l2", 2.5), ("l1", 3.5)):
        got = pm.ALiBi(1, distance=distance, step=2.0)(queries, keys)
        assert got.item() == pytest.approx(-steps / 256)


def test_under_a_causal_rule_the_past_fades_with_its_age():
    q, k, v = noise(2, 3, 10, 4), noise(2, 3, 10, 4, seed=1), noise(2, 3, 10, 5, seed=2)
    at = column(STAMPS).double() + TODAY
    got = pm.attend(q, k, v, bias=pm.ALiBi(3, step=float(HOUR)), q_positions=at, causal=True)
    for b, h, i in ((0, 0, 9), (1, 2, 4), (1, 1, 0)):
        m = [2**-4, 2**-8, 2**-2][h]
        logits = [
            q[b, h, i].dot(k[b, h, j]).item() / 2 - m * (STAMPS[i] - STAMPS[j]) / HOUR
            for j in range(i + 1)
        ]
        weights = [math.exp(logit - max(logits)) for logit in logits]
        wanted = sum(w / math.fsum(weights) * v[b, h, j] for j, w in enumerate(weights))
        torch.testing.assert_close(got[b, h, i], wanted, rtol=0, atol=1e-12)


def weights_of(bias, at):
    """Attention weights of equal tokens: (H, N, N)."""
    heads, count = bias.shape[0], len(at)
    zero = torch.zeros(1, heads, count, 2, dtype=torch.float64)
    identity = torch.eye(count, dtype=torch.float64).expand(1, heads, -1, -1)
    return pm.attend(zero, zero, identity, bias=bias)[0]


def test_learned_slopes_are_learned_exponential_decay():
    """Weights fall by exp(-dt / T) with T = step exp(-s) of the head."""
    bias, at = pm.LearnedALiBi(2, step=float(HOUR)).double(), column(STAMPS[:7]).double()
    with torch.no_grad():
        bias.log_slopes.copy_(torch.tensor([0.3, -1.2]))
        found = weights_of(bias(at, at), at)
    for h, s in enumerate([0.3, -1.2]):
        constant = HOUR * math.exp(-s)
        for i, j in ((0, 1), (0, 5), (4, 2)):
            apart = abs(STAMPS[i] - STAMPS[j])
            ratio = (found[h, i, j] / found[h, i, i]).item()
            assert ratio == pytest.approx(math.exp(-apart / constant), rel=1e-6)


def test_a_signed_ramp_cancels_where_a_distance_does_not():
    """m (t_j - t_i), not an absolute value, makes all queries prefer the same keys: late ones."""
    at = column(STAMPS[:7]).double()
    signed = (at.T - at)[None] / HOUR / 16
    ramp = weights_of(signed, at)[0]
    torch.testing.assert_close(ramp, ramp[:1].expand_as(ramp), rtol=0, atol=1e-12)
    assert (ramp.argmax(-1) == 6).all()
    ours = weights_of(pm.ALiBi(1, step=HOUR / 16)(at, at), at)[0]
    assert (ours.argmax(-1) == torch.arange(7)).all()


def test_an_hour_and_a_year_fade_differently_and_bursts_stay_apart():
    bias = pm.ALiBi(1, step=float(HOUR))
    far = bias(column([TODAY]), column([TODAY + HOUR, TODAY + YEAR]))[0, 0].tolist()
    assert far == pytest.approx([-1 / 256, -YEAR / HOUR / 256])
    near = bias(column([TODAY]) * 1000, column([TODAY]) * 1000 + column([0, 1, 2, 3]))
    assert len(set(near.flatten().tolist())) == 4


@pytest.mark.parametrize("both", [True, False])
def test_t5_buckets_are_of_durations(both):
    """Less than a step apart is bucket 0, whichever came first; 5.9 steps are 5."""
    bias = pm.T5Bias(2, buckets=12, max_distance=40, bidirectional=both, step=60.0).double()
    apart = [0, 59, -59, 60, -60, 119, -354, 60 * 39, -60 * 40, YEAR, -YEAR]
    table = bias.weight.detach()
    for at in (column([TODAY]), column([float(TODAY)]).double()):
        got = bias(at, at + column(apart))
        for j, duration in enumerate(apart):
            steps = math.trunc(Fraction(duration, 60))
            assert torch.equal(got[:, 0, j], table[oracles.t5_bucket(steps, 12, 40, both)])
    assert torch.equal(bias(at, at + 59), bias(at, at)) and torch.equal(
        bias(at, at - 59), bias(at, at)
    )


@given(
    ticks=st.lists(st.integers(-(2**58), 2**58) | st.integers(-3000, 3000), min_size=1),
    step=st.integers(1, 1000) | st.sampled_from([0.5, 2.25, 3.6e12]),
)
@example(ticks=[2**31, 2**31 + 1], step=2**30 + 0.5)
def test_whole_ticks_fall_into_exact_buckets(ticks, step):
    bias = pm.T5Bias(1, step=step).double()
    got = bias(column([0]), column(ticks))[0, 0]
    steps = [math.trunc(Fraction(tick) / Fraction(step)) for tick in ticks]
    wanted = [bias.weight[oracles.t5_bucket(n), 0].item() for n in steps]
    assert got.tolist() == wanted


@pytest.mark.parametrize("step", [0, -1.0, math.nan, math.inf, "1h", True])
@every
def test_a_distance_that_cannot_count_as_one_is_refused(make, step):
    with pytest.raises(ValueError, match="step must be a finite number above 0"):
        make(step)


# ------------------------------------------------------------ variates


def test_any_variate_bias_is_one_number_or_the_other():
    bias, queries, keys = AnyVariateBias(3), [4, 0, 4, 9], [0, 9, 4, 4, 7]
    got = bias(column(queries), column(keys))
    other, same = bias.weight.tolist()
    expected = [
        [[s if q == k else o for k in keys] for q in queries]
        for o, s in zip(other, same, strict=True)
    ]
    torch.testing.assert_close(got.double(), oracles.tensor(expected), rtol=0, atol=0)
    assert list(bias.state_dict()) == ["weight"] and bias.weight.shape == (2, 3)


@given(
    variates=st.lists(st.integers(0, 5), min_size=1, max_size=8), names=st.permutations(range(6))
)
def test_renumbering_the_variates_changes_nothing(variates, names):
    bias = AnyVariateBias(2)
    renamed = [names[variate] * 10**15 for variate in variates]
    assert torch.equal(
        bias(column(renamed), column(renamed)), bias(column(variates), column(variates))
    )


def test_permuting_the_tokens_permutes_their_bias():
    bias, order = AnyVariateBias(2), torch.tensor([3, 0, 4, 1, 2])
    at = torch.tensor([[0, 0, 1, 2, 1], [5, 6, 5, 6, 5]])[..., None]
    whole = bias(at, at)
    assert whole.shape == (2, 2, 5, 5) and torch.equal(whole, whole.mT)
    assert torch.equal(bias(at[:, order], at), whole[:, :, order])


def test_softmax_leaves_the_difference_of_the_two_numbers():
    bias, at = AnyVariateBias(2).double(), column([0, 1, 0, 2])
    before = weights_of(bias(at, at), at)
    with torch.no_grad():
        bias.weight += torch.tensor([7.0, -3.0])
    torch.testing.assert_close(weights_of(bias(at, at), at), before, rtol=0, atol=1e-12)
    bias(at, at).sum().backward()
    assert bias.weight.grad.tolist() == [[10.0] * 2, [6.0] * 2]


# ------------------------------------------------------------ sums


def test_a_sum_reads_each_part_at_its_own_axes():
    """Axes (variate, moment, row): the order within a part is the part's."""
    torch.manual_seed(0)
    time, same, window = pm.ALiBi(2, step=60.0), AnyVariateBias(2), pm.RelativeBias(2, (9, 9))
    total = BiasSum([time, same, window], axes=[[1], [0], [2, 0]])
    queries = torch.tensor([[0, TODAY, 4], [1, TODAY + 60, 2], [1, TODAY + 90, 8]])
    keys = queries[:2] + torch.tensor([0, 7, 0])
    got = total(queries, keys)
    expected = time(queries[:, 1:2], keys[:, 1:2]) + same(queries[:, :1], keys[:, :1])
    expected = expected + window(queries[:, [2, 0]], keys[:, [2, 0]])
    assert torch.equal(got, expected) and got.shape == (2, 3, 2)


def test_a_sum_without_axes_nests_and_its_parts_learn():
    inner = BiasSum([pm.T5Bias(2), pm.LearnedALiBi(2)])
    total = BiasSum([inner, pm.ALiBi(2)]).double()
    at = pm.sequence(5)
    expected = sum(part(at, at) for part in (*inner.biases, pm.ALiBi(2)))
    torch.testing.assert_close(total(at, at), expected)
    assert sorted(total.state_dict()) == [
        "biases.0.biases.0.weight",
        "biases.0.biases.1.log_slopes",
    ]
    weight = noise(2, 5, 5)
    (total(at, at) * weight).sum().backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in total.parameters())
    torch.nn.init.zeros_(inner.biases[1].log_slopes)
    total.reset_parameters()
    assert torch.equal(inner.biases[1].log_slopes, pm.LearnedALiBi(2).double().log_slopes)


def test_a_sum_shows_all_there_is_to_its_parts():
    inner = BiasSum([pm.ALiBi(2, distance="l2"), AnyVariateBias(2)], axes=[[0, 2], [1]])
    assert BiasSum([inner, pm.RelativeBias(2, (3, 4, 5))]).extra_repr() == (
        "biases=[BiasSum(biases=[ALiBi(heads=2, distance='l2', biased_heads=2, step=1.0), "
        "AnyVariateBias(heads=2)], axes=((0, 2), (1,))), "
        "RelativeBias(heads=2, sizes=(3, 4, 5), clip=False, std=0.02, prefix=False)], axes=None"
    )


def test_time_and_variates_of_one_model_decode_as_in_one_pass():
    bias = BiasSum([pm.LearnedALiBi(4, step=60.0), AnyVariateBias(4)], axes=[[0], [1]])
    model = pm.Transformer(24, 2, 4, bias=bias, causal=True).double().eval()
    at = torch.stack((torch.tensor(STAMPS) + TODAY, torch.arange(10) % 3), dim=-1)
    x, cache = noise(2, 10, 24), pm.KVCache()
    pieces = [model(x[:, n], at[n], cache=cache) for n in (slice(0, 6), slice(6, 7), slice(7, 10))]
    torch.testing.assert_close(torch.cat(pieces, 1), model(x, at), rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AnyVariateBias(0), "heads"),
        (lambda: AnyVariateBias(2)(pm.grid(2, 2), pm.grid(2, 2)), "1 axes"),
        (lambda: BiasSum([]), "at least one AttentionBias"),
        (lambda: BiasSum([pm.Sinusoidal(4)]), "AttentionBias"),
        (lambda: BiasSum(map(pm.ALiBi, (2, 3))), r"heads \[2, 3\]"),
        (lambda: BiasSum([pm.ALiBi(2), ERPE(2, 5)]), "ERPE acts after the softmax"),
        (lambda: BiasSum([pm.ALiBi(2)], axes=[[0], [1]]), "axes must be a list"),
        (lambda: BiasSum([pm.ALiBi(2)], axes=[[-1]]), "axes=-1"),
        (lambda: BiasSum([pm.ALiBi(2)], axes=[[2]])(pm.grid(2, 2), pm.grid(2, 2)), "3 axes"),
        (lambda: BiasSum([pm.ALiBi(2)], axes=[[1]])(pm.grid(2, 2), pm.sequence(2)), "2 axes"),
    ],
)
def test_what_cannot_be_compared_or_added_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
