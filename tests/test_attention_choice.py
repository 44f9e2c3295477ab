"""Which way attention is computed, what is said of it, and what a compiler makes of it."""

import pytest
import torch
from every_encoding import ENCODINGS, HEADS, Applied, Case
from torch import Tensor
from torch._dynamo.testing import CompileCounter
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.func import functional_call
from torch.fx.experimental import _config as config

import posenc_mm as pm
from posenc_mm.attention import BACKENDS, attend, explain

LONG = 1500
Q = torch.zeros(1, 2, LONG, 4)
AT = pm.sequence(LONG)
GAPS = AT * AT
ASK = {"causal": True, "q_positions": AT}
REAL = torch.ones(1, LONG, dtype=torch.bool)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


@pytest.mark.parametrize(
    ("options", "backend"),
    [
        ({"causal": True}, "sdpa"),
        ({}, "sdpa"),
        (ASK | {"bias": pm.ALiBi(2)}, "blocks"),
        (ASK | {"bias": pm.ALiBi(2), "q_positions": GAPS}, "factors"),
        (ASK | {"bias": pm.LearnedALiBi(2)}, "factors"),
        (ASK | {"bias": pm.ALiBi(2), "key_mask": REAL}, "blocks"),
        (ASK | {"bias": pm.ALiBi(2), "key_mask": REAL, "q_positions": GAPS}, "factors"),
        ({"causal": True, "key_mask": REAL}, "factors"),
        ({"key_mask": REAL}, "dense"),
        (ASK | {"bias": pm.T5Bias(2)}, "blocks"),
        ({"bias": pm.T5Bias(2), "q_positions": GAPS}, "blocks"),
        ({"causal": True, "window": 7}, "blocks"),
        ({"causal": True, "segments": AT[:, 0] // 9}, "blocks"),
        ({"bias": pm.ShawBias(2, 4, 7), "q_positions": AT}, "blocks"),
        ({"bias": torch.zeros(LONG, LONG)}, "dense"),
        (ASK | {"bias": pm.ERPE(2, 5)}, "blocks"),
    ],
)
def test_the_leanest_way_is_picked_and_the_others_are_explained(options, backend):
    choice = explain(Q, Q, Q, **options)
    assert choice.backend == backend
    assert choice.reason and not choice.reason.endswith(".")
    assert set(choice.refused) == {"sdpa", "factors", "blocks", "flex"} - {backend}
    assert all(why[0].isupper() and 10 < len(why) < 140 for why in choice.refused.values())


def test_a_few_pairs_get_a_mask_whatever_the_bias():
    q, at = Q[:, :, :50], AT[:50]
    choice = explain(q, q, q, bias=pm.T5Bias(2), q_positions=at, causal=True)
    assert choice.backend == "dense" and "5000 pairs" not in choice.reason
    assert choice.refused["blocks"] == choice.reason
    assert "not a product" in choice.refused["factors"]


@pytest.mark.parametrize(
    ("backend", "options", "words"),
    [
        ("sdpa", ASK | {"bias": pm.ALiBi(2)}, "takes no bias"),
        ("sdpa", {"window": 3, "key_mask": REAL}, "no key_mask or window"),
        ("factors", ASK | {"bias": pm.T5Bias(2)}, "not a product of few numbers"),
        ("factors", ASK | {"bias": pm.ALiBi(2), "window": 3}, "no room for window"),
        ("factors", {"bias": pm.ALiBi(2), "q_positions": AT}, "only under a causal rule"),
        ("factors", ASK | {"bias": torch.zeros(LONG, LONG)}, "give the module"),
        ("factors", {"causal": True}, "nothing to fold"),
        ("blocks", {"bias": pm.ShawBias(2, 4, 7)(AT[:9], AT[:9])}, "give the module"),
        ("flex", {"bias": pm.ShawBias(2, 4, 7), "q_positions": AT}, "what tokens hold"),
        (
            "flex",
            ASK | {"bias": pm.RelativeBias(2, (3, 2)), "q_positions": pm.grid(750, 2)},
            "axes",
        ),
        ("flex", ASK | {"bias": pm.ERPE(2, 5)}, "after the softmax"),
    ],
)
def test_a_way_that_cannot_do_it_says_why(backend, options, words):
    if words == "axes":
        words = "has no score_mod"
    with pytest.raises(ValueError, match=words) as caught:
        attend(Q, Q, Q, backend=backend, **options)
    assert f"backend='{backend}'" in str(caught.value)


def test_flex_says_that_it_has_no_backward_on_a_cpu():
    q = Q.clone().requires_grad_()
    with pytest.raises(ValueError, match="backward.*blocks"):
        attend(q, q, q, bias=pm.ALiBi(2), backend="flex", **ASK)


def test_elsewhere_than_on_a_cpu_nothing_new_is_picked():
    """Nothing was measured there; what is asked for is still done."""
    q, at = Q.to("meta"), AT.to("meta")
    options = {"bias": pm.ALiBi(2), "q_positions": at, "causal": True}
    choice = explain(q, q, q, **options)
    assert choice.backend == "dense" and "meta" in choice.reason
    assert "ordered=True" in choice.refused["factors"]
    assert attend(q, q, q, ordered=True, backend="factors", **options).shape == q.shape


def test_what_forces_is_refused_by_name():
    with pytest.raises(ValueError, match="fastest"):
        explain(Q, Q, Q, backend="fastest")
    assert BACKENDS == ("auto", "sdpa", "factors", "blocks", "flex", "dense")


# ------------------------------------------------------------ a host of layers


@pytest.mark.parametrize("name", ["alibi", "learned alibi", "t5", "erpe", "shaw"])
def test_a_transformer_of_long_rows_equals_one_with_masks(name, monkeypatch):
    """Each layer gets the module where that is leaner, else numbers that were evaluated once."""
    from posenc_mm.attention import choosing, surveying

    torch.manual_seed(0)
    bias = next(case for case in ENCODINGS if case.name == name).make()
    model = pm.Transformer(24, depth=2, heads=HEADS, kv_heads=1, bias=bias, causal=True).double()
    x, real = torch.randn(2, 40, 24).double(), torch.rand(2, 40) > 0.3
    at = pm.from_mask(real)
    weight = torch.randn(2, 40, 24).double()
    calls, found = [], []
    model.bias.register_forward_hook(lambda *_: calls.append(1))
    for worth in (2**40, 0):
        for module in (choosing, surveying):
            monkeypatch.setattr(module, "WORTH", worth)
        calls.clear()
        out = model(x, at, key_mask=real)
        assert len(calls) == 1 or worth == 0
        found.append((out, torch.autograd.grad((out * weight).sum(), list(model.parameters()))))
    assert len(calls) != 1
    assert torch.allclose(found[0][0], found[1][0], atol=1e-8)
    for one, other in zip(found[0][1], found[1][1], strict=True):
        assert torch.allclose(one, other, atol=1e-7)


# ------------------------------------------------------------ devices and compilers


@pytest.mark.parametrize("case", ENCODINGS, ids=str)
def test_no_forward_waits_for_a_device(case: Case):
    """Tensors without numbers on a device that is not there: reading one back is an error."""
    with torch.device("meta"):
        module = Applied(case.make())
    is_bias = case.kind == "bias"
    kinds = {name: (value.shape, value.dtype) for name, value in module.named_parameters()}
    with FakeTensorMode(), torch.device("cuda"):
        values = {name: torch.empty(shape, dtype=dtype) for name, (shape, dtype) in kinds.items()}
        x, at = torch.empty(2, HEADS, 9, 8), torch.empty(9, case.axes, dtype=torch.long)
        assert functional_call(module, values, (x, at)).device.type == "cuda"
        if is_bias:
            masks = {
                "key_mask": torch.empty(2, 9, dtype=torch.bool),
                "segments": torch.empty(9, dtype=torch.long),
                "q_start": torch.empty(2, dtype=torch.long),
            }
            bias = functional_call(module.encoding, values_of(values), (at, at))
            slot = "after" if module.encoding.after_softmax else "bias"
            attend(x, x, x, **{slot: bias}, causal=True, window=3, **masks)


def values_of(values):
    return {name.removeprefix("encoding."): value for name, value in values.items()}


def test_reading_back_would_be_noticed():
    with FakeTensorMode(), torch.device("cuda"), pytest.raises(DataDependentOutputException):
        bool(torch.ones(3).all())


SIZES = ((64, 2, 0), (7, 3, 0), (300, 2, 10**6), (1, 2, 900), (2, 4, 5), (1500, 2, 0), (1, 3, 4095))


@pytest.mark.parametrize("ordered", [None, True])
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("name", ["alibi", "learned alibi", "t5", "relative", "bias sum"])
def test_lengths_offsets_and_batches_share_two_graphs(name, ordered, single):
    """One graph for one token, one for all other lengths: torch has a rule of its own for 1.

    Without that rule single samples share them, too.
    """
    bias = next(case for case in ENCODINGS if case.name == name).make()
    counter = CompileCounter()

    def of(x, at):
        return attend(x, x, x, bias=bias, q_positions=at, causal=True, ordered=ordered)

    compiled = torch.compile(of, backend=counter, fullgraph=True, dynamic=True)
    sizes = (*SIZES, (50, 1, 9), (1, 1, 70)) if single else SIZES
    for length, batch, offset in sizes:
        x, at = torch.randn(batch, HEADS, length, 8), pm.sequence(length, offset=offset)
        with torch.no_grad(), config.patch(backed_size_oblivious=single):
            assert torch.allclose(compiled(x, at), of(x, at), atol=1e-5)
    assert counter.frame_count <= 2


def test_a_promise_folds_in_a_compiled_and_in_an_exported_graph():
    bias = pm.LearnedALiBi(2)

    class Ours(torch.nn.Module):
        def forward(self, x, at):
            return attend(x, x, x, bias=bias, q_positions=at, causal=True, ordered=True)

    length = torch.export.Dim("length", min=2, max=4096)
    shapes = ({2: length}, {0: length})
    program = torch.export.export(
        Ours(), (torch.zeros(1, 2, 30, 4), AT[:30]), dynamic_shapes=shapes
    )
    values = [node.meta.get("val") for node in program.graph.nodes]
    widths = {value.shape[-1] for value in values if isinstance(value, Tensor) and value.ndim == 4}
    assert 8 in widths  # 4 channels and those of the bias, up to a multiple of 8
    x = torch.randn(1, 2, 77, 4)
    expected = attend(x, x, x, bias=bias, q_positions=AT[:77], causal=True, backend="dense")
    assert torch.allclose(program.module()(x, AT[:77]), expected, atol=1e-5)
