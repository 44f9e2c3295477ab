"""Cached keys that move, scalings per axis, and the search for factors."""

import math

import oracles_scaling as oracle
import pytest
import torch

import posenc_mm as pm
from posenc_mm import scaling as sc

B, H, N, D = 2, 3, 5, 12
LAYOUTS = ["half", "interleaved"]


def keys(dtype=torch.float64):
    return torch.randn(B, H, N, D, dtype=torch.float64).to(dtype)


def rotated(k, positions, row, amplitude, layout):
    """Every key by the oracle: positions (N, 1) or (B, N, 1)."""
    out = torch.empty_like(k, dtype=torch.float64)
    for b in range(B):
        for h in range(H):
            for n in range(N):
                p = (positions if positions.ndim == 2 else positions[b])[n, 0].item()
                angles = [p * f for f in row]
                x = k[b, h, n].tolist()
                turned = oracle.turned(x, angles, layout == "half", amplitude)
                turned[2 * len(row) :] = x[2 * len(row) :]
                out[b, h, n] = torch.tensor(turned, dtype=torch.float64)
    return out


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("width", [8, 12])
def test_moved_keys_are_raw_keys_rotated_anew(layout, batched, width):
    dynamic, k = sc.DynamicYaRN(16, beta_fast=4.0), keys()
    positions = torch.randint(0, 4000, (B, N, 1) if batched else (N, 1))
    old, new = (dynamic.frequencies(width, 100.0, length=n) for n in (40, 90))
    a, b = dynamic.amplitude(40), dynamic.amplitude(90)
    assert old != new and a != b
    cached = rotated(k, positions, old, a, layout)
    moved = sc.rerotate(cached, positions, [old], [new], ratio=b / a, layout=layout)
    # What does not turn is not stretched either.
    torch.testing.assert_close(moved, rotated(k, positions, new, b, layout), rtol=0, atol=1e-10)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_keys_move_to_other_positions_exactly_far_out(layout):
    k, row = keys(), oracle.plain(D, 1e4)
    positions = torch.tensor([[0], [3], [10**7], [10**7 + 1], [123_456_789]])
    to = positions.flip(0) - 17
    cached = rotated(k, positions, row, 1.0, layout)
    moved = sc.rerotate(cached, positions, [row], [row], to=to, layout=layout)
    torch.testing.assert_close(moved, rotated(k, to, row, 1.0, layout), rtol=0, atol=1e-6)
    back = sc.rerotate(moved, to, [row], [row], to=positions, layout=layout)
    torch.testing.assert_close(back, cached, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_low_precision_keys_are_rounded_once(dtype):
    old, new = (pm.Rotary(D, base=base) for base in (1e4, 3e5))
    positions = pm.sequence(N, offset=90_000)
    cached = pm.rotate(keys(dtype), old(positions))
    moved = sc.rerotate(cached, positions, old.frequencies, new.frequencies)
    assert moved.dtype == dtype
    exact = sc.rerotate(cached.double(), positions, old.frequencies, new.frequencies)
    step = torch.finfo(dtype).eps
    torch.testing.assert_close(moved.double(), exact, rtol=step, atol=2e-6)
    with torch.autocast("cpu", torch.bfloat16):
        again = sc.rerotate(cached, positions, old.frequencies, new.frequencies)
    assert torch.equal(again, moved)


def test_keys_on_a_grid_move_axis_by_axis():
    video = sc.PerAxis([sc.Linear(2.0), sc.Unscaled(), sc.NTK(3.0)])
    old, new = pm.Rotary(D, axes=3), pm.Rotary(D, axes=3, frequencies=video.frequencies(D))
    positions = pm.grid(2, 3, 5)
    k = torch.randn(B, H, 30, D, dtype=torch.float64)
    cached = pm.rotate(k, old(positions.double()))
    moved = sc.rerotate(cached, positions, old.frequencies, new.frequencies)
    torch.testing.assert_close(moved, pm.rotate(k, new(positions.double())), rtol=0, atol=1e-12)


def test_scores_with_moved_keys_are_those_of_a_fresh_pass():
    """Prefill short, decode long: the cache follows the length instead of spoiling the scores."""
    dynamic, q, k = sc.DynamicNTK(2.0, 32), torch.randn(1, 1, 48, 16), torch.randn(1, 1, 48, 16)
    positions = pm.sequence(48)
    short, long = (dynamic.frequencies(16, 100.0, length=n) for n in (40, 48))
    turn = pm.Rotary(16, frequencies=[long])
    fresh = pm.rotate(q, turn(positions)) @ pm.rotate(k, turn(positions)).mT
    first = pm.Rotary(16, frequencies=[short])
    cache = pm.rotate(k[:, :, :40], first(positions[:40]))
    stale = pm.rotate(q, turn(positions)) @ cache.mT
    moved = sc.rerotate(cache, positions[:40], [short], [long])
    scores = pm.rotate(q, turn(positions)) @ moved.mT
    torch.testing.assert_close(scores, fresh[..., :40], rtol=0, atol=2e-5)
    assert (stale - fresh[..., :40]).abs().max() > 0.1


class Moved(torch.nn.Module):
    def forward(self, k, positions):
        old, new = ([oracle.plain(D, base)] for base in (1e4, 1e5))
        return sc.rerotate(k, positions, old, new, ratio=1.5)


def test_moving_exports_with_any_length_and_passes_gradients():
    k, positions = keys(torch.float32), pm.sequence(N, offset=3)
    length = torch.export.Dim("length", min=2, max=1000)
    shapes = {"k": {2: length}, "positions": {0: length}}
    program = torch.export.export(Moved(), (k, positions), dynamic_shapes=shapes).module()
    more, there = torch.randn(B, H, 41, D), pm.sequence(41, offset=9)
    assert torch.equal(program(more, there), Moved()(more, there))
    k.requires_grad_()
    Moved()(k, positions).square().sum().backward()
    torch.testing.assert_close(k.grad, 2 * 1.5**2 * k.detach(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layout": "axial"}, "layout"),
        ({"ratio": 0.0}, "ratio"),
        ({"to": torch.zeros(N, 1)}, "to must be like"),
        ({"to": torch.zeros(N + 1, 1, dtype=torch.long)}, "to must be like"),
        ({"target": [[1.0]]}, "source and target"),
        ({"positions": torch.zeros(N, 2, dtype=torch.long)}, "positions"),
        ({"positions": torch.zeros(N + 1, 1, dtype=torch.long)}, "k must be of"),
        ({"positions": torch.zeros(3, N, 1, dtype=torch.long)}, "k must be of"),
        ({"k": torch.zeros(N, 2)}, "k must be floating"),
        ({"k": torch.zeros(N, D, dtype=torch.long)}, "k must be floating"),
    ],
)
def test_keys_that_cannot_move_are_refused(arguments, message):
    row = [oracle.plain(D, 1e4)]
    usual = {"k": keys(), "positions": pm.sequence(N), "source": row, "target": row}
    with pytest.raises(ValueError, match=message):
        sc.rerotate(**{**usual, **arguments})


def test_every_axis_has_its_own_scaling_base_width_and_length():
    video = sc.PerAxis([sc.RIFLEx(1), sc.YaRN(4.0, 64), sc.Linear(2.0)])
    matrix = video.frequencies((4, 6, 8), (256.0, 1e4, 100.0), length=(190, None, None))
    rows = [
        oracle.riflex(4, 256.0, 2, 190),
        oracle.yarn(6, 1e4, 4.0, 64),
        oracle.linear(8, 100.0, 2.0),
    ]
    for axis, row in enumerate(rows):
        start = sum(len(each) for each in rows[:axis])
        wanted = [0.0] * 9
        wanted[start : start + len(row)] = row
        assert matrix[axis] == pytest.approx(wanted, rel=1e-9)
    grown = 0.1 * math.log(4) + 1
    assert video.amplitudes((4, 6, 8)) == pytest.approx((1, 1, grown, grown, grown, 1, 1, 1, 1))
    assert not video.static and sc.PerAxis([sc.Linear(2.0)] * 2).static
    assert sc.PerAxis([sc.Unscaled()] * 3).frequencies(12) == pm.Rotary(12, axes=3).frequencies


def test_axes_that_do_not_fit_are_refused():
    two = sc.PerAxis([sc.Linear(2.0), sc.Unscaled()])
    for call in (
        lambda: two.frequencies(6),
        lambda: two.frequencies((4, 4, 4)),
        lambda: two.frequencies(8, (1e4,)),
        lambda: two.frequencies(8, length=(1, 2, 3)),
        lambda: two.amplitudes(8, length=0),
        lambda: sc.PerAxis([]),
        lambda: sc.PerAxis([sc.Linear(2.0), None]),
    ):
        with pytest.raises(ValueError, match="rotary_dim|base|length|scalings"):
            call()


def bowl(factors):
    wanted = [1.0, 1.5, 2.0, 4.0]
    return sum((math.log(a / b)) ** 2 for a, b in zip(factors, wanted, strict=True))


def test_a_search_finds_better_factors_than_it_was_given():
    starts = [[4.0] * 4, [1.0, 4 ** (1 / 3), 4 ** (2 / 3), 4.0]]
    trials = sc.search(bowl, starts, budget=400, largest=5.0)
    assert [list(trial.factors) for trial in trials[:2]] == starts and len(trials) == 400
    best = min(trials, key=lambda trial: trial.loss)
    assert best.loss < 0.2 * min(trials[0].loss, trials[1].loss)
    for factors, loss in trials:
        assert loss == bowl(factors)
        assert list(factors) == sorted(factors) and 1 <= factors[0] <= factors[-1] <= 5
    assert sc.PerPair(best.factors).frequencies(8)[0] == 1 / best.factors[0]


def test_an_interrupted_search_ends_as_one_that_was_not():
    arguments = {"starts": [[2.0] * 4], "largest": 5.0, "seed": 3}
    whole = sc.search(bowl, **arguments, budget=60)
    for stopped in (0, 1, 25):
        assert sc.search(bowl, **arguments, budget=60, history=whole[:stopped]) == whole
    assert sc.search(bowl, **{**arguments, "seed": 4}, budget=60) != whole


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"starts": []}, "starts"),
        ({"starts": [[1.0], [1.0, 2.0]]}, "one length"),
        ({"starts": [[2.0, 1.0]]}, "must not fall"),
        ({"starts": [[0.5, 1.0]]}, "must not fall"),
        ({"starts": [[1.0, 6.0]]}, "must not fall"),
        ({"budget": 0}, "budget"),
        ({"largest": 0.5}, "largest"),
        ({"parents": 0}, "parents"),
        ({"share": -0.1}, "share"),
        ({"history": [sc.Trial((3.0, 3.0), 1.0)]}, "history"),
        ({"loss": lambda factors: math.nan}, "loss"),
    ],
)
def test_a_search_that_cannot_begin_is_refused(arguments, message):
    usual = {"loss": sum, "starts": [[1.0, 2.0]], "budget": 9, "largest": 5.0}
    with pytest.raises(ValueError, match=message):
        sc.search(**{**usual, **arguments})
