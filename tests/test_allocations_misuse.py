"""Frequency allocations that are none, and what goes with an allocation and what does not."""

import copy
import pickle
from functools import partial

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
from posenc_mm.scaling import Linear

F = 12
ROW = pm.geometric(F, 500.0)
DEAL = partial(shared, owners=(0, 0, 1, 2, 1, 2, 1, 2))
MATRIX = DEAL(ROW)


def test_it_copies_pickles_and_says_what_it_is_without_an_address():
    make = partial(interleaved, counts=(6, 3, 3))
    rotary = pm.Rotary(2 * F, 3, allocation=make)
    for other in (copy.deepcopy(rotary), pickle.loads(pickle.dumps(rotary))):
        assert torch.equal(other(pm.grid(2, 2, 3)).cos, rotary(pm.grid(2, 2, 3)).cos)
        assert repr(other) == repr(rotary)
    assert "allocation=interleaved(counts=(6, 3, 3))" in repr(rotary)
    assert not rotary.state_dict()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sections(ROW, (3, 4, 4)), "counts must be the pairs of each axis, 12"),
        (lambda: sections(ROW, ()), "counts must be the pairs"),
        (lambda: sections(ROW, (13, -1)), "counts must be a whole number"),
        (lambda: interleaved(ROW, (2, 5, 5)), "counts must be what dealing"),
        (lambda: alternating(ROW, (2, 6, 4)), "counts must be what dealing"),
        (lambda: alternating(ROW, (4, 4, 4), slow=3), "slow must be one of"),
        (lambda: alternating(ROW, (12,)), "slow must be one of 2 or more axes"),
        (lambda: shared(ROW, ()), "owners must name an axis for 1 to 12 pairs"),
        (lambda: shared(ROW, [0] * 13), "owners must name an axis for 1 to 12 pairs"),
        (lambda: shared(ROW, (0, -1)), "owners must be a whole number"),
        (lambda: shared(ROW, (0, 2), axes=2), "axes must be a whole number of at least 3"),
        (lambda: zeroed(MATRIX, [12]), "pairs must be among the 12"),
        (lambda: zeroed(MATRIX, [-1]), "pairs must be a whole number"),
        (lambda: whole_heads(ROW, (1, 2), heads=2), "counts must be heads of 2 in all"),
        (lambda: whole_heads(ROW, (0, 0)), "heads must be a whole number of at least 1"),
        (lambda: per_head(MATRIX, 5), "5 heads divide"),
    ],
)
def test_builders_refuse_what_is_no_allocation(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"allocation": partial(sections, counts=(6, 6))}, r"allocation must be \(3, F\)"),
        ({"allocation": lambda row: (row[1:],) * 3}, "as many frequencies as the ladder"),
        (
            {"allocation": DEAL, "base": (9.0, 9.0, 9.0)},
            "allocation deals one ladder",
        ),
        ({"allocation": DEAL, "rotary_dim": 23}, "rotary_dim must be even"),
        ({"allocation": DEAL, "frequencies": MATRIX}, "leave them out"),
        ({"allocation": DEAL, "layout": "axis_half"}, "axis_half' needs"),
        ({"rotary_dim": (4, 12)}, "an even one for each of 3 axes"),
        ({"rotary_dim": (4, 12, 10)}, "together fit head_dim=24"),
        ({"rotary_dim": (4, 11, 9)}, "an even one"),
        ({"rotary_dim": (4, 12, 8), "freq_dim": 24}, "freq_dim is for axes of one width"),
        ({"rotary_dim": (4, 12, 8), "layout": "axis_half"}, "axis_half' needs"),
        ({"frequencies": [MATRIX, [[1.0]] * 3]}, "as many frequencies in each head"),
    ],
)
def test_rotary_refuses_what_does_not_go_together(arguments, words):
    with pytest.raises(ValueError, match=words):
        pm.Rotary(2 * F, 3, **arguments)


def test_frequencies_of_heads_are_stretched_before_they_are_dealt():
    heads = partial(whole_heads, counts=(1, 2, 1))
    assert pm.Rotary(2 * F, 3, allocation=heads).per_head
    with pytest.raises(ValueError, match=r"allocation must give a matrix \(3, 12\)"):
        pm.Rotary(2 * F, 3, allocation=heads, scaling=Linear(2.0))
