"""One sequence, however it is fed: whole, in steps, in chunks, padded, packed, cropped, dropped."""

import pytest
import torch
from every_encoding import DIM, ENCODINGS, HEADS, Case, positions
from torch import Tensor

import posenc_mm as pm

LENGTH = 11
every = pytest.mark.parametrize("case", ENCODINGS, ids=str)


def host(case: Case, causal: bool = True) -> pm.Transformer:
    slot = {case.kind: case.make()}
    return pm.Transformer(DIM, 2, HEADS, causal=causal, **slot).double().eval()


@pytest.fixture
def sample() -> Tensor:
    return torch.randn(2, LENGTH, DIM, dtype=torch.float64)


def close(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, rtol=0, atol=1e-10)


@every
@pytest.mark.parametrize("cuts", [[7] + [1] * 4, [4, 4, 3], [1] * LENGTH], ids=str)
def test_prefill_decode_and_chunks_equal_the_whole(case: Case, cuts: list[int], sample: Tensor):
    model, at = host(case), positions(LENGTH, case.axes).double()
    cache, start, pieces = pm.KVCache(), 0, []
    for size in cuts:
        rows = slice(start, start + size)
        pieces.append(model(sample[:, rows], at[rows], cache=cache))
        start += size
    assert len(cache) == LENGTH
    assert close(torch.cat(pieces, dim=1), model(sample, at))


@every
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(case: Case, causal: bool, side: str, sample: Tensor):
    """A batch of a padded row and a full one; the pads are large numbers at odd positions."""
    model, at = host(case, causal), positions(LENGTH, case.axes).double()
    real = 7
    pads = LENGTH - real
    rows = torch.stack((sample[0, :real], sample[1, :real]))
    alone = model(rows, at[:real])
    whole = model(sample[1:], at)
    filler = torch.full((pads, DIM), 1e3, dtype=torch.float64)
    nowhere = at[3].expand(pads, -1)
    order = (filler, rows[0]) if side == "left" else (rows[0], filler)
    order_at = (nowhere, at[:real]) if side == "left" else (at[:real], nowhere)
    mask = torch.ones(2, LENGTH, dtype=torch.bool)
    mask[0, :pads] = False
    mask[0] = mask[0] if side == "left" else mask[0].flip(0)
    batch = torch.stack((torch.cat(order), sample[1]))
    result = model(batch, torch.stack((torch.cat(order_at), at)), key_mask=mask)
    assert close(result[0][mask[0]], alone[0])
    assert close(result[1], whole[0])
    assert result.isfinite().all()


@every
def test_left_padded_rows_decode_as_if_alone(case: Case, sample: Tensor):
    """Row 0 has 6 real tokens before decoding, row 1 has 9; both decode two more."""
    model, at = host(case), positions(LENGTH, case.axes).double()
    lengths, prompt = (6, 9), 9
    wanted = [model(sample[i : i + 1, : n + 2], at[: n + 2])[0, n:] for i, n in enumerate(lengths)]
    tokens = torch.zeros(2, prompt, DIM, dtype=torch.float64)
    where = at[:1].expand(2, prompt, -1).clone()
    mask = torch.zeros(2, prompt, dtype=torch.bool)
    for i, n in enumerate(lengths):
        tokens[i, prompt - n :], where[i, prompt - n :] = sample[i, :n], at[:n]
        mask[i, prompt - n :] = True
    cache = pm.KVCache()
    model(tokens, where, key_mask=mask, cache=cache)
    for step in range(2):
        rows = torch.tensor([n + step for n in lengths])
        new = torch.stack([sample[i, n] for i, n in enumerate(rows)]).unsqueeze(1)
        result = model(new, at[rows].unsqueeze(1), cache=cache)
        for i in range(2):
            assert close(result[i, 0], wanted[i][step])


@every
@pytest.mark.parametrize("causal", [True, False])
def test_packed_documents_do_not_see_each_other(case: Case, causal: bool, sample: Tensor):
    """Five documents in one row, one of length 1 and one empty."""
    model, at = host(case, causal), positions(LENGTH, case.axes).double()
    cumulative = torch.tensor([0, 5, 8, 9, 9, 11])
    inside = pm.packed(cumulative).squeeze(-1)
    result = model(sample, at[inside], segments=pm.segments(cumulative))
    for first, last in zip(cumulative[:-1].tolist(), cumulative[1:].tolist(), strict=True):
        if last > first:
            alone = model(sample[:, first:last], at[: last - first])
            assert close(result[:, first:last], alone)


@every
def test_without_a_causal_rule_the_order_of_rows_does_not_matter(case: Case, sample: Tensor):
    """Positions say where a token is, not its row: shuffled rows give shuffled results."""
    model, at = host(case, causal=False), positions(LENGTH, case.axes).double()
    order = torch.randperm(LENGTH)
    assert close(model(sample[:, order], at[order]), model(sample, at)[:, order])


@every
def test_dropped_tokens_keep_their_positions(case: Case, sample: Tensor):
    """Different rows per sample, unsorted; the reference encodes all, then removes the rest."""
    model, at = host(case, causal=False), positions(LENGTH, case.axes).double()
    kept = torch.stack([torch.randperm(LENGTH)[:6] for _ in range(2)])
    index = kept.unsqueeze(-1).expand(-1, -1, DIM)
    result = model(sample.gather(1, index), pm.keep(at, kept))
    for i in range(2):
        mask = torch.zeros(1, LENGTH, dtype=torch.bool)
        mask[0, kept[i]] = True
        wanted = model(sample[i : i + 1], at, key_mask=mask)[0, kept[i]]
        assert close(result[i], wanted)


RELATIVE = [c for c in ENCODINGS if c.kind != "additive"]


@pytest.mark.parametrize("case", RELATIVE, ids=str)
def test_relative_encodings_do_not_move_with_the_sequence(case: Case, sample: Tensor):
    model, at = host(case), positions(LENGTH, case.axes).double()
    shift = torch.tensor([1000.0, -7.0, 30.0], dtype=torch.float64)[: case.axes]
    assert close(model(sample, at + shift), model(sample, at))


@pytest.mark.parametrize("case", ENCODINGS, ids=str)
def test_positions_matter(case: Case, sample: Tensor):
    """The equalities above would hold for an encoding that does nothing."""
    model, at = host(case, causal=False), positions(LENGTH, case.axes).double()
    with torch.no_grad():
        for parameter in getattr(model, case.kind).parameters():
            parameter.normal_()
    at = (case.spread * at).floor() if case.whole else case.spread * at
    assert not torch.allclose(model(sample, at), model(sample, at.roll(3, 0)), atol=1e-4)
