"""An attached encoding keeps little for the backward."""

import timm
import torch

from posenc_mm import Rotary
from posenc_mm.timm import attach


def test_a_rotation_keeps_no_more_for_the_backward_than_the_plain_model():
    kept = []
    for rotary in (None, Rotary(16, axes=2)):
        torch.manual_seed(0)
        model = timm.create_model(
            "vit_tiny_patch16_224",
            img_size=(32, 48),
            patch_size=8,
            embed_dim=32,
            depth=2,
            num_heads=2,
        )
        if rotary is not None:
            attach(model, rotary=rotary)
        storages = {}

        def pack(saved, storages=storages):
            storages[saved.untyped_storage().data_ptr()] = saved.untyped_storage().nbytes()
            return saved

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved):
            held = model(torch.randn(3, 3, 32, 48))
        kept.append(sum(storages.values()))
        del held
    tables = 2 * 25 * 8 * 4  # cosines and sines
    assert kept[1] <= kept[0] + tables
