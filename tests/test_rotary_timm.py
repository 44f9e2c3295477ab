"""Rotations with bases and matrices on timm models, as plain ones are."""

import copy
import pickle

import pytest
import torch
from timm_models import (
    FAMILIES,
    GRID,
    HEAD_DIM,
    HEADS,
    OTHER,
    assert_near,
    gradients,
    images,
    tiny,
)
from torch import nn
from torch.nn import functional as F

import posenc_mm as pm
from posenc_mm.timm import attach, detach

MAKERS = {
    "cayley": lambda: pm.CayleySTRING(HEAD_DIM, std=0.3, base=100.0),
    "cayley per head": lambda: pm.CayleySTRING(HEAD_DIM, heads=HEADS, std=0.3, base=100.0),
    "circulant": lambda: pm.CirculantSTRING(HEAD_DIM, base=100.0),
    "liere": lambda: pm.LieRE(HEAD_DIM, block=8, scale=0.5),
    "liere per head": lambda: pm.LieRE(HEAD_DIM, heads=HEADS, scale=0.5),
    "axis half": lambda: pm.Rotary(HEAD_DIM, 2, base=100.0, layout="axis_half"),
    "vjepa2": lambda: pm.Rotary(HEAD_DIM, 2, base=100.0, layout="vjepa2"),
}
makers = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
families = pytest.mark.parametrize("name", FAMILIES)


def by_hand(attention, x, rotation, prefix):
    """One attention, with q and k turned by explicit matrices of each token."""
    one = torch.eye(HEAD_DIM, dtype=x.dtype)
    basis = rotation.basis if rotation.basis is not None else one
    tokens = rotation.cos.shape[-2]
    # Row j of what is turned is where channel j goes.
    columns = [pm.rotate(row.expand(1, HEADS, tokens, -1), rotation)[0] for row in one]
    turning = torch.stack(columns, dim=-1)
    still = basis.mT.expand(HEADS, HEAD_DIM, HEAD_DIM).unsqueeze(1).expand(-1, prefix, -1, -1)
    turning = torch.cat((still, turning), dim=1)
    if attention.qkv is None:
        q, k, v = (getattr(attention, f"{part}_proj")(x) for part in "qkv")
    else:
        q, k, v = attention.qkv(x).chunk(3, dim=-1)
    q, k, v = (part.unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2) for part in (q, k, v))
    q, k = attention.q_norm(q), attention.k_norm(k)
    q, k = (torch.einsum("hnij,bhnj->bhni", turning, part) for part in (q, k))
    seen = F.softmax(q @ k.mT * HEAD_DIM**-0.5, dim=-1) @ v
    return attention.proj(attention.norm(seen.transpose(1, 2).flatten(2)))


@families
@makers
def test_the_attention_of_a_block_is_the_one_written_by_hand(name, make):
    torch.manual_seed(0)
    rotary, model = make(), tiny(name)
    attach(model, rotary=rotary)
    seen = {}
    block = model.blocks[1]
    block.attn.register_forward_hook(lambda module, args, out: seen.update(x=args[0], out=out))
    for grid in (GRID, OTHER):
        model(images(grid=grid))
        rotation = rotary(pm.grid(*grid))
        wanted = by_hand(block.attn, seen["x"], rotation, model.num_prefix_tokens)
        assert_near(seen["out"], wanted, 1e-4)


@families
@makers
def test_learning_copying_loading_and_taking_off(name, make):
    model = tiny(name)
    before, state = model(images()), copy.deepcopy(model.state_dict())
    rotary = make()
    attach(model, rotary=rotary)
    out = model(images())
    assert (out - before).abs().max() > 1e-3
    out.square().mean().backward()
    found = gradients(model)
    for parameter, _ in rotary.named_parameters():
        assert found[f"posenc.rotary.{parameter}"].abs().max() > 0
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(twin(images()), out)
    other = attach(tiny(name), rotary=make())
    other.load_state_dict(model.state_dict(), strict=True)
    assert torch.equal(other(images()), out)
    detach(model)
    assert torch.equal(model(images()), before)
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())


@makers
def test_checkpointing_with_two_sizes_has_the_right_gradients(make):
    def steps(checkpointing):
        torch.manual_seed(0)
        model = attach(tiny("vit with registers"), rotary=make()).train()
        model.set_grad_checkpointing(checkpointing)
        sum(model(images(grid=grid)).square().mean() for grid in (GRID, OTHER)).backward()
        return gradients(model)

    wanted, found = steps(False), steps(True)
    assert found.keys() == wanted.keys()
    for key, gradient in wanted.items():
        assert_near(found[key], gradient, 1e-5 * gradient.abs().max().item() + 1e-9)


class Keep(nn.Module):
    """In place of timm's patch dropout: the same rows each time."""

    def __init__(self, rows):
        super().__init__()
        self.rows = rows

    def forward(self, x):
        return x[:, self.rows]


@makers
def test_dropped_patches_leave_the_others_as_if_they_were_hidden(make):
    torch.manual_seed(0)
    model = attach(tiny("vit with registers"), rotary=make())
    count = model.num_prefix_tokens + GRID[0] * GRID[1]
    rows = [*range(model.num_prefix_tokens), 9, 6, 14]
    visible = torch.zeros(count, count, dtype=torch.bool)
    visible[:, rows] = True
    wanted = model.forward_features(images(), attn_mask=visible)[:, rows]
    model.patch_drop = Keep(rows)
    assert_near(model.forward_features(images()), wanted)


@pytest.mark.parametrize("name", ["cayley", "liere per head"])
def test_a_compiled_model_gives_the_same(name):
    model = attach(tiny("eva02"), rotary=MAKERS[name]())
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    assert_near(compiled(images()), model(images()), 1e-5)


def test_a_rotation_for_other_heads_or_channels_is_refused():
    for rotary in (
        pm.LieRE(HEAD_DIM, heads=HEADS + 1),
        pm.CayleySTRING(HEAD_DIM, heads=HEADS + 1),
        pm.LieRE(2 * HEAD_DIM, block=8),
        pm.CirculantSTRING(HEAD_DIM + 2),
    ):
        model = tiny("vit")
        with pytest.raises(ValueError, match="heads|channels"):
            attach(model, rotary=rotary)
        assert not hasattr(model, "posenc")
