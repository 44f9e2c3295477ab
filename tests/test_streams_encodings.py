"""One stream drives rotations, sums, biases and masks, eager, compiled and exported."""

import oracles_streams as oracles
import pytest
import torch

import posenc_mm as pm
from posenc_mm.frequencies import (
    alternating,
    axial,
    geometric,
    interleaved,
    sections,
    zeroed,
)
from posenc_mm.streams import (
    Audio,
    Image,
    Layout,
    Series,
    Stream,
    Text,
    Together,
    Video,
    pack,
)

COUNTS = (4, 3, 5)
MATRICES = {
    "sections": sections(geometric(12), COUNTS),
    "interleaved": interleaved(geometric(12), (6, 3, 3)),
    "alternating": alternating(geometric(12), (2, 5, 5)),
    "zeroed": zeroed(sections(geometric(12), COUNTS), range(4)),
    "axial": axial(*[geometric(4)] * 3),
    "dense": [[0.3, -1.0], [0.5, 0.2], [-0.7, 0.1]],
}
ROWS = [
    [Text(3), Image(2, 3), Text(2)],
    [Text(1), Together(Video([0.0, 0.35, 2.0], 1, 2), Audio([0.35, 0.5])), Text(4)],
]


def streams():
    return Layout(scale=(2.0,)).batch(ROWS, pad="left")


def test_sections_of_one_ladder_turn_as_m_rope():
    stream = Layout()(*ROWS[0])
    tokens = oracles.mrope([("text", 3), ("grid", [0], 2, 3), ("text", 2)])[0]
    x = torch.randn(2, 11, 24, dtype=torch.float64)
    found = pm.rotate(x, pm.Rotary(24, 3, frequencies=MATRICES["sections"])(stream.coords[0]))
    angles = [oracles.sectioned(token, COUNTS) for token in tokens]
    wanted = [list(map(oracles.turned, each, angles)) for each in x.tolist()]
    torch.testing.assert_close(found, torch.tensor(wanted).double(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("name", MATRICES)
def test_every_allocation_keeps_lengths_and_sees_differences_only(name, layout):
    rotary = pm.Rotary(24, 3, frequencies=MATRICES[name], layout=layout)
    coords = streams().coords.double()
    x = torch.randn(2, 3, coords.shape[1], 24, dtype=torch.float64)
    turned = pm.rotate(x, rotary(coords))
    torch.testing.assert_close(turned.norm(dim=-1), x.norm(dim=-1), rtol=1e-12, atol=0)
    moved = pm.rotate(x, rotary(coords + torch.tensor([7.0, -2.5, 11.0])))
    scores, later = turned @ turned.mT, moved @ moved.mT
    torch.testing.assert_close(later, scores, rtol=0, atol=1e-10)


def test_sums_read_the_same_coordinates():
    stream = streams()
    for encoding in (pm.Sinusoidal(24, axes=3), pm.Fourier(24, axes=3)):
        found = encoding(stream.coords)
        assert found.shape == (2, stream.shape[1], 24)
        alone = encoding(Layout(scale=(2.0,))(*ROWS[0]).coords)
        mask = stream.mask[0]
        torch.testing.assert_close(found[0, mask], alone[0].to(found), rtol=0, atol=1e-6)


def test_biases_read_axes_and_other_columns():
    """Distance in time, the same block or not, the same variate or not, all at once."""
    stream = Layout()(
        Together(Series([0.0, 1.5, 4.0], variate=0), Series([0.5, 1.5], variate=3)), Image(1, 2)
    )
    same = pm.AnyVariateBias(2)
    bias = pm.BiasSum([pm.ALiBi(2), same, same], axes=[[0], [1], [2]])
    positions = stream.positions("time", "variate", "block")
    found = bias(positions, positions)[0]
    time = stream.coords[0, :, 0].tolist()
    variate, block = stream.variate[0].tolist(), stream.block[0].tolist()
    other, own = same.weight.tolist()
    for head, slope in enumerate(pm.alibi_slopes(2)):
        for i in range(7):
            for j in range(7):
                wanted = -slope * abs(time[i] - time[j])
                for column in (variate, block):
                    wanted += (own if column[i] == column[j] else other)[head]
                assert found[head, i, j].item() == pytest.approx(wanted, abs=1e-5)
    with pytest.raises(ValueError, match="names must be"):
        stream.positions("second")
    with pytest.raises(ValueError, match="1 axes"):
        Layout(axes=1)(Text(2)).positions("row")


def test_documents_of_a_packed_row_do_not_see_each_other():
    rule, rotary = Layout(scale=(2.0,)), pm.Rotary(24, axes=3)
    alone = [rule(*row) for row in ROWS]
    packed = pack(alone)
    tokens = [torch.randn(1, 2, one.shape[1], 24) for one in alone]

    def attended(x, stream):
        kinds = {"segments": stream.segment, "key_mask": stream.mask, "causal": True}
        return pm.attend(x, x, x, rotation=rotary(stream.coords), **kinds)

    found = attended(torch.cat(tokens, 2), packed)
    wanted = torch.cat([attended(x, s) for x, s in zip(tokens, alone, strict=True)], 2)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)
    batch = rule.batch(ROWS, pad="left")
    x = torch.randn(2, 2, batch.shape[1], 24)
    for number in range(2):
        x[number, :, batch.mask[number]] = tokens[number][0]
    padded = attended(x, batch)
    for number, one in enumerate(alone):
        mine = attended(tokens[number], one)[0]
        torch.testing.assert_close(padded[number, :, batch.mask[number]], mine, rtol=0, atol=1e-5)


def test_decoding_with_a_cache_is_one_pass():
    rule = Layout(scale=(2.0,))
    model = pm.Transformer(24, 2, 2, rotary=pm.Rotary(12, axes=3), causal=True)
    x = torch.randn(1, 11 + 7, 24)
    whole = rule(*ROWS[0], Text(1), Image(2, 2), Text(2))
    wanted = model(x, whole.coords)
    cache, so_far, found = pm.KVCache(), rule(*ROWS[0]), []
    found.append(model(x[:, :11], so_far.coords, cache=cache))
    done = 11
    for item in (Text(1), Image(2, 2), Text(1), Text(1)):
        so_far = rule.extend(so_far, item)
        after = done + so_far.shape[1]
        found.append(model(x[:, done:after], so_far.coords, cache=cache))
        done = after
    torch.testing.assert_close(torch.cat(found, 1), wanted, rtol=0, atol=1e-5)


class Reader(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rotary = pm.Rotary(24, 3, frequencies=MATRICES["interleaved"])

    def forward(self, x, stream: Stream):
        rotation = self.rotary(stream.coords)
        return pm.attend(x, x, x, rotation=rotation, key_mask=stream.mask)


def test_a_stream_is_an_input_of_compiled_and_exported_models():
    model, stream = Reader(), streams()
    x = torch.randn(2, 2, stream.shape[1], 24)
    wanted = model(x, stream)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, stream), wanted)
    exported = torch.export.export(model, (x, stream)).module()
    torch.testing.assert_close(exported(x, stream), wanted)


def test_decoding_compiles_whole_and_once():
    """Text behind a cursor reads nothing back from the device."""
    rule = Layout()
    stream = rule.batch([[Text(4), Image(2, 2)], [Text(3)]], pad="left")
    counted = torch._dynamo.testing.CompileCounter()

    @torch.compile(backend=counted, fullgraph=True)
    def step(stream):
        new = rule.extend(stream, Text(1))
        return new.coords * 2, new

    newest = stream
    for k in range(4):
        doubled, newest = step(newest)
        assert doubled[:, 0, 0].tolist() == [2 * (6 + k), 2 * (3 + k)]
    assert counted.frame_count <= 2
