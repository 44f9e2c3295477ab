"""Encodings leave PyTorch: exported to ONNX with a dynamic length and run by another engine."""

import warnings

import pytest
import torch
from every_encoding import ENCODINGS, Applied, Case, positions, tokens

pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")

NAMES = ["sinusoidal 2-D", "learned 2-D", "rotary", "rotary 2-D", "mixed rotary", "alibi", "t5"]
CHOSEN = [case for case in ENCODINGS if case.name in NAMES]


@pytest.mark.parametrize("case", CHOSEN, ids=str)
def test_onnx_runs_the_same_numbers_at_other_lengths(case: Case, tmp_path):
    module = Applied(case.make()).eval()
    length = torch.export.Dim("length", min=2, max=60)
    with warnings.catch_warnings():
        # The exporter warns of its own deprecations.
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            module,
            (tokens(1, 12), positions(12, case.axes)),
            dynamic_shapes=({2: length}, {0: length}),
            dynamo=True,
            verbose=False,
        )
        program.save(tmp_path / "encoding.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "encoding.onnx")
    names = [given.name for given in session.get_inputs()]
    for size in (12, 31):
        x, at = tokens(1, size), positions(size, case.axes)
        result = session.run(None, dict(zip(names, (x.numpy(), at.numpy()), strict=True)))[0]
        assert torch.allclose(torch.from_numpy(result), module(x, at), atol=1e-5)
