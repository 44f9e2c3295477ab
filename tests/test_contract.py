"""What every encoding keeps to, over the list of all of them."""

import copy
import io
import pickle

import pytest
import torch
from every_encoding import DIM, ENCODINGS, HEADS, Applied, Case, compared, positions, tokens
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounter

import posenc_mm as pm

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
every = pytest.mark.parametrize("case", ENCODINGS, ids=str)


def outputs(module: nn.Module, at: Tensor) -> tuple[Tensor, ...]:
    """What an encoding itself returns, before a host applies it."""
    if isinstance(module, pm.RotaryEncoding):
        rotation = module(at)
        return rotation.cos, rotation.sin
    if isinstance(module, (pm.AttentionBias, pm.ContextualBias)):
        return (compared(module, at[..., -3:, :], at),)
    return (module(at),)


def assert_same(a: tuple[Tensor, ...], b: tuple[Tensor, ...]) -> None:
    for left, right in zip(a, b, strict=True):
        assert left.dtype == right.dtype
        assert torch.equal(left, right)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@every
def test_a_host_of_any_dtype_gets_its_dtype_back_near_float64(case: Case, dtype: torch.dtype):
    """Reference: the same module and input, in float64 throughout."""
    module = Applied(case.make())
    at = positions(11, case.axes)
    x = tokens(2, 11, dtype)
    exact = copy.deepcopy(module).double()(x.double(), at.double())
    result = module(x, at)
    tolerance = {torch.float64: 1e-6, torch.float32: 1e-5}.get(dtype, 8 * torch.finfo(dtype).eps)
    assert result.dtype == dtype
    assert (result.double() - exact).abs().max() <= tolerance * exact.abs().max()


@every
def test_float64_positions_give_float64_results(case: Case):
    module, at = case.make().double(), positions(7, case.axes)
    exact = outputs(module, at.double())
    for mine, single in zip(
        exact, outputs(module, at if case.moments else at.float()), strict=True
    ):
        assert mine.dtype == torch.float64
        assert torch.allclose(mine, single.double(), rtol=0, atol=1e-6)


@every
def test_autocast_changes_no_bit_unless_a_network_learns(case: Case):
    module, at = case.make(), positions(9, case.axes)
    plain = outputs(module, at)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = outputs(module, at)
    multiplied = ("contextual", "decomposed", "shaw", "transformer-xl", "deberta")
    if case.name in ("learned fourier", "projected") or case.name.startswith(multiplied):
        assert torch.allclose(plain[0], cast[0].float(), atol=0.02)
    else:
        assert_same(plain, cast)


@pytest.mark.parametrize("cast", ["half", "bfloat16", "double", "there_and_back"])
@every
def test_casting_the_module_leaves_fixed_encodings_as_they_were(case: Case, cast: str):
    module, at = case.make(), positions(9, case.axes)
    plain = outputs(module, at)
    shadow = copy.deepcopy(module)
    shadow = shadow.bfloat16().float() if cast == "there_and_back" else getattr(shadow, cast)()
    if not case.learned:
        assert_same(plain, outputs(shadow, at))
        return
    rounded = copy.deepcopy(module)
    with torch.no_grad():
        for mine, theirs in zip(rounded.parameters(), shadow.parameters(), strict=True):
            mine.copy_(theirs.float())
    for a, b in zip(outputs(rounded, at), outputs(shadow, at), strict=True):
        assert torch.allclose(a, b.float(), atol=2e-2 if b.dtype.itemsize == 2 else 1e-6)


@every
def test_meta_construction_then_strict_load_equals_a_normal_twin(case: Case):
    twin, at = case.make(), positions(9, case.axes)
    with torch.device("meta"):
        module = case.make()
    module = module.to_empty(device="cpu")
    for buffer in module.buffers():
        buffer.fill_(torch.nan)
    module.load_state_dict(twin.state_dict(), strict=True)
    assert_same(outputs(module, at), outputs(twin, at))


@every
def test_copies_are_equal_and_apart(case: Case):
    module, at = case.make(), positions(9, case.axes)
    before = outputs(module, at)
    saved = io.BytesIO()
    torch.save(module, saved)
    saved.seek(0)
    copies = [
        copy.deepcopy(module),
        pickle.loads(pickle.dumps(module)),
        torch.load(saved, weights_only=False),
    ]
    for twin in copies:
        assert_same(outputs(twin, at), before)
        assert repr(twin) == repr(module)
        with torch.no_grad():
            for parameter in twin.parameters():
                parameter.add_(1.0)
        assert_same(outputs(module, at), before)


@every
def test_state_holds_parameters_only_and_no_call_changes_it(case: Case):
    module = case.make()
    state = {name: value.shape for name, value in module.state_dict().items()}
    assert bool(state) is case.learned
    assert not list(module.buffers())
    for length in (3, 30, 5):
        outputs(module, positions(length, case.axes))
    assert {name: value.shape for name, value in module.state_dict().items()} == state
    case.make().load_state_dict(module.state_dict(), strict=True)


@every
def test_the_repr_names_every_argument_and_tells_encodings_apart(case: Case):
    text = repr(case.make())
    assert text.startswith(type(case.make()).__name__)
    same = [other.name for other in ENCODINGS if repr(other.make()) == text]
    assert same == [case.name]


@every
def test_the_order_of_calls_does_not_matter(case: Case):
    module = case.make()
    used = copy.deepcopy(module)
    for length, offset in ((12, 0), (1, 7), (4, 8), (30, 0)):
        outputs(used, positions(length, case.axes, offset))
    at = positions(6, case.axes, 3)
    assert_same(outputs(used, at), outputs(module, at))


@every
def test_empty_sequences_and_batches_give_empty_results(case: Case):
    module = Applied(case.make())
    for batch, length in ((2, 0), (0, 4), (0, 0)):
        x = tokens(batch, length).requires_grad_()
        at = positions(length, case.axes)
        result = module(x, at)
        wanted = (batch, length, DIM) if case.kind == "additive" else x.shape
        assert result.shape == wanted
        result.sum().backward()
        assert x.grad is not None and x.grad.shape == x.shape


@every
def test_gradients_reach_every_parameter_and_the_input(case: Case):
    module = Applied(case.make()).double()
    x = tokens(2, 7, torch.float64).requires_grad_()
    at = positions(7, case.axes).double()
    weight = torch.linspace(-1, 2, module(x, at).numel(), dtype=torch.float64)
    (module(x, at).flatten() * weight).sum().backward()
    assert x.grad is not None and x.grad.abs().max() > 0
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, name
        assert parameter.grad.isfinite().all(), name


@every
def test_per_sample_positions_equal_one_sample_at_a_time(case: Case):
    """With as many samples as heads, where shapes alone could not tell them apart."""
    module = Applied(case.make()).double()
    at = torch.stack([positions(5, case.axes, 2 * i) for i in range(HEADS)]).double()
    x = tokens(HEADS, 5, torch.float64)
    apart = [module(x[i : i + 1], at[i]) for i in range(HEADS)]
    assert torch.allclose(module(x, at), torch.cat(apart), atol=1e-12)


@every
def test_positions_of_another_kind_are_refused(case: Case):
    module = case.make()
    for wrong in {case.axes + 1, max(case.axes - 1, 1)} - {case.axes}:
        if not case.any_axes:
            with pytest.raises(ValueError, match="axes"):
                outputs(module, positions(5, wrong))
    with pytest.raises(ValueError, match="positions"):
        outputs(module, positions(5, case.axes) > 2)


@every
def test_compiles_whole_and_not_once_per_length(case: Case):
    torch._dynamo.reset()
    counter = CompileCounter()
    module = Applied(case.make())
    compiled = torch.compile(module, backend=counter, fullgraph=True)
    for length in range(4, 33, 4):
        x, at = tokens(2, length), positions(length, case.axes)
        assert torch.allclose(compiled(x, at), module(x, at), atol=1e-6)
    assert counter.frame_count <= 2


@every
def test_lengths_offsets_and_batches_share_two_graphs(case: Case):
    """One of single tokens, for which torch has rules of its own, and one of all other lengths.

    None that changes is as large as another at first: torch would take both for the same.
    """
    torch._dynamo.reset()
    counter = CompileCounter()
    module = Applied(case.make())
    compiled = torch.compile(module, backend=counter, fullgraph=True, dynamic=True)
    for batch, length, offset in ((5, 7, 0), (6, 20, 9), (7, 1, 32), (5, 2, 3), (6, 1, 36)):
        x, at = tokens(batch, length), positions(length, case.axes, offset)
        assert torch.allclose(compiled(x, at), module(x, at), atol=1e-6)
    assert counter.frame_count <= 2


@every
def test_exports_with_a_dynamic_length_and_real_numbers(case: Case):
    module = Applied(case.make()).eval()
    length = torch.export.Dim("length", min=2, max=60)
    at = positions(12, case.axes)
    program = torch.export.export(
        module, (tokens(1, 12), at), dynamic_shapes=({2: length}, {0: length}), strict=True
    )
    for node in program.graph.nodes:
        values = node.meta.get("val")
        for value in values if isinstance(values, (tuple, list)) else [values]:
            assert not (isinstance(value, Tensor) and value.is_complex())
    for size in (12, 31):
        x, at = tokens(1, size), positions(size, case.axes)
        assert torch.allclose(program.module()(x, at), module(x, at), atol=1e-5)
