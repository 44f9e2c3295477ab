"""What is done to a stream leaves every real token where it was."""

import copy
import dataclasses
import pickle

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, default_collate

from posenc_mm import streams
from posenc_mm.streams import (
    Audio,
    Image,
    Layout,
    Series,
    Text,
    Together,
    Video,
    pack,
    pad,
)

TIMES = [0.0, 0.4, 0.5, 2.25]
WHOLE = [Text(3), Image(2, 3), Text(2), Video(frames=3, rows=2, columns=1), Text(2)]
FRACTIONS = [
    Text(2),
    Together(Video(TIMES, 2, 1), Audio([0.1, 0.4, 3.0]), order="time"),
    Series([0.3, 0.9], variate=2),
    Image(1, 4),
]
ROWS = [WHOLE, FRACTIONS, [Text(5)], [Image(3, 1)], []]
RULES = {
    "default": Layout(),
    "qwen2_5": streams.qwen2_5_vl(4.0),
    "spatial": Layout(advance="space"),
    "diagonal": Layout(centre="floor", couple=True, advance="time", scale=(2.0,)),
    "reset": Layout(anchor="time"),
    "clock": Layout(clock=-3.0, scale=(2.0,)),
    "span": Layout(axes=2, span=16.0, quantise="cursor"),
    "margin": Layout(margin=50.0, quantise="cursor", line="grid", anchor="time"),
}
# Blocks without seconds have no place on a clock, nor where a second is not one position.
SECONDS = [Text(3), Image(2, 3), Video(TIMES, 1, 2), Text(2)]


def rows_of(name):
    return [SECONDS if row is WHOLE and name in ("qwen2_5", "diagonal", "clock") else row
            for row in ROWS]  # fmt: skip


def real(stream, row=0):
    """The columns of a row's real tokens, and what rides on the row."""
    mask = stream.mask[row]
    parts = {}
    for field in dataclasses.fields(stream):
        value = getattr(stream, field.name)[row]
        parts[field.name] = value[mask] if value.ndim else value
    parts["coords"] = parts["coords"].double()
    return parts


def same(found, wanted, but=(), atol=0.0):
    assert found.keys() == wanted.keys()
    for name in found.keys() - set(but):
        torch.testing.assert_close(found[name], wanted[name], rtol=0, atol=atol, msg=name)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("side", ["left", "right"])
def test_alone_is_in_a_batch_is_padded(name, side):
    rule, rows = RULES[name], rows_of(name)
    batch = rule.batch(rows, pad=side)
    assert batch.mask.shape[0] == len(rows)
    longer = batch.pad(batch.shape[1] + 3, side)
    for number, row in enumerate(rows):
        same(real(batch, number), real(rule(*row)))
        same(real(longer, number), real(rule(*row)))
    ends = longer.mask[:, 0] if side == "left" else longer.mask[:, -1]
    assert not ends.any()
    empty = {"coords": 0, "segment": -1, "modality": 0, "block": -1, "variate": -1}
    for column, number in empty.items():
        assert (getattr(longer, column)[~longer.mask] == number).all(), column


@pytest.mark.parametrize("name", RULES)
def test_packed_is_alone(name):
    rule, rows = RULES[name], rows_of(name)
    packed = pack([rule.batch(rows[:2], pad="left"), rule.batch(rows[2:])])
    assert packed.mask.all() and packed.shape[0] == 1
    for number, row in enumerate(rows):
        tokens = (packed.segment[0] == number).nonzero().T
        part, alone = real(packed.keep(tokens)), real(rule(*row))
        same(part, alone, but=("segment", "block", "cursor", "next_block", "document"))
        moved = (part["block"] - alone["block"])[alone["block"] >= 0]
        assert len(moved.unique()) <= 1, "numbers of blocks go on"
        assert torch.equal(part["block"] < 0, alone["block"] < 0)
    blocks = packed.block[packed.block >= 0]
    assert len(blocks.unique()) == packed.next_block.item(), "numbers of blocks differ by document"
    last = rule.extend(packed, Text(1))
    assert last.segment.item() == len(rows) - 1
    assert last.coords.tolist() == rule.extend(rule(*rows[-1]), Text(1)).coords.tolist()


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("row", [0, 1])
def test_prefill_and_decode_are_one_pass(name, row):
    rule, items = RULES[name], rows_of(name)[row]
    more = [Text(1), Text(1), Image(2, 2), Text(1)]
    whole = rule(*items, *more)
    so_far = newest = rule(*items)
    for item in more:
        newest = rule.extend(newest, item)
        so_far = so_far.join(newest)
    same(real(so_far), real(whole), atol=1e-13)
    assert torch.equal(so_far.cursor, whole.cursor) or so_far.coords.dtype == torch.float64


def test_prefill_and_decode_are_one_pass_to_the_bit_in_float32():
    rule = Layout()
    stream = rule(*WHOLE)
    for _ in range(5):
        stream = stream.join(rule.extend(stream, Text(1)))
    assert torch.equal(stream.coords, rule(*WHOLE, Text(5)).coords)


@pytest.mark.parametrize("side", ["left", "right"])
def test_every_row_continues_from_its_own_cursor(side):
    """A turn with a new image on a warm cache, for one row of a batch and not for another."""
    rule = Layout()
    batch = rule.batch([WHOLE, [Text(5)], FRACTIONS], pad=side)
    turns = [[Text(1), Image(2, 2)], [Text(3)], [Video(TIMES, 1, 1), Text(2)]]
    whole = batch.join(rule.extend_rows(batch, turns, pad=side))
    decoded = whole.join(rule.extend(whole, Text(1)))
    for number, (row, turn) in enumerate(zip([WHOLE, [Text(5)], FRACTIONS], turns, strict=True)):
        same(real(decoded, number), real(rule(*row, *turn, Text(1))), atol=1e-13)
    with pytest.raises(ValueError, match="one for each of 3 rows"):
        rule.extend_rows(batch, turns[:2])


def test_a_deep_copy_or_another_call_shares_nothing():
    rule = Layout()
    first, other = rule(*WHOLE), rule(Text(2))
    rule.extend(first, Image(5, 5))
    assert rule.extend(other, Text(1)).coords[0, 0].tolist() == [2, 2, 2]
    same(real(first), real(rule(*WHOLE)))


def test_chunks_are_slices():
    rule = Layout()
    batch = rule.batch(ROWS, pad="left")
    chunks = [batch[:, a : a + 4] for a in range(0, batch.shape[1], 4)]
    joined = chunks[0]
    for chunk in chunks[1:]:
        joined = joined.join(chunk)
    for number in range(len(ROWS)):
        same(real(joined, number), real(batch, number))
    assert batch[:, 2:5].coords.shape == (5, 3, 3)
    assert batch[1:3].cursor.tolist() == batch.cursor[1:3].tolist()
    assert batch[-1].shape[0] == 1
    assert [row.shape[0] for row in batch] == [1] * 5
    assert batch[[3, 0, 3]].cursor.tolist() == batch.cursor[[3, 0, 3]].tolist()
    with pytest.raises(ValueError, match="slice"):
        batch[0, 3]


@pytest.mark.parametrize("side", ["left", "right"])
def test_pruned_tokens_are_selected(side):
    rule = Layout()
    batch = rule.batch(ROWS, pad=side)
    kept = torch.rand(batch.shape) < 0.6
    kept[0, 4] = True
    pruned = batch.select(kept, side=side)
    assert pruned.shape[1] == (kept & batch.mask).sum(1).max()
    for number in range(len(ROWS)):
        wanted, keep = real(batch, number), kept[number][batch.mask[number]]
        wanted = {k: v[keep] if v.ndim else v for k, v in wanted.items()}
        same(real(pruned, number), wanted)
    every = batch[2:].select(torch.ones(3, batch.shape[1], dtype=torch.bool))
    assert every.shape[1] == 5, "padding goes as well"
    after = rule.extend(pruned, Text(1))
    assert torch.equal(after.coords, rule.extend(batch, Text(1)).coords), "what follows stays"
    shared = kept[0]
    assert torch.equal(
        batch[:2].select(shared).mask.sum(1), (shared & batch.mask[:2]).sum(1)
    )  # fmt: skip
    for wrong in (kept.float(), kept[:, 1:]):
        with pytest.raises(ValueError, match="booleans"):
            batch.select(wrong)


def test_kept_tokens_may_come_in_any_order():
    batch = Layout().batch([WHOLE, FRACTIONS])
    indices = torch.tensor([[4, 0], [9, 2]])
    kept = batch.keep(indices)
    assert torch.equal(kept.coords[1, 0], batch.coords[1, 9])
    assert torch.equal(kept.block[0], batch.block[0, [4, 0]])
    with pytest.raises(ValueError, match="2 rows"):
        batch.keep(indices[:1])


def test_beams():
    rule = Layout()
    batch = rule.batch([WHOLE, FRACTIONS])
    beams = batch.repeat(3)
    assert torch.equal(beams.cursor, batch.cursor[[0, 0, 0, 1, 1, 1]])
    chosen = beams[[4, 0]]
    same(real(chosen, 0), real(batch, 1))
    assert torch.equal(rule.extend(chosen, Text(1)).coords[:, 0, 0], batch.cursor[[1, 0]])


@pytest.mark.parametrize("side", ["left", "right"])
def test_sorted_by_time_stably_within_documents(side):
    rule = Layout()
    row = [Text(2), Together(Video([0.0, 2.0], 1, 2), Audio([0.0, 1.0])), Text(1)]
    apart = pack([rule(*row), rule(*row)])
    batch = pad([apart, rule(Text(4))], side=side)
    ordered, permutation = batch.sort("time")
    assert torch.equal(ordered.mask, batch.mask)
    assert real(ordered)["coords"][:, 0].tolist() == [0, 1, 2, 2, 2, 3, 4, 4, 5] * 2
    assert real(ordered)["modality"].tolist() == [1, 1, 3, 3, 4, 4, 3, 3, 1] * 2
    tokens = torch.arange(batch.mask.numel()).view(batch.shape)
    assert torch.equal(batch.coords[..., 0].gather(1, permutation), ordered.coords[..., 0])
    assert torch.equal(tokens.gather(1, permutation)[1], tokens[1]), "padding stays at its end"
    with pytest.raises(ValueError, match="'time'"):
        batch.sort("row")


def test_position_ids_of_hugging_face():
    batch = Layout().batch([[Text(2), Image(1, 2)], [Text(2)]], pad="left")
    ids = batch.to_hf(padding=1)
    assert ids.dtype == torch.int64 and ids.shape == (3, 2, 4)
    assert ids[:, 1].tolist() == [[1, 1, 0, 1]] * 3
    assert ids[2].tolist() == [[0, 1, 2, 3], [1, 1, 0, 1]]
    packed = pack([batch]).to_hf(packed=True)
    assert packed[0].tolist() == [[0, 1, 2, 3, 0, 1]], "text positions start anew by document"
    assert batch.to_hf(packed=True)[0].tolist() == [[0, 1, 2, 3], [0, 0, 0, 1]]
    assert Layout()(Audio([0.0, 0.5])).to_hf().dtype == torch.float32


class Samples(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return {"stream": Layout()(*ROWS[index]), "label": index}


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_collates_rows_of_any_length(workers):
    loader = DataLoader(Samples(), batch_size=2, num_workers=workers)
    for number, batch in enumerate(loader):
        assert batch["label"].tolist() == [2 * number, 2 * number + 1]
        wanted = pad([Layout()(*ROWS[2 * number + k]) for k in range(2)])
        for k in range(2):
            same(real(batch["stream"], k), real(wanted, k))


def test_copies_moves_and_trees():
    stream = Layout().batch(ROWS)
    for twin in (pickle.loads(pickle.dumps(stream)), copy.deepcopy(stream), stream.to("cpu")):
        for number in range(len(ROWS)):
            same(real(twin, number), real(stream, number))
    assert default_collate([stream, stream]).shape[0] == 10
    meta = stream.to("meta")
    assert {getattr(meta, f.name).device.type for f in dataclasses.fields(meta)} == {"meta"}
    leaves, tree = torch.utils._pytree.tree_flatten(stream)
    assert len(leaves) == 9
    again = torch.utils._pytree.tree_unflatten(leaves, tree)
    assert torch.equal(again.coords, stream.coords)


def test_more_of_another_kind_is_refused():
    stream = Layout()(Text(2))
    four = Layout(axes=4)(Text(2))
    for wrong in (
        lambda: pad([stream, four]),
        lambda: stream.join(four),
        lambda: Layout(axes=4).extend(stream, Text(1)),
        lambda: stream.join(stream.repeat(2)),
        lambda: pad([]),
        lambda: pad([stream], side="both"),
        lambda: stream.pad(1),
        lambda: stream.repeat(0),
    ):
        with pytest.raises(ValueError, match="must"):
            wrong()
