"""Which channels make a pair, moving weights between the layouts, and every refusal."""

import math

import oracles
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import posenc_mm as pm

LAYOUTS = ["interleaved", "half"]


def noise(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


# ------------------------------------------------------------ layouts


def test_both_layouts_turn_the_pairs_that_their_models_turn():
    x = torch.arange(1.0, 9.0)[None, None, None]
    position = pm.sequence(1, offset=3)
    expected = {
        "interleaved": [
            *(-1.272233, -1.838865, 1.683929, 4.707907),
            *(4.817777, 6.147278, 6.975969, 8.020964),
        ],
        "half": [
            *(-1.695593, 0.137552, 2.788682, 3.975982),
            *(-4.808842, 6.323059, 7.086837, 8.011964),
        ],
    }
    for layout, values in expected.items():
        got = pm.rotate(x, pm.Rotary(8, layout=layout)(position)).flatten()
        torch.testing.assert_close(got, torch.tensor(values), rtol=0, atol=1e-5)
    order = [0, 2, 4, 6, 1, 3, 5, 7]
    one, other = (pm.Rotary(8, layout=layout)(position) for layout in LAYOUTS)
    torch.testing.assert_close(pm.rotate(x[..., order], other), pm.rotate(x, one)[..., order])


@given(
    heads=st.integers(1, 3),
    pairs=st.integers(1, 4),
    rest=st.integers(0, 3),
    source=st.sampled_from(LAYOUTS),
    target=st.sampled_from(LAYOUTS),
    vector=st.booleans(),
)
def test_converted_rows_stand_where_the_other_layout_reads_them(
    heads, pairs, rest, source, target, vector
):
    head_dim = 2 * pairs + rest
    weight = noise(heads * head_dim) if vector else noise(heads * head_dim, 5)
    arguments = {"rotary_dim": 2 * pairs} if rest else {}
    got = pm.convert_layout(weight, heads, source=source, target=target, **arguments)
    order = oracles.layout_order(heads, head_dim, 2 * pairs, source, target)
    assert torch.equal(got, weight[order])
    back = pm.convert_layout(got, heads, source=target, target=source, **arguments)
    assert torch.equal(back, weight)


@pytest.mark.parametrize("rotary_dim", [None, 4])
@pytest.mark.parametrize(("source", "target"), [LAYOUTS, LAYOUTS[::-1]])
def test_converted_projections_give_the_same_scores(source, target, rotary_dim):
    """Queries of 4 heads, keys of 2, with biases; converting only the keys changes the scores."""
    tokens, positions = noise(1, 7, 6), pm.sequence(7, offset=2).double()
    parts = {4: (noise(32, 6, seed=1), noise(32, seed=2)), 2: (noise(16, 6, seed=3), noise(16))}

    def projected(heads, layout, convert):
        weight, bias = parts[heads]
        if convert:
            kind = {"source": source, "target": target, "rotary_dim": rotary_dim}
            weight, bias = (pm.convert_layout(part, heads, **kind) for part in (weight, bias))
        x = (tokens @ weight.T + bias).unflatten(-1, (heads, 8)).transpose(1, 2)
        return pm.rotate(x, pm.Rotary(8, layout=layout, rotary_dim=rotary_dim)(positions))

    def scores(convert_queries, layout):
        keys = projected(2, layout, layout != source).repeat_interleave(2, 1)
        return projected(4, layout, convert_queries) @ keys.mT

    right = scores(False, source)
    torch.testing.assert_close(scores(True, target), right, rtol=0, atol=1e-11)
    assert (scores(False, target) - right).abs().max() > 0.1


# ------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: pm.Rotary(33), "head_dim|rotary_dim"),
        (lambda: pm.Rotary(0), "head_dim|rotary_dim"),
        (lambda: pm.Rotary(10, 2), "head_dim|rotary_dim"),
        (lambda: pm.Rotary(8, 0), "axes"),
        (lambda: pm.Rotary(8, rotary_dim=3), "rotary_dim"),
        (lambda: pm.Rotary(8, rotary_dim=10), "rotary_dim"),
        (lambda: pm.Rotary(16, 2, rotary_dim=6), "rotary_dim"),
        (lambda: pm.Rotary(8, rotary_dim=0), "rotary_dim"),
        (lambda: pm.Rotary(8, freq_dim=0), "freq_dim"),
        (lambda: pm.Rotary(8, base=0.0), "base"),
        (lambda: pm.Rotary(8, base=math.nan), "base"),
        (lambda: pm.Rotary(8, 2, base=(1e4, -1.0)), "base"),
        (lambda: pm.Rotary(8, 2, base=(1e4,)), "base"),
        (lambda: pm.Rotary(8, 2, base=(1e4, 1e4, 1e4)), "base"),
        (lambda: pm.Rotary(8, layout="interleave"), "layout"),
        (lambda: pm.Rotary(8, layout="neox"), "layout"),
        (lambda: pm.Rotary(8, 2, frequencies=((1.0,) * 4,)), "frequencies"),
        (lambda: pm.Rotary(8, frequencies=((1.0,) * 5,)), "frequencies|rotary_dim|head_dim"),
        (lambda: pm.Rotary(8, 2, frequencies=((1.0,) * 4, (1.0,) * 3)), "frequencies"),
        (lambda: pm.Rotary(8, frequencies=((1.0, 1.0, 1.0, math.nan),)), "frequencies"),
        (lambda: pm.MixedRotary(9, 2), "head_dim"),
        (lambda: pm.MixedRotary(8, 0), "heads"),
        (lambda: pm.MixedRotary(8, 2, 0), "axes"),
        (lambda: pm.MixedRotary(8, 2, base=-10.0), "base"),
        (lambda: pm.MixedRotary(8, 2, layout="rotate_half"), "layout"),
    ],
)
def test_rotary_refuses_impossible_widths_and_misspelt_names(make, name):
    with pytest.raises(ValueError, match=name):
        make()


@pytest.mark.parametrize(
    "encoding", [pm.Rotary(8, 2), pm.MixedRotary(8, 3)], ids=["Rotary", "MixedRotary"]
)
@pytest.mark.parametrize(
    "positions",
    [
        torch.zeros(5, 1),
        torch.zeros(5, 3),
        torch.zeros(2, dtype=torch.int64),
        torch.zeros(5, 2, dtype=torch.bool),
        torch.zeros(5, 2, dtype=torch.complex64),
    ],
    ids=["one axis", "three axes", "no tokens", "bool", "complex"],
)
def test_rotary_refuses_positions_of_another_kind(encoding, positions):
    with pytest.raises(ValueError, match="positions"):
        encoding(positions)


@pytest.mark.parametrize(
    ("shape", "positions", "word"),
    [
        ((2, 3, 6, 8), pm.sequence(5), "token|N"),
        ((2, 3, 6, 8), pm.sequence(1), "token|N"),
        ((2, 3, 1, 8), pm.sequence(6), "token|N"),
        ((2, 3, 6, 8), pm.sequence(6).expand(3, -1, -1), "sample|batch|B"),
        ((1, 3, 6, 8), pm.sequence(6).expand(3, -1, -1), "sample|batch|B"),
        ((6, 2, 3, 8), pm.sequence(2), "token|N"),
        ((2, 3, 6, 6), pm.sequence(6), "channel|D|wid|narrow"),
    ],
    ids=str,
)
def test_rotate_refuses_a_rotation_for_other_tokens(shape, positions, word):
    """Broadcasting one row over all tokens would drop the positions silently."""
    with pytest.raises(ValueError, match=word):
        pm.rotate(torch.zeros(shape), pm.Rotary(8)(positions))


@pytest.mark.parametrize("heads", [1, 2, 4, 6])
def test_rotate_refuses_a_rotation_for_other_heads(heads):
    rotation = pm.MixedRotary(8, 3)(pm.grid(2, 2))
    with pytest.raises(ValueError, match="head"):
        pm.rotate(torch.zeros(2, heads, 4, 8), rotation)


def test_rotate_refuses_misspelt_layouts_and_numbers_that_do_not_turn():
    rotation = pm.Rotary(8)(pm.sequence(4))
    with pytest.raises(ValueError, match="layout"):
        pm.rotate(torch.zeros(2, 3, 4, 8), pm.Rotation(rotation.cos, rotation.sin, "halves"))
    with pytest.raises(ValueError, match=r"\bx\b"):
        pm.rotate(torch.zeros(2, 3, 4, 8, dtype=torch.int64), rotation)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"heads": 3}, "heads"),
        ({"heads": 0}, "heads"),
        ({"source": "interleave"}, "source|layout"),
        ({"target": "rotate_half"}, "target|layout"),
        ({"rotary_dim": 3}, "rotary_dim"),
        ({"rotary_dim": 10}, "rotary_dim"),
        ({"heads": 16, "rotary_dim": None}, "head"),
    ],
    ids=str,
)
def test_conversion_refuses_what_does_not_describe_the_weight(arguments, name):
    arguments = {"heads": 2, "source": "half", "target": "interleaved"} | arguments
    with pytest.raises(ValueError, match=name):
        pm.convert_layout(torch.zeros(16, 5), **arguments)


@pytest.mark.parametrize(
    "indices",
    [torch.zeros(3, 2), torch.zeros(3).long(), torch.zeros(2, 4).bool()],
    ids=["float", "one row", "bool"],
)
def test_rotation_keep_refuses_what_is_not_one_row_of_indices_per_sample(indices):
    with pytest.raises(ValueError, match="indices"):
        pm.Rotary(8)(pm.sequence(4)).keep(indices)


@pytest.mark.parametrize("index", [-1, 4])
def test_rotation_keep_never_wraps_around(index):
    with pytest.raises(ValueError, match="indices"):
        pm.Rotary(8)(pm.sequence(4)).keep(torch.tensor([[0, index]]))


def test_prefix_refuses_a_negative_count():
    with pytest.raises(ValueError, match="count"):
        pm.Rotary(8)(pm.sequence(4)).prefix(-1)
