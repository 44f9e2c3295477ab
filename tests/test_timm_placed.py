"""Coordinates of a slot's own, an encoding per block, conditional ones, blocks of one's own."""

import copy

import pytest
import torch
from timm.models.twins import PosConv
from timm.models.vision_transformer import Attention, Block
from timm_families import images as family_images
from timm_families import make
from timm_models import (
    DEPTH,
    DIM,
    FAMILIES,
    GRID,
    HEAD_DIM,
    HEADS,
    OTHER,
    assert_near,
    assert_same_gradients,
    gradients,
    images,
    tiny,
)
from torch import nn

import posenc_mm as pm
from posenc_mm.additive import Conditional
from posenc_mm.placed import Placed
from posenc_mm.positions import AugmentedGrid, normalised_grid
from posenc_mm.timm import attach, detach

families = pytest.mark.parametrize("name", FAMILIES)


def twin(model, **slots):
    return attach(copy.deepcopy(model), **slots)


def halves(*sizes, device=None):
    return pm.grid(*sizes, step=0.5, device=device)


class Drawn:
    """Coordinates that are drawn anew at every call, per sample or for all."""

    def __init__(self, batch=None):
        self.batch, self.calls = batch, []

    def __call__(self, *sizes, device):
        at = pm.grid(*sizes, device=device).float()
        shift = torch.rand(*([self.batch, 1, 2] if self.batch else [2]))
        self.calls.append(at + shift)
        return at + shift


# ------------------------------------------------------------ Placed


@families
def test_each_slot_has_its_own_coordinates(name):
    model, rotary, bias = tiny(name), pm.Rotary(HEAD_DIM, axes=2), pm.ALiBi(HEADS)
    mixed = twin(model, rotary=Placed(rotary, halves), bias=bias)(images())
    slower = pm.Rotary(HEAD_DIM, axes=2, frequencies=scaled(rotary, 0.5))
    assert_near(mixed, twin(model, rotary=slower, bias=bias)(images()))
    both = twin(model, rotary=rotary, bias=bias, positions=halves)(images())
    assert (both - mixed).abs().max() > 1e-3


def scaled(rotary, factor):
    return [[factor * f for f in row] for row in rotary.frequencies]


@families
def test_slots_share_a_draw_where_they_share_the_object(name):
    drawn, rotary, bias = Drawn(), pm.Rotary(HEAD_DIM, axes=2), pm.ALiBi(HEADS)
    model = attach(tiny(name), rotary=Placed(rotary, drawn), bias=Placed(bias, drawn))
    del drawn.calls[:]
    model(images())
    assert len(drawn.calls) == 1
    other = Drawn()
    model = attach(detach(model), rotary=Placed(rotary, drawn), bias=Placed(bias, other))
    del drawn.calls[:], other.calls[:]
    model(images())
    assert (len(drawn.calls), len(other.calls)) == (1, 1)
    assert not torch.equal(drawn.calls[0], other.calls[0])


@families
def test_a_draw_per_sample_moves_each_sample_by_its_own(name):
    drawn = Drawn(batch=3)
    slots = {
        "additive": pm.Sinusoidal(DIM, axes=2),
        "rotary": pm.Rotary(HEAD_DIM, axes=2),
        "bias": pm.ALiBi(HEADS),
    }
    plain = tiny(name)
    model = attach(copy.deepcopy(plain), **slots, positions=drawn)
    found = model(images())
    at = drawn.calls[-1]
    for index in range(3):
        alone = twin(plain, **slots)
        alone.posenc.makers = {slot: [lambda h, w, device, i=index: at[i]] for slot in slots}
        assert_near(found[index : index + 1], alone(images()[index : index + 1]))


@families
def test_checkpointed_blocks_see_the_same_draw_and_the_same_patches(name):
    slots = {"rotary": pm.MixedRotary(HEAD_DIM, HEADS), "bias": pm.LearnedALiBi(HEADS)}
    model = attach(tiny(name, patch_drop_rate=0.4).train(), **slots, positions=Drawn(batch=3))
    found = []
    for checkpointed in (False, True):
        torch.manual_seed(3)
        model.set_grad_checkpointing(checkpointed)
        model.zero_grad()
        sum(model(images(grid=grid)).square().sum() for grid in (GRID, OTHER)).backward()
        found.append(gradients(model))
    assert_same_gradients(found[1], found[0], 1e-5)


@families
def test_what_augments_in_training_is_told_so(name):
    moved = AugmentedGrid(normalised_grid, rescale=2.0, shift=0.5)
    rotary = pm.Rotary(HEAD_DIM, axes=2, frequencies=pm.axial([9.0] * 4, [5.0] * 4))
    model = attach(tiny(name), rotary=Placed(rotary, moved), bias=Placed(pm.ALiBi(HEADS), moved))
    plain = twin(detach(copy.deepcopy(model)), rotary=rotary, bias=pm.ALiBi(HEADS))
    plain.posenc.makers = {slot: [normalised_grid] for slot in ("rotary", "bias")}
    assert torch.equal(model(images()), plain(images()))
    torch.manual_seed(5)
    found = model.train()(images())
    torch.manual_seed(5)
    at = moved(*GRID, training=True)
    plain.posenc.makers = {slot: [lambda h, w, device: at] for slot in ("rotary", "bias")}
    assert_near(found, plain(images()))
    assert (found - model.eval()(images())).abs().max() > 1e-3


# ------------------------------------------------------------ one for each block


@families
def test_each_block_may_have_its_own(name):
    model = tiny(name)
    own = [pm.MixedRotary(HEAD_DIM, HEADS) for _ in range(DEPTH)]
    attach(model, rotary=own)
    assert {f"posenc.rotary.{i}.frequencies" for i in range(DEPTH)} <= set(model.state_dict())
    inside = model.forward_intermediates(images(), norm=False)[1]
    for index, tokens in enumerate(inside):
        model.zero_grad()
        tokens.square().sum().backward(retain_graph=True)
        assert [each.frequencies.grad is not None for each in own] == [
            number <= index for number in range(DEPTH)
        ]
    same = twin(detach(copy.deepcopy(model)), rotary=[own[0]] * DEPTH)
    one = twin(detach(copy.deepcopy(model)), rotary=own[0])
    assert torch.equal(same(images()), one(images()))
    with pytest.raises(ValueError, match="one for each of 3 blocks or 3 stages, got 2"):
        attach(detach(model), rotary=own[:2])


# ------------------------------------------------------------ conditional


@pytest.mark.parametrize("name", [*FAMILIES, "beit", "relpos shared", "naflex"])
def test_a_conditional_encoding_is_twins_after_the_first_block(name):
    own = name not in FAMILIES
    model, x = (make(name), family_images(name)) if own else (tiny(name), images())
    encoding, peer = Conditional(DIM), PosConv(DIM, DIM)
    nn.init.normal_(peer.proj[0].bias)
    grid = (6, 10) if own else GRID
    plain = twin(model)
    prefix = model.num_prefix_tokens
    conv = peer.proj[0]
    with torch.no_grad():
        encoding.weight.copy_(conv.weight)
        encoding.bias.copy_(conv.bias)

    def then(module, args, out):
        patches = peer(out[:, prefix:], grid)
        return torch.cat((out[:, :prefix], patches), dim=1)

    plain.blocks[0].register_forward_hook(then)
    attach(model, additive=encoding)
    assert_near(model(x), plain(x))


@families
def test_a_conditional_encoding_meets_dropped_patches_and_checkpointing(name):
    model = attach(tiny(name, patch_drop_rate=0.4).train(), additive=Conditional(DIM))
    seen = []
    model.posenc["additive"].register_forward_pre_hook(lambda m, args: seen.append(args))
    found = []
    for checkpointed in (False, True):
        torch.manual_seed(3)
        model.set_grad_checkpointing(checkpointed)
        model.zero_grad()
        sum(model(images(grid=grid)).square().sum() for grid in (GRID, OTHER)).backward()
        found.append(gradients(model))
    assert_same_gradients(found[1], found[0], 1e-5)
    tokens, at = seen[0]
    assert tokens.shape == (3, 9, DIM)
    assert at.shape == (3, 9, 2)
    assert not torch.equal(at[0], at[1])
    assert {tuple(p) for p in at[0].tolist()} <= {tuple(p) for p in pm.grid(*GRID).tolist()}


# ------------------------------------------------------------ blocks of one's own


class PostNorm(nn.Module):
    def __init__(self, dim, num_heads, mlp_ratio=4.0, qkv_bias=False, **kwargs):
        super().__init__()
        self.attn = Attention(dim, num_heads, qkv_bias=qkv_bias)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mlp = nn.Linear(dim, dim)

    def forward(self, x):
        x = x + self.norm1(self.attn(x))
        return x + self.norm2(self.mlp(x))


class Helped(PostNorm):
    def forward(self, x):
        return self.mix(x)

    def mix(self, x):
        return x + self.norm1(self.attn(x))


class Never(PostNorm):
    def forward(self, x):
        return x + self.norm1(x)


class Above(Block):
    def forward(self, x, attn_mask=None, is_causal=False):
        return super().forward(x, attn_mask)


def test_a_block_of_ones_own_carries_rotation_and_bias():
    model, rotary, bias = tiny("vit", block_fn=PostNorm), pm.Rotary(16, axes=2), pm.ALiBi(HEADS)
    plain = twin(model)
    attach(model, rotary=rotary, bias=bias)
    tokens, wanted = [], plain.patch_embed(images()).flatten(1, 2)
    wanted = torch.cat((plain.cls_token.expand(3, -1, -1), wanted), dim=1)
    at = pm.grid(*GRID)
    rotation = rotary(at).prefix(1)
    mask = nn.functional.pad(bias(at, at), (1, 0, 1, 0))
    for block in plain.blocks:
        qkv = block.attn.qkv(wanted).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        q, k, v = pm.rotate(qkv[0], rotation), pm.rotate(qkv[1], rotation), qkv[2]
        mixed = ((q @ k.mT) * HEAD_DIM**-0.5 + mask).softmax(-1) @ v
        wanted = wanted + block.norm1(block.attn.proj(mixed.transpose(1, 2).flatten(2)))
        wanted = wanted + block.norm2(block.mlp(wanted))
        tokens.append(wanted)
    assert_near(model.forward_features(images()), plain.norm(wanted), 5e-5)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (Helped, "its queries and keys turned 0 times"),
        (Never, "its queries and keys turned 0 times"),
        (Above, "it raised TypeError: super"),
    ],
)
def test_a_block_that_hides_its_attention_is_refused_and_left_as_it_was(kind, why):
    model = tiny("vit", block_fn=kind)
    before = {name: (type(m), m.training) for name, m in model.named_modules()}
    with pytest.raises(ValueError, match=f"blocks.0 must call its attention once.*{why}"):
        attach(model, rotary=pm.Rotary(HEAD_DIM, axes=2))
    assert {name: (type(m), m.training) for name, m in model.named_modules()} == before
    assert attach(model, additive=pm.Sinusoidal(DIM, axes=2))(images()).shape == (3, 5)
