"""Corners of the library that laws and oracles do not reach."""

import pytest
import torch

import posenc_mm as pm
from posenc_mm.tables import lookup


def test_queries_outside_the_key_rows_belong_to_no_document():
    """Two queries stand before the first key: with documents they see nothing, not the first."""
    q, k = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 5, 8)
    documents = torch.tensor([0, 0, 1, 1, 1])
    result = pm.attend(q, k, k, segments=documents, q_start=-2)
    assert torch.equal(result[:, :, :2], torch.zeros(2, 3, 2, 8))
    inside = pm.attend(q[:, :, 2:], k[:, :, :2], k[:, :, :2])
    torch.testing.assert_close(result[:, :, 2:], inside)


@pytest.mark.parametrize("per_head", [False, True])
def test_kept_rows_of_another_batch_are_refused(per_head: bool):
    encoding = pm.MixedRotary(8, 3, axes=1) if per_head else pm.Rotary(8)
    rotation = encoding(torch.stack([pm.sequence(5)] * 2))
    with pytest.raises(ValueError, match="2 samples, got 3"):
        rotation.keep(torch.zeros(3, 4, dtype=torch.int64))


@pytest.mark.parametrize("row", [-1, 6])
def test_a_compiled_table_asserts_its_range(row: int):
    torch._dynamo.reset()
    compiled = torch.compile(pm.Learned(4, 6), backend="eager", fullgraph=True)
    assert compiled(torch.tensor([[0], [5]])).shape == (2, 4)
    with pytest.raises(RuntimeError, match="positions of a Learned"):
        compiled(torch.tensor([[0], [row]]))


@pytest.mark.parametrize(
    "encoding",
    [
        pm.Learned(8, (3, 4)),
        pm.Learned(8, (3, 4), joint=False),
        pm.LearnedFourier(8, axes=2),
        pm.MixedRotary(8, 3),
        pm.LearnedALiBi(3),
        pm.T5Bias(3),
        pm.RelativeBias(3, 7),
    ],
    ids=lambda encoding: type(encoding).__name__,
)
def test_reset_draws_every_parameter_anew(encoding):
    torch.manual_seed(1)
    encoding.reset_parameters()
    first = [parameter.detach().clone() for parameter in encoding.parameters()]
    with torch.no_grad():
        for parameter in encoding.parameters():
            parameter.fill_(100.0)
    torch.manual_seed(1)
    encoding.reset_parameters()
    for again, before in zip(encoding.parameters(), first, strict=True):
        assert torch.equal(again, before)
        assert before.abs().max() < 50


@pytest.mark.parametrize("cell", [[-1, 0], [0, -1], [3, 0], [0, 4]])
def test_a_table_has_no_entry_outside_even_unchecked(cell: list[int]):
    """Some compilers drop assertions: then the row itself must not exist."""
    with pytest.raises(IndexError):
        lookup(torch.zeros(3, 4, 2), torch.tensor([cell]))


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_a_rotation_that_something_cast_still_turns_in_float32(layout: str):
    x = torch.randn(2, 3, 9, 8).bfloat16()
    rotation = pm.Rotary(8, layout=layout)(pm.sequence(9))
    cast = rotation._replace(cos=rotation.cos.bfloat16(), sin=rotation.sin.bfloat16())
    lifted = cast._replace(cos=cast.cos.float(), sin=cast.sin.float())
    wanted = pm.rotate(x.float(), lifted).bfloat16()
    assert torch.equal(pm.rotate(x, cast), wanted)
