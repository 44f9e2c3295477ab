"""Frequency allocations: which axis each pair of channels looks along."""

import copy
from functools import partial

import oracles_allocations as oracles
import pytest
import torch

import posenc_mm as pm
from posenc_mm.frequencies import (
    alternating,
    interleaved,
    per_head,
    sections,
    shared,
    whole_heads,
    zeroed,
)
from posenc_mm.frequencies import turning as reduction
from posenc_mm.scaling import NTK, Linear, PerAxis, RIFLEx, Unscaled, YaRN

F, BASE = 12, 500.0
ROW = pm.geometric(F, BASE)
MM = (0, 0, 1, 2, 1, 2, 1, 2)

# Those that deal one ladder, each with what the papers' words make of it.
DEALT = {
    "sections": (partial(sections, counts=(3, 5, 4)), oracles.qwen2(F, (3, 5, 4))),
    "interleaved": (partial(interleaved, counts=(6, 3, 3)), oracles.qwen3(F, (6, 3, 3))),
    "alternating": (partial(alternating, counts=(4, 4, 4)), oracles.videorope(F, (4, 4, 4))),
    "alternating odd": (partial(alternating, counts=(3, 5, 4)), oracles.videorope(F, (3, 5, 4))),
    "shared": (partial(shared, owners=MM), oracles.lumos(F)),
}
MATRICES = {name: make(ROW) for name, (make, _) in DEALT.items()}
EVERY = {
    **MATRICES,
    "axial": pm.axial(pm.geometric(2), pm.geometric(6), pm.geometric(4)),
    "zeroed": zeroed(MATRICES["alternating"], range(8, 12)),
    "whole heads": whole_heads(ROW, (1, 1, 2), heads=5),
    "across heads": per_head(sections(pm.geometric(5 * F), (20, 10, 30)), 5),
}


def points(count=7, seed=0):
    return torch.randint(-40, 40, (count, 3), generator=torch.Generator().manual_seed(seed))


def close(ours, wanted, atol=1e-12):
    torch.testing.assert_close(ours, wanted, rtol=0, atol=atol, check_dtype=False)


def letters(matrix):
    """Which axis each pair looks along, of one that looks along one."""
    columns = [[axis for axis, f in enumerate(c) if f] for c in zip(*matrix, strict=True)]
    return "".join("-" if not c else "thw"[c[0]] if len(c) == 1 else "?" for c in columns)


# ------------------------------------------------------------ one ladder, dealt


@pytest.mark.parametrize("name", DEALT)
def test_pairs_turn_as_the_papers_say(name):
    make, owners = DEALT[name]
    rotary = pm.Rotary(2 * F, 3, base=BASE, allocation=make)
    wanted = oracles.angles(points().tolist(), owners, oracles.speeds(F, BASE))
    rotation = rotary(points().double())
    close(rotation.cos, wanted.cos())
    close(rotation.sin, wanted.sin())
    assert not rotation.per_head
    assert rotary.frequencies == MATRICES[name]


def test_patterns_by_their_letters():
    eight = pm.geometric(8)
    assert letters(sections(eight, (4, 2, 2))) == "tttthhww"
    assert letters(interleaved(eight, (4, 2, 2))) == "thwthwtt"
    assert letters(alternating(eight, (2, 3, 3))) == "hwhwhwtt"
    assert letters(alternating(eight, (3, 3, 2), slow=2)) == "thththww"
    assert letters(shared(eight, MM)) == "tthwhwhw"
    assert letters(zeroed(alternating(eight, (2, 3, 3)), [6, 7])) == "hwhwhw--"
    assert letters(pm.axial(eight[:2], eight[:4], eight[:2])) == "tthhhhww"
    published = letters(interleaved(pm.geometric(64), (24, 20, 20)))
    assert published == "thw" * 20 + "tttt"
    assert letters(interleaved(pm.geometric(32), (11, 11, 10))) == "thw" * 10 + "th"


@pytest.mark.parametrize("name", DEALT)
def test_words_at_equal_coordinates_turn_as_in_one_dimension_bit_by_bit(name):
    """The reason to deal one ladder; a ladder for each axis does not do it."""
    words = torch.arange(0, 4000, 37)[:, None]
    flat = pm.Rotary(2 * F, base=BASE)(words)
    dealt = pm.Rotary(2 * F, 3, frequencies=MATRICES[name])(words.expand(-1, 3))
    assert torch.equal(dealt.cos, flat.cos) and torch.equal(dealt.sin, flat.sin)
    own = pm.Rotary(2 * F, 3, base=BASE)(words.expand(-1, 3))
    assert not torch.allclose(own.cos, flat.cos, atol=0.5)


@pytest.mark.parametrize("name", DEALT)
def test_the_ladder_goes_on_from_axis_to_axis(name):
    columns = list(zip(*MATRICES[name], strict=True))
    assert tuple(sum(column) for column in columns) == ROW
    assert all(sum(f != 0 for f in column) == 1 for column in columns)


def test_one_ladder_for_each_axis_begins_anew():
    matrix = pm.Rotary(2 * F, 3, base=BASE, rotary_dim=(4, 12, 8)).frequencies
    for axis, (start, width) in enumerate([(0, 4), (4, 12), (16, 8)]):
        own = matrix[axis][start // 2 : (start + width) // 2]
        close(torch.tensor(own), torch.tensor(oracles.speeds(width // 2, BASE)), atol=1e-15)
        assert own[0] == 1.0 and sum(map(bool, matrix[axis])) == width // 2


# ------------------------------------------------------------ laws of all


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("name", EVERY)
def test_every_builder_keeps_lengths_and_sees_differences_only(name, layout):
    rotary = pm.Rotary(2 * F + 2, 3, frequencies=EVERY[name], layout=layout)
    q, k = torch.randn(2, 2, 5, 7, 2 * F + 2, dtype=torch.float64)
    p, r = points().double(), points(seed=1).double()
    turned = pm.rotate(q, rotary(p))
    close(turned.norm(dim=-1), q.norm(dim=-1))
    assert not torch.allclose(turned, q, atol=0.1)
    scores = turned @ pm.rotate(k, rotary(r)).mT
    for shift in ((13.0, 0.0, 0.0), (0.0, -7.0, 0.0), (5.0, 2.0, 31.0)):
        move = torch.tensor(shift, dtype=torch.float64)
        close(pm.rotate(q, rotary(p + move)) @ pm.rotate(k, rotary(r + move)).mT, scores, 1e-11)
    for axis in range(3):
        apart = p.clone()
        apart[:, axis] += 3.3
        blind = name == "zeroed" and axis == 0
        assert torch.equal(rotary(apart).cos, rotary(p).cos) == blind


def test_pairs_taken_out_do_not_turn_and_the_others_are_as_they_were():
    rotation, before = (
        pm.Rotary(2 * F, 3, frequencies=EVERY[name])(points()) for name in ("zeroed", "alternating")
    )
    assert torch.equal(rotation.cos[:, 8:], torch.ones(7, 4)) and not rotation.sin[:, 8:].any()
    assert torch.equal(rotation.cos[:, :8], before.cos[:, :8])
    assert torch.equal(rotation.sin[:, :8], before.sin[:, :8])


def test_whole_heads_are_one_dimensional_each_and_the_rest_stands_still():
    rotary = pm.Rotary(2 * F, 3, frequencies=whole_heads(ROW, (1, 1, 2), heads=5, groups=2))
    rotation = rotary(points().expand(2, 7, 3))
    assert rotation.per_head and rotation.cos.shape == (2, 10, 7, F)
    flat = pm.Rotary(2 * F, base=BASE)
    for head, axis in enumerate([0, 0, 1, 1, 2, 2, 2, 2]):
        assert torch.equal(rotation.cos[0, head], flat(points()[:, axis, None]).cos)
    assert torch.equal(rotation.cos[1, 8:], torch.ones(2, 7, F))


def test_queries_of_a_key_head_look_along_its_axis():
    of_keys = pm.Rotary(2 * F, 3, frequencies=whole_heads(ROW, (1, 1, 1)))
    of_queries = pm.Rotary(2 * F, 3, frequencies=whole_heads(ROW, (1, 1, 1), groups=2))
    q, k = torch.randn(2, 6, 7, 2 * F), torch.randn(2, 3, 7, 2 * F)
    turned = pm.attend(pm.rotate(q, of_queries(points())), pm.rotate(k, of_keys(points())), k)
    each = [axis for axis in range(3) for _ in range(2)]
    wide = pm.attend(q, k[:, each], k[:, each], rotation=of_queries(points()))
    close(turned, wide, atol=1e-5)
    close(pm.attend(q, k, k, rotation=of_keys(points())), wide, atol=1e-5)


def test_numbers_of_heads_are_what_a_tensor_of_them_is(monkeypatch):
    numbers = EVERY["across heads"]
    tensor = torch.tensor(numbers, dtype=torch.float64)
    assert torch.equal(pm.angles(points(), numbers), pm.angles(points(), tensor))
    exact = pm.angles(points().double(), numbers)
    monkeypatch.setattr(reduction, "_WITHOUT_FLOAT64", ("cpu",))
    without = pm.angles(points(), numbers).double()
    close(torch.cos(without - exact), torch.ones(5, 7, F))
    monkeypatch.undo()
    with pytest.raises(ValueError, match=r"frequencies must be matrices \(H, A, F\) of one shape"):
        pm.angles(points(), [numbers[0], numbers[1][:2]])


# ------------------------------------------------------------ time alone, stretched

SCALINGS = {
    "linear": lambda pair: Linear(4.0),
    "ntk": lambda pair: NTK(4.0),
    "yarn": lambda pair: YaRN(4.0, 64, scale_softmax=False),
    "riflex": lambda pair: RIFLEx(pair, 0.5),
}


@pytest.mark.parametrize("kind", SCALINGS)
@pytest.mark.parametrize("name", [*DEALT, "zeroed"])
def test_a_scaling_of_time_leaves_space_as_it_was(name, kind):
    made = DEALT.get(name, DEALT["alternating"])[0]
    make = (lambda row: zeroed(made(row), range(8, 12))) if name == "zeroed" else made
    plain = pm.Rotary(2 * F, 3, base=BASE, allocation=make)
    fastest = min((i for i, f in enumerate(plain.frequencies[0]) if f), default=0)
    scaling = SCALINGS[kind](fastest)
    only = PerAxis([scaling, Unscaled(), Unscaled()])
    rotary = pm.Rotary(2 * F, 3, base=BASE, allocation=make, scaling=only, length=700)
    assert rotary.frequencies[1:] == plain.frequencies[1:]
    slower = scaling.frequencies(2 * F, BASE, length=700)
    for i, (was, now) in enumerate(zip(plain.frequencies[0], rotary.frequencies[0], strict=True)):
        assert now == (slower[i] if was else 0.0)
    mine = torch.tensor(plain.frequencies[0]) > 0
    rotation, before = rotary(points()), plain(points())
    assert torch.equal(rotation.cos[:, ~mine], before.cos[:, ~mine])
    assert torch.equal(rotation.sin[:, ~mine], before.sin[:, ~mine])
    if mine.any():
        assert (rotation.cos != before.cos).any()
        length = torch.hypot(rotation.cos, rotation.sin)[:, mine]
        close(length, torch.full_like(length, scaling.amplitude(700)), atol=1e-6)


@pytest.mark.parametrize("widths", [(4, 12, 8), (8, 8, 8)])
def test_a_scaling_of_time_leaves_the_ladders_of_space_as_they_were(widths):
    plain = pm.Rotary(2 * F, 3, base=256.0, rotary_dim=widths)
    only = PerAxis([YaRN(4.0, 16, scale_softmax=False), Unscaled(), Unscaled()])
    rotary = pm.Rotary(2 * F, 3, base=256.0, rotary_dim=widths, scaling=only)
    assert rotary.frequencies[1:] == plain.frequencies[1:]
    assert rotary.frequencies[0] != plain.frequencies[0]
    still = points() * torch.tensor([0, 1, 1])
    time = widths[0] // 2
    assert torch.equal(rotary(still).cos[:, time:], plain(still).cos[:, time:])
    assert rotary.amplitude[time:] == (1.0,) * (F - time) and rotary.amplitude[0] > 1.1


def test_videorope_stretched_in_time_is_its_authors():
    counts, length = (4, 4, 4), 64
    only = PerAxis([NTK((length * 4.0 - 1) / (length - 1)), Unscaled(), Unscaled()])
    make = partial(alternating, counts=counts)
    rotary = pm.Rotary(2 * F, 3, base=BASE, allocation=make, scaling=only)
    row = oracles.stretched_time(F, BASE, 4.0, length, counts)
    wanted = oracles.angles(points().tolist(), oracles.videorope(F, counts), row)
    close(rotary(points().double()).cos, wanted.cos())


@pytest.mark.parametrize(
    ("make", "changed"),
    [
        (partial(sections, counts=(16, 24, 24)), 0),
        (partial(interleaved, counts=(24, 20, 20)), 16),
        (partial(alternating, counts=(16, 24, 24)), 16),
    ],
)
def test_yarn_slows_the_slow_pairs_of_time_only(make, changed):
    """Qwen2-VL's time has none, as docs/presets.md warns."""
    only = PerAxis([YaRN(4.0, 32768), Unscaled(), Unscaled()])
    before = pm.Rotary(128, 3, base=1e6, allocation=make).frequencies[0]
    after = pm.Rotary(128, 3, base=1e6, allocation=make, scaling=only).frequencies[0]
    assert sum(a != b for a, b in zip(before, after, strict=True)) == changed


def test_one_scaling_on_all_axes_keeps_words_as_in_one_dimension():
    yarn = YaRN(4.0, 64)
    rotary = pm.Rotary(2 * F, 3, base=BASE, allocation=DEALT["interleaved"][0], scaling=yarn)
    flat = pm.Rotary(2 * F, base=BASE, scaling=yarn)
    words = torch.arange(50)[:, None]
    assert torch.equal(rotary(words.expand(-1, 3)).cos, flat(words).cos)
    assert rotary.amplitude == flat.amplitude == yarn.amplitude()
    assert rotary.softmax_factor == flat.softmax_factor


def test_a_pair_that_looks_along_axes_of_several_amplitudes_is_refused():
    only = PerAxis([YaRN(4.0, 64), Unscaled()])
    with pytest.raises(ValueError, match="allocation must give each pair to one axis where"):
        pm.Rotary(8, 2, allocation=lambda row: (row, row), scaling=only)


# ------------------------------------------------------------ learned, from any of them


@pytest.mark.parametrize("name", EVERY)
def test_learned_frequencies_start_from_any_allocation(name):
    mixed = pm.MixedRotary(2 * F + 2, 5, 3, layout="half", start=EVERY[name])
    fixed = pm.Rotary(2 * F + 2, 3, layout="half", frequencies=EVERY[name])(points())
    learned = mixed(points())
    assert learned.per_head and mixed.frequencies.shape == (5, 3, F)
    close(learned.cos, fixed.cos.expand(5, 7, F), atol=1e-5)  # float32 parameters, far positions
    x = torch.randn(2, 5, 7, 2 * F + 2)
    (pm.rotate(x, learned) * torch.randn_like(x)).sum().backward()
    assert (mixed.frequencies.grad != 0).flatten(1).any(-1).all()
    with torch.no_grad():
        mixed.frequencies.add_(1.0)
    other = copy.deepcopy(mixed)
    other.reset_parameters()
    assert torch.equal(other(points()).cos, learned.cos)
    assert "start" in repr(mixed) and list(mixed.state_dict()) == ["frequencies"]


def test_learned_frequencies_of_other_heads_or_axes_are_refused():
    with pytest.raises(ValueError, match="start must be one matrix, or one for each of 4 heads"):
        pm.MixedRotary(2 * F, 4, 3, start=EVERY["whole heads"])
    with pytest.raises(ValueError, match=r"start must be \(2, F\)"):
        pm.MixedRotary(2 * F, 5, 2, start=EVERY["whole heads"])
