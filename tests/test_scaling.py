"""Context extension: every method against its paper, and what each leaves as trained."""

import dataclasses
import math

import oracles_scaling as oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st

from posenc_mm import scaling as sc

DIMS = st.integers(2, 40).map(lambda pairs: 2 * pairs)
BASES = st.floats(50.0, 1e7)
FACTORS = st.floats(1.0, 64.0)
LENGTHS = st.integers(64, 100_000)
D, B = 128, 10_000.0


def equal(row, wanted):
    assert isinstance(row, tuple) and all(type(f) is float for f in row)
    assert row == pytest.approx(wanted, rel=1e-11, abs=0)


@given(d=DIMS, b=BASES, s=FACTORS)
def test_methods_without_a_ramp_equal_their_papers(d, b, s):
    equal(sc.Unscaled().frequencies(d, b), oracle.plain(d, b))
    equal(sc.Linear(s).frequencies(d, b), oracle.linear(d, b, s))
    equal(sc.NTK(s).frequencies(d, b), oracle.ntk(d, b, s))
    equal(sc.NTK(s, "vllm").frequencies(d, b), oracle.ntk_fixed(d, b, s))
    equal(sc.NTK(s, "vllm", 0.625).frequencies(d, b), oracle.ntk_mixed(d, b, s, 0.625))


@given(d=DIMS, b=BASES, s=FACTORS, trained=LENGTHS, length=LENGTHS)
def test_dynamic_ntk_equals_its_paper(d, b, s, trained, length):
    wanted = oracle.dynamic_ntk(d, b, s, trained, length)
    equal(sc.DynamicNTK(s, trained).frequencies(d, b, length=length), wanted)
    equal(sc.DynamicNTK(s, trained, fixed_length=length).frequencies(d, b, length=7), wanted)


@given(d=DIMS, b=st.floats(1000.0, 1e7), s=st.floats(1.5, 64.0), trained=st.integers(1000, 100_000))
def test_ramps_equal_their_papers(d, b, s, trained):
    for truncate in (True, False):
        ours = sc.YaRN(s, trained, truncate=truncate).frequencies(d, b)
        assert ours == pytest.approx(oracle.yarn(d, b, s, trained, truncate=truncate), rel=1e-8)
    log = sc.YaRN(s, trained, blend="log").frequencies(d, b)
    assert log == pytest.approx(oracle.yarn_log(d, b, s, trained), rel=1e-8)
    ours = sc.NTKByParts(s, trained).frequencies(d, b)
    assert ours == pytest.approx(oracle.by_parts(d, b, s, trained), rel=1e-8)


def test_the_clamp_of_kerashub_is_another_ramp():
    """A trained length beyond the slowest wave: the ramp ends past the last pair, or at it."""
    ours = sc.YaRN(8.0, 400_000, clamp="pairs").frequencies(D, B)
    assert ours == pytest.approx(oracle.yarn(D, B, 8.0, 400_000, last=63), rel=1e-9)
    assert ours[60] < 0.9 * sc.YaRN(8.0, 400_000).frequencies(D, B)[60]


def test_a_trained_length_beyond_all_waves_keeps_every_pair():
    assert sc.YaRN(4.0, 10**11).frequencies(16, 100.0) == sc.Unscaled().frequencies(16, 100.0)
    (first, *rest) = sc.YaRN(4.0, 3).frequencies(16, 100.0)
    assert first == 1.0 and rest == list(sc.Linear(4.0).frequencies(16, 100.0)[1:])


@given(
    d=DIMS,
    b=BASES,
    s=FACTORS,
    trained=LENGTHS,
    low=st.floats(0.5, 3.0),
    wider=st.floats(0.5, 30.0),
)
def test_llama3_equals_metas_three_cases(d, b, s, trained, low, wider):
    ours = sc.Llama3(s, trained, low, low + wider).frequencies(d, b)
    assert ours == pytest.approx(oracle.llama3(d, b, s, trained, low, low + wider), rel=1e-9)


def test_llama4_has_no_middle_band_and_divides_by_nothing():
    row = sc.Llama3(16.0, 8192, 1.0, 1.0).frequencies(D, 500_000.0)
    for f, trained in zip(row, oracle.plain(D, 500_000.0), strict=True):
        kept = 2 * math.pi / trained < 8192
        assert f == pytest.approx(trained if kept else trained / 16, rel=1e-12)


@given(d=DIMS, b=st.floats(50.0, 1e5), k=st.integers(1, 2), length=st.integers(1, 10**6))
def test_pairs_that_are_edited_alone(d, b, k, length):
    equal(sc.Resonance().frequencies(d, b), oracle.resonance(oracle.plain(d, b)))
    wanted = oracle.riflex(d, b, k, length)
    wanted[k - 1] = min(wanted[k - 1], oracle.plain(d, b)[k - 1])
    equal(sc.RIFLEx(k - 1).frequencies(d, b, length=length), wanted)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.3, 0.5, 1.0])
def test_proportional_runs_exponents_over_the_whole_head(share):
    equal(sc.Proportional(share).frequencies(24), oracle.proportional(24, B, share))
    equal(sc.Proportional(share, 8.0).frequencies(24), oracle.proportional(24, B, share, 8.0))


@given(d=st.integers(2, 64).map(lambda pairs: 2 * pairs), b=BASES, s=FACTORS)
def test_ntk_keeps_the_first_pair_and_divides_the_last_exactly(d, b, s):
    row, trained = sc.NTK(s).frequencies(d, b), sc.Unscaled().frequencies(d, b)
    assert row[0] == trained[0] == 1.0
    assert row[-1] == trained[-1] / s
    spread = sc.NTK(s, "vllm").frequencies(d, b)
    assert spread[-1] == trained[-1] / s
    assert spread[0] == pytest.approx(s ** (-2 / d), rel=1e-12)


@pytest.mark.parametrize("scaling", [sc.YaRN(4.0, 4096), sc.NTKByParts(4.0, 4096)], ids=repr)
def test_fast_pairs_stay_as_trained_and_slow_ones_are_interpolated(scaling):
    row, trained = scaling.frequencies(D, B), sc.Unscaled().frequencies(D, B)
    turns = [4096 * f / (2 * math.pi) for f in trained]
    fast = [i for i, each in enumerate(turns) if each > 33]
    slow = [i for i, each in enumerate(turns) if each < 0.6]
    assert fast and slow
    assert all(row[i] == trained[i] for i in fast)
    assert all(row[i] == trained[i] / 4 for i in slow)
    ratios = [t / f for f, t in zip(row, trained, strict=True)]
    assert all(1 <= ratio <= 4 + 1e-12 for ratio in ratios)


def test_an_explicit_factor_of_yarn_is_the_factor():
    yarn = sc.YaRN(4.0, 32768, beta_fast=32, beta_slow=1)
    row, trained = yarn.frequencies(128, 1e6), sc.Unscaled().frequencies(128, 1e6)
    assert row[:23] == trained[:23] == tuple(1e6 ** (-2 * i / 128) for i in range(23))
    assert row[41:] == tuple(f / 4 for f in trained[41:])
    ratios = [t / f for f, t in zip(row, trained, strict=True)]
    assert ratios == sorted(ratios) and all(1 < each < 4 for each in ratios[24:40])
    assert oracle.pair_of(32, 128, 1e6, 32768) == pytest.approx(23.596, abs=5e-4)
    assert oracle.pair_of(1, 128, 1e6, 32768) == pytest.approx(39.651, abs=5e-4)
    assert yarn.amplitude() == pytest.approx(1.1386294, abs=5e-8)
    assert sc.YaRN(4.0, 32768, attention_factor=1.0).amplitude() == 1.0


def test_truncation_moves_middle_pairs_of_gpt_oss_by_three_quarters():
    rounded, exact = (
        sc.YaRN(32.0, 4096, truncate=truncate).frequencies(64, 150_000.0)
        for truncate in (True, False)
    )
    worst = max(abs(a / b - 1) for a, b in zip(rounded, exact, strict=True))
    assert worst == pytest.approx(0.76, abs=0.01)


def test_a_given_amplitude_is_not_multiplied_by_a_computed_one():
    yarn = sc.YaRN(128.0, 4096, attention_factor=1.4852030)
    assert (yarn.amplitude(), yarn.softmax_factor) == (1.4852030, 1.0)
    assert yarn.amplitude() ** 2 == pytest.approx(2.2058280, abs=1e-6)
    assert sc.YaRN(128.0, 4096).amplitude() == pytest.approx(1.4852030, abs=5e-8)


def test_two_numbers_of_deepseek_and_the_two_rules_for_one():
    def g(m):
        return 0.1 * m * math.log(32.0) + 1

    both = {"mscale": 0.707, "mscale_all_dim": 1.0}
    for rule in ("hf", "vllm"):
        yarn = sc.YaRN(32.0, 4096, **both, mscale_rule=rule)
        assert yarn.amplitude() == pytest.approx(g(0.707) / g(1.0), rel=1e-12)
        assert yarn.softmax_factor == pytest.approx(g(1.0) ** 2, rel=1e-12)
        assert dataclasses.replace(yarn, scale_softmax=False).softmax_factor == 1.0
    one = {"mscale": 0.707, "mscale_all_dim": 0.0}
    assert sc.YaRN(32.0, 4096, **one).amplitude() == pytest.approx(1.347, abs=5e-4)
    vllm = sc.YaRN(32.0, 4096, **one, mscale_rule="vllm")
    assert vllm.amplitude() == pytest.approx(1.245, abs=5e-4)
    assert vllm.softmax_factor == 1.0


def test_a_short_call_after_a_long_one_is_what_it_was():
    dynamic = sc.DynamicNTK(2.0, original_length=32)
    before = dynamic.frequencies(64, length=32)
    long = dynamic.frequencies(64, length=100)
    assert dynamic.frequencies(64, length=32) == before == sc.Unscaled().frequencies(64)
    assert before[-1] == pytest.approx(1.333521e-4, abs=5e-11)
    assert (long[1], long[-1]) == pytest.approx((0.7108354, 2.540041e-5), rel=5e-7)
    assert long == pytest.approx(oracle.plain(64, 55384.756), rel=1e-7)
    assert sc.DynamicNTK(2.0, original_length=32).frequencies(64, length=100) == long


def test_longrope_switches_strictly_beyond_the_trained_length():
    long = sc.LongRoPE([1.0, 2.0], [3.0, 4.0], 4096, 32.0)
    trained = oracle.plain(4, B)
    for length, factors in ((None, (1, 2)), (4096, (1, 2)), (4097, (3, 4))):
        wanted = [f / factor for f, factor in zip(trained, factors, strict=True)]
        equal(long.frequencies(4, B, length=length), wanted)
    assert long.amplitude() == pytest.approx(math.sqrt(1 + math.log(32) / math.log(4096)))
    moe = dataclasses.replace(long, short_mscale=1.1, long_mscale=1.2, attention_factor=7.0)
    assert [moe.amplitude(length) for length in (None, 4096, 4097)] == [1.1, 1.1, 1.2]


def test_dynamic_yarn_is_yarn_of_the_length_at_hand():
    dynamic = sc.DynamicYaRN(2048, beta_fast=16.0, truncate=False)
    yarn = sc.YaRN(3.0, 2048, beta_fast=16.0, truncate=False)
    assert dynamic.frequencies(D, B, length=6144) == yarn.frequencies(D, B)
    assert dynamic.amplitude(6144) == yarn.amplitude() > dynamic.amplitude(2048) == 1.0
    tuned = sc.DynamicYaRN(2048, factor=4.0)
    assert tuned.frequencies(D, B, length=100) == sc.YaRN(4.0, 2048).frequencies(D, B)


def test_a_resonant_pair_meets_only_angles_it_was_trained_on():
    inner = sc.YaRN(4.0, 4096)
    for f in sc.Resonance(inner).frequencies(D, B):
        wave = round(2 * math.pi / f)
        assert abs(math.remainder(wave * f, 2 * math.pi)) < 1e-12
    assert sc.Resonance(inner).amplitude() == inner.amplitude()
    # A wave shorter than half a position becomes one position long, not none.
    (fast, _) = sc.Resonance(sc.Linear(0.05)).frequencies(4)
    assert fast == 2 * math.pi
    standing = sc.Resonance(sc.Proportional(0.5)).frequencies(8)
    assert standing[2:] == (0.0, 0.0) and standing[0] > 0


def test_riflex_lowers_its_pair_and_never_raises_it():
    trained = sc.Unscaled().frequencies(16, 256.0)
    k = sc.intrinsic_pair(16, 256.0, repeats=50)
    assert k == 3  # HunyuanVideo's 4, which counts from 1
    for length in (None, 10, 45):
        assert sc.RIFLEx(k).frequencies(16, 256.0, length=length) == trained
    slowed = sc.RIFLEx(k).frequencies(16, 256.0, length=100)
    assert slowed[k] * 100 == pytest.approx(0.9 * 2 * math.pi, rel=1e-12)
    assert slowed[:k] + slowed[k + 1 :] == trained[:k] + trained[k + 1 :]
    paper = sc.RIFLEx(k, margin=1.0).frequencies(16, 256.0, length=100)
    assert paper[k] * 100 == pytest.approx(2 * math.pi, rel=1e-12)
