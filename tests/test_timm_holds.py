"""What people do with a timm model holds for an attached one: EMA, processes, ONNX, own masks."""

import copy
import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from timm.models import create_model
from timm.models.hiera import Hiera
from timm.utils import ModelEmaV3
from timm_families import NAFLEX
from timm_models import (
    DIM,
    FAMILIES,
    GRID,
    HEAD_DIM,
    HEADS,
    OTHER,
    assert_near,
    images,
    three,
    tiny,
)

import posenc_mm as pm
from posenc_mm.timm import attach, detach

families = pytest.mark.parametrize("name", FAMILIES)


@families
def test_an_exponential_average_of_weights_follows_the_encodings(name):
    model = attach(tiny(name), **three())
    ema = ModelEmaV3(model, decay=0.5)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with torch.no_grad():
        for parameter in model.posenc.parameters():
            parameter.add_(1.0)
    ema.update(model)
    for key, value in ema.module.state_dict().items():
        wanted = (before[key] + model.state_dict()[key]) / 2
        assert_near(value, wanted, 1e-6)
    twin = copy.deepcopy(model)
    twin.load_state_dict(ema.module.state_dict())
    assert torch.equal(ema.module(images(grid=OTHER)), twin(images(grid=OTHER)))


def test_pruned_features_of_an_extractor():
    net = create_model(
        "vit_tiny_patch16_224", features_only=True, out_indices=[0, 1], img_size=(12, 20),
        patch_size=4, embed_dim=DIM, depth=3, num_heads=HEADS,
    )  # fmt: skip
    assert len(net.model.blocks) == 2
    own = [pm.MixedRotary(HEAD_DIM, HEADS) for _ in range(2)]
    attach(net.model, rotary=own)
    after = net(images())
    both = net.model.forward_intermediates(images(), [0, 1], intermediates_only=True)
    assert all(torch.equal(a, b) for a, b in zip(after, both, strict=True))


@families
def test_blocks_pruned_later_leave_the_others_theirs(name):
    model = tiny(name)
    attach(model, rotary=[pm.MixedRotary(HEAD_DIM, HEADS) for _ in model.blocks])
    wanted = model.forward_intermediates(images(), [1], intermediates_only=True)[0]
    model.prune_intermediate_layers([1])
    found = model.forward_intermediates(images(), [1], intermediates_only=True)[0]
    assert torch.equal(found, wanted)


@families
def test_dropped_patches_with_registers_and_a_mask(name):
    """timm's Eva fails at this: the mask is for all patches, and only some are left."""
    registers = {"num_reg_tokens": 2} if name == "eva02" else {}
    model = attach(tiny(name, patch_drop_rate=0.4, **registers).train(), bias=pm.ALiBi(HEADS))
    total = model.num_prefix_tokens + GRID[0] * GRID[1]
    mask = torch.ones(total, total, dtype=torch.bool)
    assert model(images(), attn_mask=mask).isfinite().all()
    detach(model)
    if name == "eva02":
        with pytest.raises(RuntimeError):
            model(images(), attn_mask=mask)


def test_what_timm_forgets_does_not_decay():
    hiera = Hiera(
        img_size=(2, 16, 24), in_chans=3, embed_dim=8, stages=(1, 1), q_pool=1, q_stride=(1, 2, 2),
        mask_unit_size=(1, 2, 2), mask_unit_attn=(True, False), patch_kernel=(1, 7, 7),
        patch_stride=(1, 4, 4), patch_padding=(0, 3, 3), sep_pos_embed=True,
    ).eval()  # fmt: skip
    with pytest.raises(AttributeError):
        hiera.no_weight_decay()
    attach(hiera, additive=pm.Learned(8, (2, 4, 6)), keep_native=True)
    own = {"pos_embed_spatial", "pos_embed_temporal", "posenc.additive.table"}
    assert hiera.no_weight_decay() == own
    assert hiera(torch.randn(1, 3, 2, 16, 24)).isfinite().all()

    naflex = NAFLEX(rope_type="mixed", pos_embed="factorized")
    wanted = {"rope.freqs", "embeds.pos_embed_y", "embeds.pos_embed_x"}
    assert not wanted & naflex.no_weight_decay()
    assert wanted <= attach(naflex, keep_native=True).no_weight_decay()


@families
def test_onnx_with_any_height_and_width(name, tmp_path):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    slots = {"rotary": pm.Rotary(HEAD_DIM, axes=2), "bias": pm.ALiBi(HEADS)}
    model = attach(tiny(name, depth=1), **slots, additive=pm.Sinusoidal(DIM, axes=2))
    height, width = torch.export.Dim("height", max=50), torch.export.Dim("width", max=50)
    shapes = ({2: 4 * height, 3: 4 * width},)
    path = tmp_path / "model.onnx"
    program = torch.export.export(model, (images(1),), dynamic_shapes=shapes)
    torch.onnx.export(program, (), str(path), dynamo=True, verbose=False)
    session = runtime.InferenceSession(str(path))
    for grid in (GRID, OTHER):
        x = images(1, grid)
        (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
        assert_near(torch.from_numpy(found), model(x), 1e-4)


DDP = """
import sys, torch, torch.distributed as dist
sys.path.insert(0, "{tests}")
from timm_models import GRID, OTHER, images, three, tiny
from posenc_mm.timm import attach
dist.init_process_group("gloo")
rank = dist.get_rank()
for name in {names}:
    torch.manual_seed(0)
    model = attach(tiny(name).train(), **three())
    model.set_grad_checkpointing()
    for grid, seed in ((GRID, 0), (OTHER, 1)):
        (model(images(grid=grid, seed=seed)).square().sum() / 2).backward()
    alone = {{n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}}
    model.zero_grad()
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    grid = (GRID, OTHER)[rank]
    wrapped(images(grid=grid, seed=rank)).square().sum().backward()
    for n, p in model.named_parameters():
        if n in alone:
            scale = alone[n].abs().max().clamp(min=1e-12)
            torch.testing.assert_close(p.grad / scale, alone[n] / scale, rtol=0, atol=1e-5)
    assert "posenc.bias.table" in alone
print("same gradients")
dist.destroy_process_group()
"""


def test_two_processes_with_images_of_two_sizes(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    script = tmp_path / "ddp.py"
    tests = Path(__file__).parent
    script.write_text(textwrap.dedent(DDP.format(tests=tests, names=FAMILIES)), encoding="utf-8")
    each = []
    for rank in range(2):
        env = os.environ | {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
        env |= {"MASTER_PORT": port, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(tests.parent)}
        each.append(
            subprocess.Popen([sys.executable, str(script)], env=env, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        )  # fmt: skip
    for process in each:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert "same gradients" in out
