"""What ``explain`` says of the smallest model of every family."""

import pytest
import torch
from timm.layers import build_sincos2d_pos_embed
from timm.models import create_model
from timm_families import FAMILIES, make
from timm_models import MODELS, tiny
from torch import nn

import posenc_mm as pm
from posenc_mm.timm import attach, detach, explain

TABLE = ("learned table", "none", "none")
OWN = {
    "vit": TABLE,
    "deit distilled": TABLE,
    "vit parallel": TABLE,
    "vit branches": TABLE,
    "vit differential": TABLE,
    "vit differential parallel": TABLE,
    "eva02": ("learned table", "axial (cat)", "none"),
    "naflex": ("learned grid table", "none", "none"),
    "naflex rope": ("row and column tables", "mixed, learned frequencies", "none"),
    "beit": ("learned table", "none", "table of each block, window 6 x 10"),
    "beit shared": ("none", "none", "table, shared by all blocks"),
    "relpos": ("none", "none", "mlp of log offsets of each block, window 6 x 10"),
    "relpos shared": ("none", "none", "table, shared by all blocks"),
    "swin": ("none", "none", "table of each block, window 3 x 5"),
    "swin dynamic": ("none", "none", "table of each block, window 3 x 5"),
    "swin v2": ("none", "none", "cpb mlp of each block, window 3 x 5"),
    "sam": ("learned table", "none", "decomposed, read off the queries, of each block"),
    "hiera": TABLE,
    "hiera of windows": ("coarse table and table of a window", "none", "none"),
    "hieradet": ("coarse table and table of a window", "none", "none"),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_the_native_encodings_of_every_family(name):
    said, member = explain(make(name)), FAMILIES[name]
    assert (said.additive, said.rotary, said.bias) == OWN[name]
    assert said.family == member.kind
    assert said.dynamic == (bool(member.sizes) or name == "hieradet")
    if member.kind not in ("Hiera", "HieraDet"):
        assert (said.grid, said.patch) == ((6, 10), (4, 4))
    assert set(said.refuses) == {"additive", "rotary", "bias"} - set(member.works.split())
    assert (said.attached, said.native) == ({}, True)


ROPES = {
    "eva02": ("axial (cat)", "interleaved", 100.0, 1),
    "rope vit": ("mixed, learned frequencies", "interleaved", 100.0, 1),
    "perception encoder": ("axial (cat)", "interleaved", 100.0, 1),
    "dinov3": ("dinov3, normalised coordinates", "half", 100.0, 5),
}


@pytest.mark.parametrize("name", ROPES)
def test_rotations_with_layout_and_base(name):
    said = explain(tiny(name))
    assert (said.rotary, said.layout, said.base, said.prefix) == ROPES[name]


def test_a_table_of_sines_is_seen():
    model = tiny("vit")
    table = build_sincos2d_pos_embed([3, 5], dim=32)
    with torch.no_grad():
        model.pos_embed[0, 1:] = table
    assert explain(model).additive == "sin-cos table"


@pytest.mark.parametrize("name", MODELS)
def test_what_is_attached_is_named_and_the_model_stays(name):
    model = tiny(name)
    before = explain(model)
    attach(model, rotary=pm.Rotary(16, axes=2), bias=pm.ALiBi(2))
    said = explain(model)
    assert said.attached == {"rotary": "Rotary", "bias": "ALiBi"}
    assert not said.native
    assert "attached  rotary Rotary, bias ALiBi, in place of the model's own" in str(said)
    detach(model)
    assert explain(model) == before


def test_a_family_that_is_refused_is_explained_all_the_same():
    with torch.device("meta"):
        said = explain(create_model("maxvit_rmlp_pico_rw_256"))
    assert said.family == "MaxxVit"
    assert said.bias == "mlp of log offsets of each block, window 8 x 8"
    assert "windows and into grids" in said.refuses["rotary"]
    with pytest.raises(ValueError, match="must be a vision transformer of timm, got Linear"):
        explain(nn.Linear(2, 2))
