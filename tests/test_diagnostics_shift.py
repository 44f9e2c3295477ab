"""The shift test: what is exactly zero, what is not, and what is refused."""

import pytest
import torch
from torch import nn

import posenc_mm as pm
from posenc_mm.diagnostics import (
    attention_maps,
    effective_context,
    shift_contents,
    shift_positions,
)


def near(found, wanted, atol=1e-12):
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64), rtol=0, atol=atol)


RELATIVE = {
    "nope": {},
    "rotary": {"rotary": lambda: pm.Rotary(16)},
    "xpos": {"rotary": lambda: pm.XPos(16)},
    "alibi": {"bias": lambda: pm.ALiBi(4)},
    "t5": {"bias": lambda: pm.T5Bias(4, buckets=8, max_distance=10)},
}
ABSOLUTE = {
    "sinusoidal": {"additive": lambda: pm.Sinusoidal(64)},
    "learned": {"additive": lambda: pm.Learned(64, 200, std=0.5)},
}


@pytest.mark.parametrize("name", RELATIVE | ABSOLUTE)
def test_only_absolute_encodings_notice_that_all_positions_moved(name):
    slots = {slot: make() for slot, make in (RELATIVE | ABSOLUTE)[name].items()}
    model = pm.Transformer(64, 2, 4, causal=True, **slots).double().eval()
    x = torch.randn(2, 9, 64, dtype=torch.float64)
    found = shift_positions(lambda offset: model(x, pm.sequence(9, offset=offset)), [1, 7, 150])
    assert found.offsets == (1, 7, 150)
    if name in RELATIVE:
        assert found.changes.max() < 1e-5  # cosines and sines are handed on in float32
    else:
        assert found.changes.min() > 1e-2


def test_the_change_is_relative_to_the_output():
    found = shift_positions(lambda offset: torch.tensor([3.0, 4.0 + offset]), [0, 1, 5])
    near(found.changes, [0.0, 0.2, 1.0])
    with pytest.raises(ValueError, match="one shape, got"):
        shift_positions(lambda offset: torch.zeros(1 + offset), [1])
    with pytest.raises(ValueError, match="offsets must"):
        shift_positions(torch.zeros, [])


def test_patches_alone_move_along_and_an_absolute_table_stays():
    images = torch.randn(2, 3, 20, 28)
    patches = nn.Conv2d(3, 8, 4, stride=4).double()
    table = torch.randn(8, 5, 7, dtype=torch.float64)
    moves = [(1, 0), (0, -1), (-1, 1)]
    alone = shift_contents(patches, images.double(), 4, moves)
    assert alone.moves == tuple(moves) and alone.errors.max() < 1e-12 < alone.stayed.min()
    added = shift_contents(lambda x: patches(x) * 0 + table, images.double(), 4, moves)
    assert added.stayed.max() == 0.0
    inner = table[:, 1:4, 1:6]
    wanted = [
        float((table[:, 1 + r : 4 + r, 1 + c : 6 + c] - inner).norm() / inner.norm())
        for r, c in moves
    ]
    near(added.errors, wanted, 1e-12)
    assert len(shift_contents(patches, images.double(), (4, 4), margin=2).moves) == 8


def test_contents_lie_on_the_canvas_and_move_as_they_are():
    image = torch.arange(1.0, 1 + 12 * 16).reshape(1, 1, 12, 16)
    seen = []

    def features(images):
        seen.append(images)
        return images[..., ::4, ::4]

    shift_contents(features, image, 4, [(1, -1)], fill=-1.0)
    first, moved = seen
    assert torch.equal(first[..., 4:8, 4:12], image[..., 4:8, 4:12])
    assert torch.equal(moved[..., 8:12, 0:8], image[..., 4:8, 4:12])
    assert (first == -1).sum() == (moved == -1).sum() == 12 * 16 - 4 * 8


ATTACHED = {
    "none": {},
    "rotary": {"rotary": lambda: pm.Rotary(16, axes=2, base=100.0)},
    "table": {"additive": lambda: pm.Learned(32, (5, 6), std=0.5)},
}


def test_features_of_a_vit_move_along_but_for_what_knows_its_place():
    pytest.importorskip("timm")
    from timm_models import PATCH, images, tiny

    from posenc_mm.timm import attach

    errors = {}
    for name, slots in ATTACHED.items():
        model = attach(tiny("vit", grid=(5, 6)), **{slot: make() for slot, make in slots.items()})

        def features(x, model=model):
            return model.forward_intermediates(x, indices=1, norm=True, intermediates_only=True)[-1]

        errors[name] = float(shift_contents(features, images(2, (5, 6)), PATCH).errors.mean())
    assert errors["none"] < 1e-5 < errors["rotary"] < errors["table"]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"images": torch.zeros(3, 12, 16)}, r"images must be \(B, C, H, W\)"),
        ({"images": torch.zeros(1, 3, 12, 17)}, "whole patches of 4 x 4"),
        ({"patch": (4, 4, 4)}, "patch must be"),
        ({"margin": 2}, "margin must leave a patch in the middle of 3 x 4"),
        ({"moves": [(2, 0)]}, "moves must stay within margin=1"),
        ({"moves": []}, "moves must"),
        (
            {"features": lambda x: x},
            r"features must be .* of 3 x 4 patches, got .*\(1, 3, 12, 16\)",
        ),
    ],
)
def test_what_cannot_be_moved_is_refused(given, why):
    arguments = {"features": nn.Conv2d(3, 2, 4, stride=4), "patch": 4}
    arguments["images"] = torch.zeros(1, 3, 12, 16)
    with pytest.raises(ValueError, match=why):
        shift_contents(**(arguments | given))


def test_a_module_is_looked_at_without_dropout_and_goes_on_training():
    features = nn.Sequential(nn.Conv2d(3, 2, 4, stride=4), nn.Dropout(0.5))
    state = torch.get_rng_state()
    assert shift_contents(features, torch.ones(1, 3, 12, 16), 4).errors.max() < 1e-6
    assert features[1].training and torch.equal(torch.get_rng_state(), state)


def test_no_diagnostic_leaves_a_graph_behind_in_a_compiled_model():
    """Other lengths made a training compile, again and again, until compilers gave up on it."""
    from torch._dynamo.utils import counters

    embedding, network = nn.Embedding(7, 32), pm.Transformer(32, 1, 2, causal=True)
    network.compile(backend="eager", fullgraph=True)

    def model(tokens, offset=0):
        return network(embedding(tokens).detach(), pm.sequence(tokens.shape[1], offset=offset))

    tokens = torch.randint(7, (2, 20))
    model(tokens)
    before = counters["stats"]["unique_graphs"]
    effective_context(model, tokens, last=2)
    shift_positions(lambda offset: model(tokens, offset), [1, 2])
    attention_maps(network, embedding(tokens).detach(), pm.sequence(20))
    model(tokens)
    assert counters["stats"]["unique_graphs"] == before > 0
