"""Encodings by themselves: a piece, a padded row, a document are encoded as if alone."""

import oracles
import pytest
import torch
from every_encoding import DIM, ENCODINGS, HEAD_DIM, HEADS, Case, positions
from torch import Tensor, nn

import posenc_mm as pm

every = pytest.mark.parametrize("case", ENCODINGS, ids=str)
PACKED = [0, 20, 32, 33, 33, 40]  # among the documents one of a single token and an empty one


def made(case: Case) -> nn.Module:
    """With numbers that matter, where there are any to learn."""
    module = case.make().double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.3)
    return module


def queries(batch: int, length: int) -> Tensor:
    return torch.randn(batch, HEADS, length, HEAD_DIM, dtype=torch.float64)


def encoded(module: nn.Module, q: Tensor, at: Tensor, keys: tuple[Tensor, Tensor]) -> Tensor:
    """What is added, what queries turn into, or the bias: ``(..., N, *)``."""
    if isinstance(module, pm.AdditiveEncoding):
        return module(at)
    if isinstance(module, pm.RotaryEncoding):
        return pm.rotate(q, module(at))
    said = module(at, keys[1])
    return said.logits(q, keys[0]) if isinstance(said, pm.Contextual) else said


def block(encodes: Tensor, module: nn.Module, rows: slice) -> Tensor:
    """Rows of tokens, and of a bias the columns of the same tokens too."""
    mutual = not isinstance(module, (pm.AdditiveEncoding, pm.RotaryEncoding))
    return encodes[..., rows, rows] if mutual else encodes[..., rows, :]


def same(found: Tensor, wanted: Tensor) -> None:
    assert found.isfinite().all()
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


@every
def test_pieces_at_their_positions_are_rows_of_the_whole(case: Case):
    """One instance, steps and chunks, then again from earlier on: no call leaves anything."""
    module, q, at = made(case), queries(2, 12), positions(12, case.axes).double()
    keys = (queries(2, 12), at)
    whole = encoded(module, q, at, keys)
    steps = [(start, 1) for start in range(12)]
    for start, length in [*steps, (0, 4), (4, 4), (8, 4), (3, 1), (0, 12)]:
        rows = slice(start, start + length)
        same(encoded(module, q[:, :, rows], at[rows], keys), whole[..., rows, :])


@every
def test_real_tokens_of_a_padded_row_are_encoded_as_alone(case: Case):
    """Four tokens behind three of padding, beside a whole row of seven."""
    mask = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [1] * 7]).bool()
    places = pm.from_mask(mask)
    assert places.squeeze(-1).tolist() == [[0, 0, 0, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5, 6]]
    module, q, at = made(case), queries(2, 7), positions(7, case.axes).double()
    where = at[places.squeeze(-1)]
    both = encoded(module, q, where, (q, where))
    for row, real in ((0, slice(3, 7)), (1, slice(0, 7))):
        alone, short = q[[row]][:, :, real], at[: real.stop - real.start]
        wanted = encoded(module, alone, short, (alone, short))
        same(block(both[[row]], module, real), wanted.expand_as(block(both[[row]], module, real)))


@every
def test_documents_of_a_packed_row_are_encoded_as_alone(case: Case):
    """The second is the first one's first 12 tokens again, and is encoded the same."""
    module, q, at = made(case), queries(2, 40), positions(20, case.axes).double()
    q[:, :, 20:32] = q[:, :, :12]
    where = at[pm.packed(torch.tensor(PACKED)).squeeze(-1)]
    row = encoded(module, q, where, (q, where))
    same(block(row, module, slice(20, 32)), block(row, module, slice(0, 12)))
    for start, stop in zip(PACKED, PACKED[1:], strict=False):
        alone, short = q[:, :, start:stop], at[: stop - start]
        found = block(row, module, slice(start, stop))
        same(found, encoded(module, alone, short, (alone, short)))


CALLS = {
    "long at once": [range(50)],
    "longer and longer": [range(8), range(17), range(50)],
    "a late step": [[49]],
    "scattered": [[0, 15, 16, 49]],
    "sixteen and one more": [range(16), range(17)],
}


@pytest.mark.parametrize("calls", CALLS.values(), ids=CALLS)
def test_nothing_fixed_has_a_longest_sequence(calls: list):
    """A table made for 16 positions would end, be clamped or start again somewhere here."""
    turning, added, biased = pm.Rotary(HEAD_DIM), pm.Sinusoidal(DIM), pm.ALiBi(HEADS)
    buckets = pm.T5Bias(HEADS, bidirectional=False).double()
    for call in calls:
        rows = [[float(place)] for place in call]
        at, near = torch.tensor(rows).long(), {"rtol": 0, "atol": 1e-5}
        theta = oracles.turning_angles(rows, oracles.rope_matrix(HEAD_DIM))
        rotation = turning(at)
        torch.testing.assert_close(rotation.cos.double(), theta.cos(), **near)
        torch.testing.assert_close(rotation.sin.double(), theta.sin(), **near)
        torch.testing.assert_close(added(at).double(), oracles.sinusoid(rows, DIM), **near)
        wanted = oracles.alibi(rows, rows, oracles.alibi_slopes(HEADS))
        torch.testing.assert_close(biased(at, at).double(), wanted, **near)
        places = at.flatten().tolist()
        wanted = oracles.t5(places, places, buckets.weight.detach(), bidirectional=False)
        assert torch.equal(buckets(at, at), wanted)
