"""What attach and detach refuse, with which words; the model is then as it was."""

import pytest
import timm
import torch
from timm.models import create_model, vision_transformer
from timm_models import DIM, HEAD_DIM, HEADS, MODELS, images, three, tiny
from torch import nn

import posenc_mm as pm
from posenc_mm.timm import attach, detach

ROTARY = {"rotary": pm.Rotary(HEAD_DIM, axes=2)}
BIAS = {"bias": pm.ALiBi(HEADS)}


def assert_refused(model, words, **slots):
    before = {name: (type(m), set(m.__dict__)) for name, m in model.named_modules()}
    wanting = {name: p.requires_grad for name, p in model.named_parameters()}
    with pytest.raises(ValueError, match=words):
        attach(model, **slots)
    assert {name: (type(m), set(m.__dict__)) for name, m in model.named_modules()} == before
    assert {name: p.requires_grad for name, p in model.named_parameters()} == wanting


OTHERS = {
    "twins_svt_small": "a Twins of timm, for which nothing is written: .* fewer keys than tokens",
    "mvitv2_tiny": "MultiScaleVit of timm, .*: its keys are pooled",
    "maxvit_rmlp_pico_rw_256": "MaxxVit of timm, .*: it gathers tokens into windows and",
    "xcit_nano_12_p16_224": "Xcit of timm, .*: its attention is over channels",
    "resnet10t": "model must be one of timm's .*VisionTransformer.*, got ResNet",
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_families(name):
    with torch.device("meta"):
        model = create_model(name)
    assert_refused(model, OTHERS[name])


def test_what_is_no_model_of_timm():
    assert_refused(nn.Linear(2, 2), "one of timm's .*VisionTransformer.*Eva.*, got Linear")


def test_a_model_with_code_of_its_own():
    class Mine(vision_transformer.VisionTransformer):
        def forward_features(self, x, attn_mask=None, is_causal=False):
            return super().forward_features(x, attn_mask, is_causal)

    class Head(vision_transformer.VisionTransformer):
        def forward_head(self, x, pre_logits=False):
            return x

    options = {"img_size": 16, "patch_size": 4, "embed_dim": DIM, "depth": 1, "num_heads": HEADS}
    assert_refused(Mine(**options), "timm's own forward_features .*, but Mine does not", **ROTARY)
    assert attach(Head(**options), **ROTARY)(torch.zeros(1, 3, 16, 16)).shape == (1, 17, DIM)


@pytest.mark.parametrize("slots", [ROTARY, BIAS], ids=["rotary", "bias"])
def test_blocks_that_cannot_carry_a_slot(slots):
    class Mixer(nn.Module):
        def __init__(self, dim, num_heads, depth=0, **kwargs):
            super().__init__()
            self.norm = nn.LayerNorm(dim)

        def forward(self, x, attn_mask=None, is_causal=False):
            return x + self.norm(x)

    class Other(Mixer):
        def __init__(self, dim, num_heads, **kwargs):
            super().__init__(dim, num_heads)
            self.attn = nn.MultiheadAttention(dim, num_heads)

    (slot,) = slots
    for kind, found in ((Mixer, "Mixer$"), (Other, "Other with MultiheadAttention$")):
        words = f"{slot} needs blocks with .* blocks.0 is a {found}"
        assert_refused(tiny("vit", block_fn=kind), words, **slots)
    model = attach(tiny("vit", block_fn=Mixer), additive=pm.Sinusoidal(DIM, axes=2))
    assert model(images()).shape == (3, 5)


def test_a_bias_needs_attentions_that_take_a_mask(monkeypatch):
    """As before timm 1.0.16."""

    def forward(self, x):
        heads = self.qkv(x).reshape(*x.shape[:2], 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = heads.unbind(0)
        x = nn.functional.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v)
        return self.proj(x.transpose(1, 2).flatten(2))

    def run(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))

    monkeypatch.setattr(vision_transformer.Attention, "forward", forward)
    monkeypatch.setattr(vision_transformer.Block, "forward", run)
    words = (
        f"bias needs attentions that take attn_mask.* 1.0.16 .*Attention of timm {timm.__version__}"
    )
    assert_refused(tiny("vit"), words, **BIAS)
    assert attach(tiny("vit"), **ROTARY)(images()).shape == (3, 5)


@pytest.mark.parametrize(
    ("slots", "words"),
    [
        ({"additive": pm.Sinusoidal(DIM + 4, axes=2)}, "width 36, but .* embed_dim is 32"),
        ({"rotary": pm.Rotary(2 * HEAD_DIM, axes=2)}, r"turns 32 channels, but .*blocks.0 has 16"),
        (
            {"rotary": pm.Rotary(HEAD_DIM // 2, axes=2)},
            r"heads of 8 channels, but .*blocks.0 has 16",
        ),
        ({"rotary": pm.MixedRotary(HEAD_DIM, 4)}, r"rotary is for 4 heads, but .*blocks.0 has \[2"),
        ({"bias": pm.ALiBi(HEADS + 1)}, "bias has 3 heads, but .*blocks.0 has 2"),
        ({"rotary": pm.Rotary(HEAD_DIM, axes=1)}, "ax"),
        ({"bias": pm.T5Bias(HEADS)}, "ax"),
        ({"additive": pm.ALiBi(HEADS)}, "additive must be of class AdditiveEncoding, got ALiBi"),
        ({"rotary": 3}, "rotary must be of class RotaryEncoding, got 3"),
    ],
    ids=[
        "width",
        "head width",
        "narrow head",
        "heads",
        "bias heads",
        "axes",
        "bias axes",
        "slot",
        "type",
    ],
)
@pytest.mark.parametrize("name", ["vit", "eva02"])
def test_encodings_that_do_not_fit(name, slots, words):
    assert_refused(tiny(name), words, **slots)


def test_rotations_per_head_need_as_many_heads_of_keys():
    words = r"rotary is for 2 heads, but .* has \[1, 2\] heads"
    assert_refused(tiny("sapiens2"), words, rotary=pm.MixedRotary(HEAD_DIM, HEADS))


@pytest.mark.parametrize("name", MODELS)
def test_twice_and_never(name):
    model = tiny(name)
    with pytest.raises(ValueError, match="nothing attached"):
        detach(model)
    attach(model, **three())
    with pytest.raises(ValueError, match="encodings attached, detach them first"):
        attach(model, **ROTARY)
    attach(detach(model), **ROTARY)
    detach(model)
    with pytest.raises(ValueError, match="nothing attached"):
        detach(model)
