"""What ``resize`` refuses, and that a refused model is what it was."""

import copy

import pytest
import timm
import torch
from test_timm_resize import SIZE, TINY, assert_same, everything, tiny, tiny_hiera
from timm.models.naflexvit import NaFlexVit, NaFlexVitCfg
from timm.models.vision_transformer import VisionTransformer
from timm.models.vision_transformer_sam import VisionTransformerSAM
from torch import nn

from posenc_mm.timm import resize


def refused(model, match, *arguments, **options):
    before = everything(model)
    own = dict(model.named_parameters())
    with pytest.raises(ValueError, match=match):
        resize(model, *arguments, **options)
    assert_same(everything(model), before)
    assert all(parameter is own[key] for key, parameter in model.named_parameters())


def test_unknown_families_and_wrappers():
    swin2 = {"img_size": 64, "window_size": 4, "depths": (1, 1), "num_heads": (2, 4)}
    for model in (
        timm.create_model("swinv2_tiny_window8_256", embed_dim=16, **swin2),
        nn.Sequential(tiny("vit")),
        nn.Linear(2, 3),
    ):
        refused(model, f"got {type(model).__name__}", 64)


@pytest.mark.parametrize("name", ["vit", "eva02", "beit", "swin"])
def test_sizes_and_rules_that_do_not_fit(name):
    model = tiny(name)
    refused(model, "multiple of", (30, 28))
    refused(model, "multiple of", (28, 28), patch_size=(4, 6))
    refused(model, "at least 1", (28, 0))
    refused(model, "height and a width", (28, 28, 28))
    refused(model, "rule must be", (56, 28), rule="bicubik")
    if name not in ("beit", "swin"):
        refused(model, "rule must be", (56, 28), rule="geometric")


def test_a_rule_that_fails_after_the_sizes_changed():
    refused(tiny("beit"), "aspect", (28, 8), rule="vjepa2")
    small = tiny("beit shared")
    resize(small, (8, 20))
    refused(small, "at least 3 cells", (28, 8), rule="geometric_cubic")


def test_models_that_no_size_was_given():
    model = VisionTransformer(**TINY)
    model.patch_embed.img_size = None
    refused(model, "made for an image size", (28, 8))


def test_patches_of_features_are_resized_if_one_convolution_embeds_them():
    hybrid = timm.create_model(
        "vit_tiny_r_s16_p8_224", img_size=64, embed_dim=24, depth=1, num_heads=2
    )
    theirs = copy.deepcopy(hybrid.eval())
    for size, patch in (((64, 64), 4), ((128, 64), 2)):
        resize(hybrid, size, patch_size=patch)
        theirs.set_input_size(img_size=size, patch_size=patch)
        images = torch.randn(1, 3, *size)
        torch.testing.assert_close(hybrid(images), theirs(images), rtol=0, atol=1e-5)
    hybrid.patch_embed.proj = nn.Sequential(hybrid.patch_embed.proj)
    refused(hybrid, "one convolution", (128, 64), patch_size=4)


def test_families_whose_patches_or_shapes_cannot_change():
    cfg = NaFlexVitCfg(patch_size=4, embed_dim=32, depth=1, num_heads=2, pos_embed_grid_size=(3, 3))
    naflex = NaFlexVit(cfg, img_size=SIZE)
    for model in (naflex, VisionTransformerSAM(**TINY, neck_chans=8), tiny_hiera((32, 48), True)):
        refused(model, "cannot change", (96, 96), patch_size=8)
    refused(naflex, "multiple of", (30, 28))
    naflex.embeds.pos_embed_ar_preserving = True
    refused(naflex, "square", (28, 8))
    naflex.embeds.pos_embed_interp_mode = "nearest"
    refused(naflex, "must be said", (28, 28))
    resize(naflex, (28, 28), rule="nearest")
    refused(tiny_hiera((32, 48), True), "multiple of", (40, 48))
    video = timm.models.hiera.Hiera(
        img_size=(4, 32, 32),
        patch_kernel=(1, 7, 7),
        patch_stride=(1, 4, 4),
        patch_padding=(0, 3, 3),
        q_stride=(1, 2, 2),
        mask_unit_size=(1, 4, 4),
        stages=(1, 1),
        q_pool=1,
        embed_dim=16,
        mask_unit_attn=(True, False),
        sep_pos_embed=True,
    )
    refused(video, "Hiera of images", (64, 64))
