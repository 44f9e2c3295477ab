"""Conditional encodings: a convolution over whichever tokens are there, and their contract."""

import copy
import io
import pickle
import warnings

import oracles_grid as oracles
import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch.nn import functional

import posenc_mm as pm

DIM = 6
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
CASES = {
    "peg": lambda: pm.Conditional(DIM),
    "peg 1-D": lambda: pm.Conditional(DIM, 1, kernel=5),
    "peg 3-D": lambda: pm.Conditional(DIM, 3),
}
SIZES = {1: (15,), 2: (3, 5), 3: (2, 3, 2)}
OTHER = {1: (8,), 2: (6, 2), 3: (1, 4, 5)}
# Three axes are 27 times the same, and slow to compile and to differentiate twice.
few = pytest.mark.parametrize("make", [CASES["peg"], CASES["peg 1-D"]], ids=["peg", "peg 1-D"])
every = pytest.mark.parametrize("make", CASES.values(), ids=CASES)


def sample(encoding, batch=2, sizes=None, dtype=torch.float32):
    """Tokens, and the positions of a whole grid."""
    at = pm.grid(*(sizes or SIZES[encoding.axes]))
    generator = torch.Generator().manual_seed(len(at))
    return torch.randn(batch, len(at), DIM, generator=generator, dtype=torch.float64).to(dtype), at


class Host(nn.Module):
    def __init__(self, encoding):
        super().__init__()
        self.encoding = encoding

    def forward(self, tokens, at):
        return tokens + self.encoding(tokens, at)


# ------------------------------------------------------------ values


@every
def test_it_is_the_published_convolution_wherever_tokens_are(make):
    """Scattered, unsorted, negative and far apart, others per sample."""
    encoding = make().double()
    x, _ = sample(encoding, sizes=(9, 1, 1)[: encoding.axes], dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    cells = pm.grid(*[4] * encoding.axes) - 2 if encoding.axes > 1 else pm.sequence(20) - 9
    kept = [cells[torch.randperm(len(cells), generator=generator)[:9]] for _ in range(2)]
    kept[1] = kept[1] + 200_000
    got = encoding(x, torch.stack(kept))
    for b in range(2):
        expected = oracles.depthwise(
            x[b], kept[b], encoding.weight.detach(), encoding.bias.detach()
        )
        torch.testing.assert_close(got[b].detach(), expected, rtol=0, atol=1e-12)


@every
def test_on_a_whole_grid_it_is_torchs_depthwise_convolution(make):
    encoding = make().double()
    convolve = (functional.conv1d, functional.conv2d, functional.conv3d)[encoding.axes - 1]
    for sizes in (SIZES[encoding.axes], OTHER[encoding.axes]):
        x, at = sample(encoding, sizes=sizes, dtype=torch.float64)
        map_ = x.mT.unflatten(-1, sizes)
        padding = encoding.kernel // 2
        expected = convolve(map_, encoding.weight, encoding.bias, padding=padding, groups=DIM)
        torch.testing.assert_close(encoding(x, at), expected.flatten(2).mT, rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [(3, 5), (7, 2), (1, 1)])
def test_on_a_whole_grid_it_is_timms_peg(size):
    twins = pytest.importorskip("timm.models.twins")
    theirs = twins.PosConv(DIM, DIM).double()
    encoding = pm.Conditional(DIM).double()
    encoding.load_state_dict(theirs.proj[0].state_dict())
    x, at = sample(encoding, sizes=size, dtype=torch.float64)
    expected = theirs(x.clone(), size)
    torch.testing.assert_close(x + encoding(x, at), expected, rtol=0, atol=1e-12)


def test_dropped_patches_are_holes_in_the_map():
    """As if they were zero and left out of what is read: no row takes another one's place."""
    encoding = pm.Conditional(DIM).double()
    x, at = sample(encoding, sizes=(5, 7), dtype=torch.float64)
    kept = torch.stack([torch.randperm(35)[:20] for _ in range(2)])
    index = kept.unsqueeze(-1).expand(-1, -1, DIM)
    got = encoding(x.gather(1, index), pm.keep(at, kept))
    holes = torch.zeros_like(x).scatter(1, index, x.gather(1, index))
    torch.testing.assert_close(got, encoding(holes, at).gather(1, index), rtol=0, atol=1e-12)
    whole = encoding(x, at).gather(1, index)
    assert (got - whole).abs().max() > 0.1


def test_the_order_of_tokens_and_where_counting_starts_do_not_matter():
    encoding = pm.Conditional(DIM).double()
    x, at = sample(encoding, dtype=torch.float64)
    order = torch.randperm(15)
    plain = encoding(x, at)
    torch.testing.assert_close(encoding(x[:, order], at[order]), plain[:, order])
    torch.testing.assert_close(encoding(x, at + torch.tensor([-70, 9])), plain)
    assert not torch.allclose(encoding(x, pm.grid(5, 3)), plain, atol=0.1)


def test_what_is_not_finite_stays_with_its_neighbours():
    encoding = pm.Conditional(DIM)
    x, at = sample(encoding)
    x[:, 0] = torch.nan
    broken = encoding(x, at).isnan().any(-1)
    assert broken.tolist() == [[r < 2 and c < 2 for r in range(3) for c in range(5)]] * 2


# ------------------------------------------------------------ contract


@every
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tokens_of_any_dtype_come_back_near_float64(make, dtype):
    encoding = make()
    x, at = sample(encoding, dtype=dtype)
    exact = copy.deepcopy(encoding).double()(x.double(), at.double())
    got = encoding(x, at)
    assert got.dtype == dtype
    tolerance = max(torch.finfo(dtype).eps, 1e-7)
    assert (got.double() - exact).abs().max() <= tolerance * exact.abs().max()


@every
def test_autocast_changes_no_bit_and_casts_round_weights_only(make):
    encoding = make()
    x, at = sample(encoding)
    plain = encoding(x, at)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(encoding(x, at), plain)
    cast = copy.deepcopy(encoding).bfloat16()
    rounded = make()
    rounded.load_state_dict(cast.state_dict())
    assert torch.equal(cast(x, at), rounded(x, at))


@every
def test_state_copies_and_construction_on_meta(make):
    encoding = make()
    x, at = sample(encoding)
    plain, saved = encoding(x, at), io.BytesIO()
    assert set(encoding.state_dict()) == {"weight", "bias"} and not list(encoding.buffers())
    with torch.device("meta"):
        empty = make()
    assert empty(x.to("meta"), at.to("meta")).shape == x.shape
    empty = empty.to_empty(device="cpu")
    empty.load_state_dict(encoding.state_dict(), strict=True)
    torch.save(encoding, saved)
    saved.seek(0)
    twins = [copy.deepcopy(encoding), pickle.loads(pickle.dumps(encoding)), empty]
    for twin in (*twins, torch.load(saved, weights_only=False)):
        assert torch.equal(twin(x, at), plain) and repr(twin) == repr(encoding)
        twin.reset_parameters()
        assert not torch.equal(twin(x, at), plain) and torch.equal(encoding(x, at), plain)
    with torch.no_grad():
        encoding.reset_parameters()
    bound = encoding.kernel ** (-encoding.axes / 2)
    assert 0.8 * bound < encoding.weight.abs().max() <= bound


@few
def test_empty_inputs_and_gradients(make):
    encoding = make().double()
    for batch, rows in ((2, 0), (0, 4), (0, 0), (1, 1)):
        x = torch.randn(batch, rows, DIM, dtype=torch.float64, requires_grad=True)
        at = torch.arange(rows)[:, None].expand(-1, encoding.axes)
        encoding(x, at).sum().backward()
        assert x.grad.shape == (batch, rows, DIM)
    x, at = sample(encoding, batch=1, sizes=(2, 2)[: encoding.axes], dtype=torch.float64)

    def call(x, weight, bias):
        state = {"weight": weight, "bias": bias}
        return torch.func.functional_call(encoding, state, (x, at))

    assert torch.autograd.gradcheck(call, (x.requires_grad_(), *encoding.parameters()))
    assert torch.autograd.gradgradcheck(call, (x, *encoding.parameters()))


@every
def test_samples_are_apart(make):
    encoding = make().double()
    x, at = sample(encoding, batch=DIM, dtype=torch.float64)
    each = torch.stack([at.roll(i, 0) for i in range(DIM)])
    apart = [encoding(x[i : i + 1], each[i]) for i in range(DIM)]
    torch.testing.assert_close(encoding(x, each), torch.cat(apart))
    torch.testing.assert_close(encoding(x, at[None]), encoding(x, at))


@few
def test_it_compiles_whole_and_exports_with_a_dynamic_length(make):
    torch._dynamo.reset()
    host, counter = Host(make()).eval(), CompileCounter()
    compiled = torch.compile(host, backend=counter, fullgraph=True)
    rest = (3,) * (host.encoding.axes - 1)
    for rows in (2, 5, 6, 9):
        x, at = sample(host.encoding, sizes=(rows, *rest))
        assert torch.equal(compiled(x, at), host(x, at))
    assert counter.frame_count <= 2
    length = torch.export.Dim("length", min=2, max=200)
    x, at = sample(host.encoding, batch=1, sizes=(4, *rest))
    dynamic = ({1: length}, {0: length})
    program = torch.export.export(host, (x, at), dynamic_shapes=dynamic, strict=True).module()
    for rows in (1 if rest else 2, 4, 17):
        x, at = sample(host.encoding, batch=1, sizes=(rows, *rest))
        torch.testing.assert_close(program(x, at), host(x, at), rtol=0, atol=1e-6)


def test_another_engine_runs_it_at_other_sizes(tmp_path):
    pytest.importorskip("onnxscript")
    onnxruntime = pytest.importorskip("onnxruntime")
    host, length = Host(pm.Conditional(DIM)).eval(), torch.export.Dim("length", min=2, max=200)
    x, at = sample(host.encoding)
    with warnings.catch_warnings():
        # The exporter warns of its own deprecations.
        warnings.simplefilter("ignore")
        dynamic = ({1: length}, {0: length})
        program = torch.onnx.export(
            host, (x, at), dynamic_shapes=dynamic, dynamo=True, verbose=False
        )
        program.save(tmp_path / "encoding.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "encoding.onnx")
    names = [given.name for given in session.get_inputs()]
    for sizes in ((3, 5), (6, 4)):
        x, at = sample(host.encoding, sizes=sizes)
        got = session.run(None, dict(zip(names, (x.numpy(), at.numpy()), strict=True)))[0]
        torch.testing.assert_close(torch.from_numpy(got), host(x, at), rtol=0, atol=1e-5)


# ------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("positions", "match"),
    [
        (pm.grid(2, 3), "shapes"),
        (pm.sequence(4), "axes"),
        (pm.grid(2, 2)[None].expand(3, -1, -1), "shapes"),
        (pm.grid(2, 2) > 0, "positions"),
        (pm.grid(2, 2) * 0.5, "whole"),
        (pm.grid(2, 2) * 0.0, "position of its own"),
        (torch.tensor([[0, 0], [0, 1], [1, 1], [0, 1]]), "position of its own"),
        (pm.grid(2, 2) + 10**6, "count cells"),
        (pm.grid(2, 2) * torch.nan, "Conditional"),
    ],
)
def test_positions_that_are_no_map_are_refused(positions, match):
    with pytest.raises(ValueError, match=match):
        pm.Conditional(DIM)(torch.zeros(2, 4, DIM), positions)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: pm.Conditional(0), "dim"),
        (lambda: pm.Conditional(4, 0), "axes"),
        (lambda: pm.Conditional(4, 4), "axes"),
        (lambda: pm.Conditional(4, kernel=2), "kernel"),
        (lambda: pm.Conditional(4, kernel=0), "kernel"),
        (lambda: pm.Conditional(4)(torch.zeros(2, 4, 3), pm.grid(2, 2)), "tokens"),
        (lambda: pm.Conditional(4)(torch.zeros(4, 4), pm.grid(2, 2)), "tokens"),
    ],
)
def test_conditional_refuses_what_does_not_fit(make, match):
    with pytest.raises(ValueError, match=match):
        make()
