"""Encodings on the families of timm against code written out, and against each other."""

import copy

import pytest
import torch
from timm.models import naflexvit
from timm.models.vision_transformer import VisionTransformer
from timm.models.vision_transformer_sam import VisionTransformerSAM
from timm_families import BEIT, COLUMN, DIM, GRID, HEADS, RELPOS, WIDTH, encodings, images, make
from timm_models import assert_near

import posenc_mm as pm
from posenc_mm.additive import Conditional
from posenc_mm.timm import attach

BASE = 50.0


def rotary(width=WIDTH, layout="half"):
    return pm.Rotary(width, axes=2, base=BASE, layout=layout)


def turned(x, row, column, width=WIDTH):
    """One vector, turned as axial RoPE in the half layout says, from the formula."""
    pairs = width // 2
    speeds = [BASE ** (-2 * i / pairs) for i in range(pairs // 2)]
    angles = torch.tensor([row * s for s in speeds] + [column * s for s in speeds])
    first, second = x[:pairs], x[pairs:]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((first * cos - second * sin, first * sin + second * cos))


# ------------------------------------------------------------ Swin


def region(index, size, window, shift):
    return 0 if index < size - window else (1 if index < size - shift else 2)


def window_attention(block, x, bias, score):
    """Attention within shifted windows, token by token; ``bias`` is a table of offsets."""
    (wh, ww), (sh, sw) = block.window_size, block.shift_size
    attention, (height, width, _) = block.attn, x.shape
    out = torch.zeros_like(x)
    for top in range(0, height, wh):
        for left in range(0, width, ww):
            cells = [(r, c) for r in range(wh) for c in range(ww)]
            at = [((top + r + sh) % height, (left + c + sw) % width) for r, c in cells]
            zones = [
                (region(top + r, height, wh, sh), region(left + c, width, ww, sw)) for r, c in cells
            ]
            tokens = torch.stack([x[place] for place in at])
            q, k, v = projected(attention, tokens)
            mixed = torch.zeros(len(cells), attention.num_heads, WIDTH_OF[block.dim])
            for head in range(attention.num_heads):
                qs, ks = (
                    [turned(y[i, head], *cells[i]) for i in range(len(cells))] for y in (q, k)
                )
                logits = torch.zeros(len(cells), len(cells))
                for i, (ri, ci) in enumerate(cells):
                    for j, (rj, cj) in enumerate(cells):
                        logits[i, j] = score(attention, head, qs[i], ks[j])
                        logits[i, j] += bias[ri - rj + wh - 1, ci - cj + ww - 1, head]
                        if any((sh, sw)) and zones[i] != zones[j]:
                            logits[i, j] -= 100
                mixed[:, head] = logits.softmax(-1) @ v[:, head]
            for place, token in zip(at, attention.proj(mixed.flatten(1)), strict=True):
                out[place] = token
    return out


WIDTH_OF = {32: 16, 64: 16}


def projected(attention, tokens):
    bias = attention.qkv.bias
    if bias is None:
        bias = torch.cat((attention.q_bias, attention.k_bias, attention.v_bias))
    y = torch.nn.functional.linear(tokens, attention.qkv.weight, bias)
    return y.reshape(len(tokens), 3, attention.num_heads, -1).unbind(1)


def dot(attention, head, q, k):
    return q @ k * WIDTH**-0.5


def cosine(attention, head, q, k):
    scale = attention.logit_scale[head, 0, 0].clamp(max=4.605170185988092).exp()
    return scale * (q @ k) / (q.norm() * k.norm())


@pytest.mark.parametrize(("name", "score"), [("swin", dot), ("swin v2", cosine)])
@torch.no_grad()
def test_windows_turn_and_are_biased_by_local_positions(name, score):
    model, biases = make(name), encodings(name, "bias")
    bare = copy.deepcopy(model)
    attach(model, rotary=rotary(), bias=biases)
    x = images(name, batch=1)
    tokens = bare.patch_embed(x)[0]
    for stage, bias in zip(bare.layers, biases, strict=True):
        tokens = stage.downsample(tokens[None])[0]
        for block in stage.blocks:
            if score is dot:
                tokens = tokens + window_attention(block, block.norm1(tokens), bias.table, dot)
                tokens = tokens + block.mlp(block.norm2(tokens))
            else:
                mixed = window_attention(block, tokens, bias.table, cosine)
                tokens = tokens + block.norm1(mixed)
                tokens = tokens + block.norm2(block.mlp(tokens))
    assert_near(model.forward_features(x)[0], bare.norm(tokens), 2e-5)


@pytest.mark.parametrize("name", ["swin", "swin v2", "swin dynamic"])
@torch.no_grad()
def test_the_native_bias_of_each_block_as_an_encoding_changes_nothing(name):
    model = make(name)
    tables = []
    for stage in model.layers:
        for block in stage.blocks:
            attention, (wh, ww) = block.attn, block.window_size
            own = pm.RelativeBias(attention.num_heads, (wh, ww))
            native = getattr(attention, "relative_position_bias_table", None)
            if native is None:
                native = 16 * attention.cpb_mlp(attention.relative_coords_table).sigmoid()
            own.table.copy_(native.reshape(2 * wh - 1, 2 * ww - 1, -1))
            tables.append(own)
    wanted = model(images(name))
    assert_near(attach(model, bias=tables)(images(name)), wanted)


# ------------------------------------------------------------ families that are a ViT inside


def vit(weights, **options):
    model = VisionTransformer(**COLUMN, pos_embed="none", num_classes=5, **options).eval()
    model.load_state_dict(weights, strict=True)
    return model


@pytest.mark.parametrize("separate", [False, True])
def test_beit_turns_as_the_vit_of_the_same_weights(separate):
    model = BEIT(use_abs_pos_emb=False, num_classes=5, global_pool="token").eval()
    for block in model.blocks:
        block.attn.qkv_bias_separate = separate
        torch.nn.init.normal_(block.attn.q_bias)
        torch.nn.init.normal_(block.attn.v_bias)
    weights = {}
    for key, value in model.state_dict().items():
        if key.endswith("q_bias"):
            other = model.state_dict()[key.replace("q_bias", "v_bias")]
            key, value = (
                key.replace("q_bias", "qkv.bias"),
                torch.cat((value, torch.zeros_like(value), other)),
            )
        if not key.endswith("v_bias"):
            weights[key] = value
    other = vit(weights)
    for either in (model, other):
        attach(either, rotary=rotary(), bias=pm.ALiBi(HEADS))
    assert_near(model.forward_features(images("beit")), other.forward_features(images("beit")))


@pytest.mark.parametrize("fused", [True, False])
def test_the_relative_vit_is_a_vit(fused):
    model = RELPOS(num_classes=5, qk_norm=True, class_token=True, init_values=None).eval()
    weights = {k: v for k, v in model.state_dict().items() if ".rel_pos." not in k}
    other = vit(weights, qk_norm=True, global_pool="avg", fc_norm=False)
    for either in (model, other):
        for block in either.blocks:
            block.attn.fused_attn = fused
        attach(either, rotary=rotary(), bias=pm.ALiBi(HEADS))
    assert_near(model(images("relpos")), other(images("relpos")))


@pytest.mark.parametrize("size", [(16, 16), (24, 40)])
def test_sam_of_one_window_is_a_vit(size):
    window = 4 if size == (16, 16) else 0
    sam = VisionTransformerSAM(
        **(COLUMN | {"img_size": size}), window_size=window, neck_chans=0, use_abs_pos=False
    ).eval()
    weights = {k: v for k, v in sam.state_dict().items() if k.startswith(("patch", "blocks"))}
    model = VisionTransformer(
        **(COLUMN | {"img_size": size}), pos_embed="none", class_token=False, global_pool="avg",
        num_classes=0, norm_layer=torch.nn.LayerNorm,
    ).eval()  # fmt: skip
    model.load_state_dict(weights, strict=False)
    mixed = pm.MixedRotary(WIDTH, HEADS)
    attach(sam, rotary=mixed, additive=pm.Sinusoidal(DIM, axes=2))
    attach(model, rotary=mixed, additive=pm.Sinusoidal(DIM, axes=2))
    x = images("sam", size=size)
    wanted = model.forward_intermediates(x, indices=[1], intermediates_only=True)[0]
    assert_near(sam.forward_intermediates(x, indices=[1], intermediates_only=True)[0], wanted)


# ------------------------------------------------------------ blocks that are their own attention


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("name", ["vit differential", "vit differential parallel", "vit parallel"])
def test_blocks_of_other_shapes_turn_each_map(name, fused):
    """Turning weights that do not depend on position: only the positions' difference is seen."""
    model = make(name)
    for block in model.blocks:
        getattr(block, "attn", block).fused_attn = fused
    width = WIDTH if name == "vit parallel" else WIDTH // 2
    bias = pm.RelativeBias(HEADS, GRID, std=0.5)
    native = copy.deepcopy(model)
    attach(model, rotary=rotary(width), bias=bias)
    seen = []
    original = torch.nn.functional.scaled_dot_product_attention
    x = images(name)
    with pytest.MonkeyPatch.context() as patch:

        def record(q, k, v, attn_mask=None, **kw):
            seen.append((q, k, attn_mask))
            return original(q, k, v, attn_mask=attn_mask, **kw)

        patch.setattr(torch.nn.functional, "scaled_dot_product_attention", record)
        out = model(x)
        attach(native)(x)
    if not fused:
        assert not seen
        for block in model.blocks:
            getattr(block, "attn", block).fused_attn = True
        assert_near(out, model(x))
        return
    maps = 1 if name == "vit parallel" else 2
    rotation, at = rotary(width)(pm.grid(*GRID)).prefix(1), pm.grid(*GRID)
    mask = torch.nn.functional.pad(bias(at, at), (1, 0, 1, 0))[None]
    for turn in range(maps):
        (q, k, found), (plain_q, plain_k, none) = seen[turn], seen[2 * maps + turn]
        assert none is None
        assert torch.equal(found, mask)
        assert_near(q, pm.rotate(plain_q, rotation))
        assert_near(k, pm.rotate(plain_k, rotation))


# ------------------------------------------------------------ NaFlex


@pytest.mark.parametrize("conditional", [False, True], ids=["table", "conditional"])
@pytest.mark.parametrize("name", ["naflex", "naflex rope"])
@torch.no_grad()
def test_images_of_two_sizes_in_one_batch_are_what_they_are_alone(name, conditional):
    model = make(name, embed_proj_type="linear")
    slots = {slot: encodings(name, slot) for slot in ("additive", "rotary", "bias")}
    attach(model, **(slots | ({"additive": Conditional(DIM)} if conditional else {})))
    alone, rows = [], []
    for seed, size in enumerate([(12, 20), (28, 8)]):
        x = images(name, 1, size, seed)
        alone.append(model(x))
        patches, _ = naflexvit.batch_patchify(x, (4, 4))
        at = pm.grid(size[0] // 4, size[1] // 4)
        order = torch.randperm(len(at))
        rows.append((patches[0][order], at[order]))
    longest = max(len(at) for _, at in rows) + 2
    batch = {
        "patches": torch.stack([pad(p, longest) for p, _ in rows]),
        "patch_coord": torch.stack([pad(at, longest) for _, at in rows]),
        "patch_valid": torch.stack([torch.arange(longest) < len(at) for _, at in rows]),
    }
    assert_near(model(batch), torch.cat(alone))


def pad(x, length):
    return torch.cat((x, x.new_zeros(length - len(x), *x.shape[1:])))


@torch.no_grad()
def test_beits_own_table_with_its_numbers_for_the_class_token_changes_nothing():
    model, (height, width) = make("beit"), GRID
    tables = []
    for block in model.blocks:
        native = block.attn.relative_position_bias_table
        own = pm.RelativeBias(HEADS, GRID, prefix=True)
        own.table.copy_(native[:-3].reshape(2 * height - 1, 2 * width - 1, -1))
        own.prefix.copy_(native[-3:])
        tables.append(own)
    wanted, table = model(images("beit")), model.pos_embed.detach().clone()
    learned = pm.Learned(DIM, GRID)
    learned.table.copy_(table[0, 1:].unflatten(0, GRID))
    attach(model, bias=tables, additive=learned)
    with torch.no_grad():
        model.cls_token.add_(table[:, :1])
    assert_near(model(images("beit")), wanted)


@torch.no_grad()
def test_positions_of_ones_own_with_coordinates():
    name = "naflex"
    model = attach(
        make(name, embed_proj_type="linear"), rotary=rotary(), positions=pm.normalised_grid
    )
    x = images(name, 2, (12, 20))
    patches, _ = naflexvit.batch_patchify(x, (4, 4))
    at = pm.grid(3, 5).expand(2, -1, -1)
    valid = torch.ones(2, 15, dtype=torch.bool)
    assert_near(model({"patches": patches, "patch_coord": at, "patch_valid": valid}), model(x))
