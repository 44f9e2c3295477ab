"""Attention maps of models that are not ours: timm, transformers, torch; and what is refused."""

import oracles
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import posenc_mm as pm
from posenc_mm.diagnostics import attention_maps


def near(found, wanted, atol=3e-6):
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=atol)


def weights(q, k, bias=0.0, causal=False):
    """Softmax of all logits, in float64."""
    q, k = q.double(), k.double()
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    logits = q @ k.mT / q.shape[-1] ** 0.5 + bias
    if causal:
        hidden = torch.ones(logits.shape[-2:], dtype=torch.bool).triu(1)
        logits = logits.masked_fill(hidden, -torch.inf)
    return logits.softmax(-1)


def outputs(modules):
    """What each module gives, as it runs."""
    said = []
    for module in modules:
        module.register_forward_hook(lambda *given: said.append(given[2].detach()))
    return said


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "written out"])
@pytest.mark.parametrize("attached", [False, True], ids=["as it comes", "attached"])
def test_maps_of_timm(attached, fused):
    pytest.importorskip("timm")
    from timm_models import GRID, HEAD_DIM, HEADS, images, tiny

    from posenc_mm.timm import attach

    model = tiny("vit")
    if attached:
        attach(model, rotary=pm.Rotary(HEAD_DIM, axes=2, base=50.0), bias=pm.ALiBi(HEADS))
    for block in model.blocks:
        block.attn.fused_attn = fused
    said = outputs([block.attn.qkv for block in model.blocks])
    maps = attention_maps(model, images(2))
    assert [m.layer for m in maps] == ["blocks.0.attn", "blocks.1.attn", "blocks.2.attn"]
    for found, qkv in zip(maps, said, strict=True):
        q, k, _ = qkv.unflatten(-1, (3, HEADS, HEAD_DIM)).permute(2, 0, 3, 1, 4)
        bias = 0.0
        if attached:
            cells = [[row, column] for row in range(GRID[0]) for column in range(GRID[1])]
            pairs = HEAD_DIM // 4
            ladder = [50.0 ** (-i / pairs) for i in range(pairs)]
            still = [0.0] * pairs
            angles = oracles.turning_angles(cells, [ladder + still, still + ladder])
            layout = model.posenc["rotary"].layout
            q, k = (
                torch.cat((x[:, :, :1].double(), oracles.rotate(x[:, :, 1:], angles, layout)), 2)
                for x in (q, k)
            )
            bias = F.pad(oracles.alibi(cells, cells, oracles.alibi_slopes(HEADS)), (1, 0, 1, 0))
        near(found.weights, weights(q, k, bias), 1e-5)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
def test_maps_of_transformers(implementation, padded):
    pytest.importorskip("transformers")
    from transformers_models import HEAD_DIM, padded_left, tiny, tokens

    model = tiny("Llama", attention=implementation)
    layers = model.model.layers
    said = outputs(
        [p for layer in layers for p in (layer.self_attn.q_proj, layer.self_attn.k_proj)]
    )
    ids = tokens(2, 9)
    ids, mask = padded_left(ids, [5, 9]) if padded else (ids, torch.ones_like(ids))
    maps = attention_maps(model, ids, attention_mask=mask)
    assert [m.layer for m in maps] == [f"model.layers.{n}.self_attn" for n in (0, 1)]
    speeds = [[10_000.0 ** (-2 * i / HEAD_DIM) for i in range(HEAD_DIM // 2)]]
    angles = oracles.turning_angles([[p] for p in range(9)], speeds)
    for layer, found in enumerate(maps):
        q, k = (
            oracles.rotate(x.unflatten(-1, (-1, HEAD_DIM)).transpose(1, 2), angles, "half")
            for x in said[2 * layer : 2 * layer + 2]
        )
        hidden = torch.where(mask.bool(), 0.0, -torch.inf)[:, None, None]
        real = mask.bool()[:, None, :, None]
        wanted = weights(q, k, hidden, causal=True)
        near(found.weights.masked_fill(~real, 0.0), wanted.masked_fill(~real, 0.0), 1e-5)
        if implementation == "sdpa":
            seen = found.visible.expand_as(found.weights) & real
            assert torch.equal(seen, wanted.masked_fill(~real, 0.0) > 0)


def test_maps_of_transformers_with_a_bias_attached():
    pytest.importorskip("transformers")
    from transformers_models import HEAD_DIM, HEADS, tiny, tokens

    from posenc_mm.transformers import attach

    model = attach(tiny("Llama"), bias=pm.ALiBi(HEADS))
    attention = model.model.layers[0].self_attn
    said = outputs([attention.q_proj, attention.k_proj])
    found = attention_maps(model, tokens(2, 9))[0]
    q, k = (x.unflatten(-1, (-1, HEAD_DIM)).transpose(1, 2) for x in said)
    points = [[p] for p in range(9)]
    bias = oracles.alibi(points, points, oracles.alibi_slopes(HEADS))
    near(found.weights, weights(q, k, bias, causal=True), 1e-5)
    causal = torch.ones(9, 9, dtype=torch.bool).tril()
    assert torch.equal(found.visible.expand_as(found.weights), causal.expand_as(found.weights))


def test_a_sink_takes_a_part_of_the_weights():
    pytest.importorskip("transformers")
    from transformers_models import tiny, tokens

    plain = {"rope_type": "default", "rope_theta": 10_000.0}
    experts = {"num_local_experts": 2, "num_experts_per_tok": 1}
    model = tiny("GptOss", attention="eager", rope_parameters=plain, **experts)
    maps = attention_maps(model, tokens(2, 9))
    assert len(maps) == 2 and maps[0].weights.shape == (2, 4, 9, 9)
    assert (maps[0].weights.sum(-1) < 1).all()


def test_maps_of_torch():
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    x = torch.randn(2, 7, 32)
    maps = attention_maps(model, x)
    assert [m.layer for m in maps] == ["layers.0.self_attn", "layers.1.self_attn"]
    attention = model.layers[0].self_attn
    out = F.linear(x, attention.in_proj_weight, attention.in_proj_bias)
    q, k, _ = out.unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
    near(maps[0].weights, weights(q, k).detach())


def test_compiled_models_run_uncompiled():
    model = pm.Transformer(32, 1, 4).eval()
    compiled = torch.compile(model, backend="eager")
    x = torch.randn(2, 7, 32)
    with torch.no_grad():
        compiled(x, pm.sequence(7))
    found = attention_maps(compiled, x, pm.sequence(7))
    assert found[0].layer == "blocks.0.attention"
    wanted = attention_maps(model, x, pm.sequence(7))
    assert torch.equal(found[0].weights, wanted[0].weights)


class WrittenOut(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how = how

    def forward(self, x):
        q = x.unflatten(-1, (4, 8)).transpose(1, 2)
        w = self.soften(q @ q.mT)
        return {
            "operator": lambda: w @ q,
            "matmul": lambda: torch.matmul(w, q),
            "bmm": lambda: w.flatten(0, 1).bmm(q.flatten(0, 1)),  # as BLOOM and DeBERTa do
            "einsum": lambda: torch.einsum("bhnm,bhmd->bhnd", w, q),
            "half": lambda: w.half().float() @ q,
            "renormed": lambda: (w / 2) @ q,
        }[self.how]()

    def soften(self, x):
        return nn.Softmax(dim=-1)(x) if self.how == "operator" else F.softmax(x, 3)


@pytest.mark.parametrize("how", ["operator", "matmul", "bmm", "einsum", "half", "renormed"])
def test_what_the_values_meet_is_the_map(how):
    x = torch.randn(2, 7, 32)
    (found,) = attention_maps(WrittenOut(how), x)
    q = x.unflatten(-1, (4, 8)).transpose(1, 2).double()
    wanted = (q @ q.mT).softmax(-1) * (0.5 if how == "renormed" else 1.0)
    near(found.weights, wanted, 1e-3 if how == "half" else 3e-6)
    assert found.visible is None


class Gate(nn.Module):
    """A softmax that weighs channels."""

    def forward(self, x):
        y = x.unflatten(-1, (4, 8)).transpose(1, 2)
        return (y * y.softmax(-1)).transpose(1, 2).flatten(2)


def test_a_softmax_that_is_no_attention_is_no_map():
    x, gate = torch.randn(2, 8, 32), Gate()  # as many tokens as channels of a head
    (found,) = attention_maps(nn.Sequential(gate, WrittenOut("matmul")), x)
    (wanted,) = attention_maps(WrittenOut("matmul"), gate(x))
    assert found.layer == "1" and torch.equal(found.weights, wanted.weights)


def test_attention_among_channels_is_refused():
    """It multiplies values by a softmax (B, H, d, d), in which distances were looked for."""
    xcit = pytest.importorskip("timm").create_model("xcit_nano_12_p16_224", img_size=64, depth=1)
    for fused in (True, False):
        xcit.blocks[0].attn.fused_attn = fused
        with pytest.raises(ValueError, match=r"'blocks.0.attn' .*XCA attends among channels"):
            attention_maps(xcit, torch.randn(1, 3, 64, 64))


class FlashAttention(nn.Module):
    """Stands for a kernel that torch does not know."""

    def forward(self, x):
        return x.cumsum(1)


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside others"])
def test_an_attention_that_shows_nothing_is_refused(beside):
    more = [pm.Transformer(32, 1, 4).blocks[0]] if beside else []
    with pytest.raises(ValueError, match=r"layer '0' gave no weights: FlashAttention .*fused_attn"):
        attention_maps(nn.Sequential(FlashAttention(), *more), torch.randn(2, 7, 32))


class Direct(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how = how

    def forward(self, x):
        if self.how == "flex":
            from torch.nn.attention.flex_attention import flex_attention

            q = x.unflatten(-1, (4, 8)).transpose(1, 2)
            return flex_attention(q, q, q)
        return F.scaled_dot_product_attention(x, x, x)


@pytest.mark.parametrize(
    ("how", "why"),
    [("flex", "flex_attention, which shows no weights"), ("three axes", r"\(B, H, N, D\)")],
)
def test_a_kernel_that_cannot_be_read_is_refused_whatever_its_module_is_called(how, why):
    with pytest.raises(ValueError, match=why):
        attention_maps(Direct(how), torch.randn(2, 16, 32))


def test_a_model_without_attention_is_refused():
    with pytest.raises(ValueError, match="model must attend.*Linear"):
        attention_maps(nn.Linear(4, 4), torch.randn(2, 4))
