"""What attach and detach refuse, with which words; the model is then as it was."""

import pytest
import timm
import torch
from timm.layers import DiffAttention
from timm.models import create_model, vision_transformer
from timm.models.vision_transformer import ParallelScalingBlock, ParallelThingsBlock
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


@pytest.mark.parametrize("other", ["beit", "swin", "hiera", "linear"])
def test_other_families(other):
    if other == "linear":
        assert_refused(nn.Linear(2, 2), "one of timm's .*VisionTransformer.*Eva.*, got Linear")
        return
    names = {
        "beit": "beit_base_patch16_224",
        "swin": "swin_tiny_patch4_window7_224",
        "hiera": "hiera_tiny_224",
    }
    with torch.device("meta"):
        model = create_model(names[other])
    kind = type(model).__name__
    assert_refused(model, f"one of timm's .*VisionTransformer.*Eva.*, got {kind}")


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
@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"block_fn": ParallelScalingBlock}, "blocks.0 is a ParallelScalingBlock$"),
        ({"block_fn": ParallelThingsBlock}, "blocks.0 is a ParallelThingsBlock$"),
        ({"attn_layer": DiffAttention}, "blocks.0 is a Block with DiffAttention$"),
    ],
    ids=["parallel", "things", "differential"],
)
def test_blocks_that_cannot_carry_a_slot(options, found, slots):
    (slot,) = slots
    assert_refused(tiny("vit", **options), f"{slot} needs one of timm's blocks .*{found}", **slots)
    model = attach(tiny("vit", **options), additive=pm.Sinusoidal(DIM, axes=2))
    assert model(images()).shape == (3, 5)


def test_a_bias_needs_blocks_that_take_a_mask(monkeypatch):
    """As before timm 1.0.16."""

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))

    monkeypatch.setattr(vision_transformer.Block, "forward", forward)
    words = f"bias needs blocks that take attn_mask.* 1.0.16 .*Block of timm {timm.__version__}"
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
