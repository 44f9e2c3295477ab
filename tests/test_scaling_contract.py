"""What every scaling promises: values, no state, no change by a factor of one, clear refusals."""

import copy
import dataclasses
import math
import pickle

import pytest

from posenc_mm import scaling as sc

D, B, L0 = 128, 10_000.0, 4096
ONES = [1.0] * (D // 2)

UNSTRETCHED = [
    sc.Unscaled(),
    sc.Linear(1.0),
    sc.NTK(1.0),
    sc.NTK(1.0, "vllm", 0.625),
    sc.DynamicNTK(1.0, L0),
    sc.DynamicNTK(3.0, L0),
    sc.NTKByParts(1.0, L0),
    sc.YaRN(1.0, L0),
    sc.YaRN(1.0, L0, truncate=False, blend="log", mscale=0.7, mscale_all_dim=1.0),
    sc.DynamicYaRN(L0),
    sc.Llama3(1.0, L0),
    sc.Llama3(1.0, L0, 2.0, 2.0),
    sc.LongRoPE(ONES, [2.0] * 64, L0, 1.0),
    sc.PerPair(ONES),
    sc.Proportional(1.0),
    sc.RIFLEx(3),
]
STRETCHED = [
    sc.Linear(4.0),
    sc.NTK(4.0),
    sc.NTK(4.0, "vllm"),
    sc.DynamicNTK(2.0, L0, fixed_length=4 * L0),
    sc.NTKByParts(4.0, L0),
    sc.YaRN(4.0, L0),
    sc.Llama3(4.0, L0),
    sc.PerPair([4.0] * 64),
    sc.Resonance(sc.YaRN(4.0, L0)),
    sc.Proportional(0.25),
]
GROWING = [
    sc.DynamicNTK(2.0, L0),
    sc.DynamicYaRN(L0),
    sc.LongRoPE(ONES, [2.0] * 64, L0, 8.0),
    sc.RIFLEx(20),
    sc.Resonance(sc.DynamicNTK(2.0, L0)),
]
EVERY = [*UNSTRETCHED, *STRETCHED, *GROWING]


@pytest.mark.parametrize("scaling", UNSTRETCHED, ids=repr)
def test_a_factor_of_one_changes_no_bit(scaling):
    assert scaling.frequencies(D, B) == sc.Unscaled().frequencies(D, B)
    assert scaling.amplitude() == 1.0
    assert scaling.softmax_factor == 1.0


def test_one_pair_alone_is_never_a_division_by_zero():
    for scaling in EVERY[:11] + STRETCHED[3:7]:
        (f,) = scaling.frequencies(2, B, length=2 * L0)
        assert 0 < f <= 1


@pytest.mark.parametrize("scaling", EVERY, ids=repr)
def test_static_says_whether_speeds_and_amplitude_depend_on_the_length(scaling):
    lengths = (None, 1, L0, L0 + 1, 16 * L0)
    seen = {(scaling.frequencies(D, B, length=n), scaling.amplitude(n)) for n in lengths}
    if scaling.static:
        assert len(seen) == 1
    if scaling in GROWING:
        assert not scaling.static and len(seen) > 1


@pytest.mark.parametrize("scaling", EVERY, ids=repr)
def test_a_scaling_is_a_value(scaling):
    for twin in (copy.deepcopy(scaling), pickle.loads(pickle.dumps(scaling))):
        assert twin == scaling and hash(twin) == hash(scaling)
    with pytest.raises(dataclasses.FrozenInstanceError):
        scaling.anything = 1
    assert eval(repr(scaling), vars(sc)) == scaling


@pytest.mark.parametrize("scaling", EVERY, ids=repr)
def test_every_scaling_refuses_what_it_cannot_answer(scaling):
    for arguments in ((127, B), (0, B), (-2, B), (D, 0.0), (D, math.nan)):
        with pytest.raises(ValueError, match="rotary_dim|base"):
            scaling.frequencies(*arguments)
    for length in (0, -1, 2.5, True):
        with pytest.raises(ValueError, match="length"):
            scaling.frequencies(D, B, length=length)
        with pytest.raises(ValueError, match="length"):
            scaling.amplitude(length)


REFUSED = {
    "factor": [
        lambda: sc.Linear(0.0),
        lambda: sc.Linear(math.inf),
        lambda: sc.NTK(0.5),
        lambda: sc.DynamicNTK(0.5, L0),
        lambda: sc.NTKByParts(0.5, L0),
        lambda: sc.YaRN(0.25, L0),
        lambda: sc.YaRN("4", L0),
        lambda: sc.DynamicYaRN(L0, 0.5),
        lambda: sc.Llama3(0.5),
        lambda: sc.LongRoPE(ONES, ONES, L0, 0.9),
        lambda: sc.Proportional(0.5, -1.0),
    ],
    "original_length": [
        lambda: sc.DynamicNTK(2.0, 0),
        lambda: sc.NTKByParts(2.0, 4096.5),
        lambda: sc.YaRN(2.0, -1),
        lambda: sc.DynamicYaRN(0),
        lambda: sc.Llama3(2.0, 0),
        lambda: sc.LongRoPE(ONES, ONES, 1, 2.0),
    ],
    "fixed_length": [lambda: sc.DynamicNTK(2.0, L0, fixed_length=0)],
    "convention": [lambda: sc.NTK(2.0, "hf")],
    "power": [lambda: sc.NTK(2.0, power=0.625), lambda: sc.NTK(2.0, "vllm", 0.0)],
    "beta": [
        lambda: sc.YaRN(2.0, L0, beta_fast=1.0, beta_slow=32.0),
        lambda: sc.YaRN(2.0, L0, beta_slow=0.0),
        lambda: sc.NTKByParts(2.0, L0, beta=(0.75, 1.25)),
    ],
    "gamma": [lambda: sc.NTKByParts(2.0, L0, gamma=(2.0, 16.0))],
    "attention_factor": [
        lambda: sc.YaRN(2.0, L0, attention_factor=0.0),
        lambda: sc.PerPair(ONES, -1.0),
        lambda: sc.LongRoPE(ONES, ONES, L0, 2.0, attention_factor=math.nan),
    ],
    "mscale": [
        lambda: sc.YaRN(2.0, L0, mscale=-1.0),
        lambda: sc.YaRN(2.0, L0, mscale_rule="deepseek"),
        lambda: sc.LongRoPE(ONES, ONES, L0, 2.0, short_mscale=1.1),
    ],
    "truncate": [
        lambda: sc.YaRN(2.0, L0, truncate="false"),
        lambda: sc.DynamicYaRN(L0, truncate=None),
    ],
    "scale_softmax": [lambda: sc.YaRN(2.0, L0, scale_softmax=0)],
    "clamp": [lambda: sc.YaRN(2.0, L0, clamp="pair")],
    "blend": [lambda: sc.YaRN(2.0, L0, blend="grok")],
    "low_freq_factor": [lambda: sc.Llama3(2.0, L0, 4.0, 1.0), lambda: sc.Llama3(2.0, L0, 0.0)],
    "short": [
        lambda: sc.LongRoPE([], [], L0, 2.0),
        lambda: sc.LongRoPE(ONES, ONES[1:], L0, 2.0),
        lambda: sc.LongRoPE([1.0, 0.0], [1.0, 1.0], L0, 2.0),
    ],
    "factors": [lambda: sc.PerPair([]), lambda: sc.PerPair([1.0, -1.0])],
    "share": [lambda: sc.Proportional(1.5), lambda: sc.Proportional(-0.1)],
    "inner": [lambda: sc.Resonance(4.0)],
    "pair": [lambda: sc.RIFLEx(-1), lambda: sc.RIFLEx(64).frequencies(D, B, length=9)],
    "margin": [lambda: sc.RIFLEx(1, margin=0.0)],
    "repeats": [lambda: sc.intrinsic_pair(16, 256.0, repeats=0)],
    "rotary_dim": [
        lambda: sc.PerPair(ONES).frequencies(64),
        lambda: sc.LongRoPE(ONES, ONES, L0, 2.0).frequencies(126),
        lambda: sc.intrinsic_pair(15, 256.0, repeats=50),
    ],
    "base": [lambda: sc.YaRN(2.0, L0).frequencies(D, 1.0)],
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_arguments_are_refused_by_name(name):
    for make in REFUSED[name]:
        with pytest.raises(ValueError, match=name):
            make()
