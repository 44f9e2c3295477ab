"""One graph for one family of each mechanism."""

import pytest
import torch
from timm_families import all_of, images, make

from posenc_mm.timm import attach


@pytest.mark.parametrize("name", ["vit branches", "vit parallel", "beit", "swin", "naflex"])
def test_compiled_in_one_graph(name):
    depth = {"depths": (1, 1)} if name == "swin" else {"depth": 1}
    model = attach(make(name, **depth), **all_of(name))
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(images(name)), model(images(name)), rtol=0, atol=1e-5)
