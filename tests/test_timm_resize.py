"""A timm model at another size: as timm does it, on the same parameters, and back bit for bit."""

import copy

import pytest
import timm
import torch
from timm.models.beit import Beit
from timm.models.deit import VisionTransformerDistilled
from timm.models.eva import Eva
from timm.models.hiera import Hiera
from timm.models.naflexvit import NaFlexVit, NaFlexVitCfg
from timm.models.swin_transformer import SwinTransformer
from timm.models.vision_transformer import VisionTransformer
from timm.models.vision_transformer_sam import VisionTransformerSAM

import posenc_mm as pm
from posenc_mm.resizing import resize_table
from posenc_mm.timm import attach, detach, resize

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:timm.layers.interpolate")

SIZE, OTHER = (12, 20), (28, 8)
TINY = {"img_size": SIZE, "patch_size": 4, "embed_dim": 32, "depth": 2, "num_heads": 2}
WINDOWED = {"img_size": (56, 84), "patch_size": 4, "embed_dim": 16, "num_classes": 5}
ROPE = {"use_rot_pos_emb": True}
MODELS = {
    "vit": (VisionTransformer, TINY),
    "vit with registers": (VisionTransformer, TINY | {"reg_tokens": 3}),
    "deit3": (VisionTransformer, TINY | {"no_embed_class": True, "dynamic_img_size": True}),
    "deit distilled": (VisionTransformerDistilled, TINY),
    "eva02": (Eva, TINY | ROPE),
    "rope vit": (Eva, TINY | ROPE | {"attn_type": "rope", "rope_type": "mixed"}),
    "dinov3": (Eva, TINY | ROPE | {"rope_type": "dinov3", "use_abs_pos_emb": False}),
    "beit": (Beit, TINY | {"use_rel_pos_bias": True}),
    "beit shared": (Beit, TINY | {"use_shared_rel_pos_bias": True, "use_abs_pos_emb": False}),
    "swin": (SwinTransformer, WINDOWED | {"depths": (2, 2), "num_heads": (2, 4)}),
}
models = pytest.mark.parametrize("name", MODELS)


def noisy(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


def tiny(name):
    kind, options = MODELS[name]
    return noisy(kind(**{"num_classes": 5} | options))


def sizes_of(name):
    return ((112, 56), (168, 84)) if name == "swin" else (OTHER, (42, 12))


def everything(model):
    """Every tensor of a model, and every attribute that is none."""
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    plain = {
        (name, key): repr(value)
        for name, module in model.named_modules()
        for key, value in vars(module).items()
        if key not in ("_parameters", "_buffers", "_modules")
    }
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}, plain


def assert_same(a, b):
    assert a[1] == b[1] and list(a[0]) == list(b[0])
    for name, tensor in a[0].items():
        assert torch.equal(tensor, b[0][name]), name


def assert_near(a, b, atol=5e-6):
    torch.testing.assert_close(a, b, rtol=0, atol=atol)


# ------------------------------------------------------------ values


@models
@pytest.mark.parametrize("patch", [None, 6])
def test_it_is_timms_own_on_the_same_parameters(name, patch):
    model = tiny(name)
    theirs, own = copy.deepcopy(model), dict(model.named_parameters())
    size, drawn = sizes_of(name)[patch is not None], torch.get_rng_state()
    resize(model, size, patch_size=patch, rule="timm")
    assert torch.equal(drawn, torch.get_rng_state())
    theirs.set_input_size(img_size=size, patch_size=patch)
    images = torch.randn(2, 3, *size)
    assert_near(model(images), theirs(images))
    for key, parameter in model.named_parameters():
        assert parameter is own[key] and parameter.shape == theirs.get_parameter(key).shape
    theirs.load_state_dict(model.state_dict())


def test_it_is_what_a_dynamic_model_does_at_each_forward():
    for kind in (VisionTransformer, Eva):
        model = noisy(kind(**TINY, num_classes=5, dynamic_img_size=True))
        images = torch.randn(2, 3, *OTHER)
        before = model(images)
        resize(model, OTHER)
        assert_near(model(images), before)


@models
def test_undone_it_is_the_model_it_was(name):
    model = tiny(name)
    before, own = everything(model), dict(model.named_parameters())
    record = resize(model, sizes_of(name)[1], patch_size=6)
    model(torch.randn(2, 3, *sizes_of(name)[1])).sum().backward()
    second = resize(model, sizes_of(name)[0], patch_size=4)
    with pytest.raises(ValueError, match="what came later first"):
        record.undo()
    second.undo()
    record.undo()
    model.zero_grad()
    assert_same(everything(model), before)
    assert all(parameter is own[key] for key, parameter in model.named_parameters())
    with pytest.raises(ValueError, match="undone already"):
        record.undo()


def test_undo_keeps_what_others_changed_since():
    model = noisy(timm.create_model("vit_tiny_patch16_224", depth=1, embed_dim=12, num_heads=2))
    table = model.pos_embed.detach().clone()
    record = resize(model, (160, 288))
    model.reset_classifier(7)
    model.double()
    record.undo()
    assert model.pos_embed.dtype == torch.float64
    assert torch.equal(model.pos_embed, table.double())
    assert model(torch.zeros(1, 3, 224, 224, dtype=torch.float64)).shape == (1, 7)


def test_the_rule_is_the_checkpoints_where_its_name_tells():
    named = {
        "vit_small_patch14_dinov2": "dinov2",
        "vit_small_patch14_reg4_dinov2": "dinov2_reg",
        "flexivit_small": "flexivit",
        "deit_tiny_patch16_224": "deit",
        "vit_base_patch16_224.mae": "mae",
        "vit_tiny_patch16_224": "timm",
    }
    for name, rule in named.items():
        options = {"depth": 1, "embed_dim": 12, "num_heads": 2, "img_size": (56, 112)}
        patch = {} if "14" in name else {"patch_size": 14}
        model = noisy(timm.create_model(name, **options, **patch))
        table = model.pos_embed.detach().clone()
        prefix = table.shape[1] - 4 * 8
        record = resize(model, (84, 42))
        assert record.rule == (None if rule == "timm" else rule)
        wanted = resize_table(table, (4, 8), (6, 3), rule=rule, prefix=prefix)
        assert torch.equal(model.pos_embed, wanted)


# ------------------------------------------------------------ training


def test_an_optimizer_goes_on_with_the_same_parameters():
    model = tiny("vit with registers")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    loss = model(torch.randn(2, 3, *SIZE)).sum()
    loss.backward()
    optimizer.step()
    record = resize(model, OTHER, optimizer=optimizer)
    # The loss is still alive, as in any loop, and so is its graph.
    assert model.pos_embed not in optimizer.state and model.cls_token in optimizer.state
    assert model.pos_embed.grad is None
    before = model.pos_embed.detach().clone()
    optimizer.zero_grad()
    model(torch.randn(2, 3, *OTHER)).sum().backward()
    optimizer.step()
    assert optimizer.state[model.pos_embed]["exp_avg"].shape == before.shape
    assert not torch.equal(model.pos_embed, before)
    record.undo()
    assert model.pos_embed not in optimizer.state
    model(torch.randn(2, 3, *SIZE)).sum().backward()
    optimizer.step()
    assert loss.requires_grad


def test_frozen_tables_stay_frozen_and_keep_their_dtype():
    model = tiny("beit").bfloat16().requires_grad_(False)
    wanted = resize_table(model.pos_embed, (3, 5), (7, 2), prefix=1)
    resize(model, OTHER)
    assert torch.equal(model.pos_embed, wanted)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert not any(parameter.requires_grad for parameter in model.parameters())


def test_copies_of_a_resized_model_are_undone_with_their_own_record():
    model = tiny("swin")
    before = everything(model)
    twin, record = copy.deepcopy((model, resize(model, (112, 56))))
    record.undo()
    assert_same(everything(twin), before)
    assert model.patch_embed.img_size == (112, 56)


# ------------------------------------------------------------ attached encodings


@pytest.mark.parametrize("name", ["vit with registers", "eva02"])
def test_attached_encodings_follow(name):
    model = tiny(name)
    before = everything(model)
    learned = pm.Learned(32, (3, 5), std=0.5)
    attach(model, additive=learned, rotary=pm.Rotary(16, axes=2))
    kind, options = MODELS[name]
    other = noisy(kind(**options | {"img_size": OTHER, "num_classes": 5}))
    record = resize(model, OTHER, rule="timm")
    own = {k: v for k, v in model.state_dict().items() if not k.startswith("posenc.")}
    other.load_state_dict(own)
    attach(other, additive=learned, rotary=pm.Rotary(16, axes=2))
    images = torch.randn(2, 3, *OTHER)
    assert_near(model(images), other(images))
    record.undo()
    detach(model)
    assert_same(everything(model), before)


# ------------------------------------------------------------ families that timm does not resize


def test_sam_reads_the_same_numbers_from_tables_of_its_size():
    options = {"use_rel_pos": True, "window_size": 2, "global_attn_indexes": (1,)}
    model = noisy(VisionTransformerSAM(**TINY, **options, num_classes=5, neck_chans=8))
    images, before = torch.randn(2, 3, *OTHER), everything(model)
    wanted = model(images)
    record = resize(model, OTHER)
    global_rows = ("blocks.1.attn.rel_pos_h", "blocks.1.attn.rel_pos_w")
    assert set(record.names) == {"pos_embed", *global_rows}
    assert model.pos_embed.shape == (1, 7, 2, 32)
    assert [len(model.get_parameter(name)) for name in global_rows] == [13, 3]
    assert_near(model(images), wanted)
    record.undo()
    assert_same(everything(model), before)


@pytest.mark.parametrize("kind", ["learned", "factorized"])
@pytest.mark.parametrize("mode", ["bicubic", "bilinear"])
def test_naflex_reads_the_same_numbers_from_a_table_of_that_grid(kind, mode):
    settings = {"pos_embed_grid_size": (3, 5), "patch_size": 4, "embed_dim": 32, "depth": 2}
    cfg = NaFlexVitCfg(**settings, num_heads=2, pos_embed=kind, pos_embed_interp_mode=mode)
    model = noisy(NaFlexVit(cfg, num_classes=5, img_size=SIZE))
    images, before = torch.randn(2, 3, *OTHER), everything(model)
    wanted = model(images)
    record = resize(model, OTHER)
    assert all(name.startswith("embeds.pos_embed") for name in record.names)
    assert model.embeds.pos_embed_grid_size == (7, 2)
    assert_near(model(images), wanted)
    record.undo()
    assert_same(everything(model), before)


def tiny_hiera(size, windowed):
    options = {"stages": (1, 1, 1), "num_heads": 1, "mask_unit_size": (4, 4), "embed_dim": 16}
    options |= {"mask_unit_attn": (True, False, False), "q_pool": 2, "global_pos_size": (3, 3)}
    return Hiera(img_size=size, num_classes=5, abs_win_pos_embed=windowed, **options)


def test_hiera_runs_at_another_size():
    torch.manual_seed(1)
    model = noisy(tiny_hiera((32, 48), True))
    other, before = tiny_hiera((64, 16), True).eval(), everything(model)
    other.load_state_dict(model.state_dict())
    record = resize(model, (64, 16))
    images = torch.randn(2, 3, 64, 16)
    assert torch.equal(model(images), other(images))
    for ours, theirs in zip(
        *(m.forward_intermediates(images)[1] for m in (model, other)), strict=True
    ):
        assert torch.equal(ours, theirs)
    record.undo()
    assert_same(everything(model), before)
    with pytest.raises(ValueError, match="rule must be 'timm'"):
        resize(model, (64, 16), rule="mae")
    plain = noisy(tiny_hiera((32, 48), False))
    with pytest.raises(ValueError, match="say a rule"):
        resize(plain, (64, 16))
    resize(plain, (64, 16), rule="timm")
    assert plain(images).shape == (2, 5)
