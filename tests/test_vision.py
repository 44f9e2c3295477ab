"""The image classifier: any timm network, the three slots, and checkpoints that know them."""

import pytest
import torch
from torch.nn import functional as F

pytest.importorskip("lightning")
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset

from posenc_mm import ALiBi, Learned, LearnedFourier, MixedRotary, RelativeBias, Rotary, Sinusoidal
from vision.module import ImageClassifier
from vision.networks import Widths, create, widths

# Rows, columns and channels differ from each other, from the batch and from the heads.
ARGS = {"patch_size": 4, "embed_dim": 24, "depth": 2, "num_heads": 3, "class_token": False}
ARGS |= {"global_pool": "avg", "pos_embed": "none"}
SHAPE = {"classes": 5, "image_size": (8, 16), "channels": 2}
ENCODINGS = {
    "learned": lambda: {"additive": Learned(24, (2, 4))},
    "sinusoidal": lambda: {"additive": Sinusoidal(24, 2)},
    "learned_fourier": lambda: {"additive": LearnedFourier(24, 2)},
    "axial": lambda: {"rotary": Rotary(8, 2)},
    "mixed": lambda: {"rotary": MixedRotary(8, 3, 2)},
    "relative": lambda: {"bias": RelativeBias(3, (2, 4))},
    "alibi": lambda: {"bias": ALiBi(3)},
    "two": lambda: {"additive": Learned(24, (2, 4)), "rotary": Rotary(8, 2)},
}


def classifier(network="vit_tiny_patch16_224", args=ARGS, **kwargs):
    torch.manual_seed(0)
    return ImageClassifier(network, args, **{**SHAPE, **kwargs})


def images(*size, count=4):
    return torch.randn(count, 2, *size, generator=torch.Generator().manual_seed(1))


def swapped(batch):
    """The same images with two patches of each in each other's place."""
    out = batch.clone()
    out[..., :4, :4], out[..., 4:8, 8:12] = batch[..., 4:8, 8:12], batch[..., :4, :4]
    return out


@pytest.mark.parametrize("name", ENCODINGS)
def test_slots_tell_order_at_every_size(name):
    model = classifier(**ENCODINGS[name]()).eval()
    for size in ((8, 16), (12, 24), (20, 12)):
        batch = images(*size)
        logits = model(batch)
        assert logits.shape == (4, 5)
        assert not torch.allclose(logits, model(swapped(batch)), atol=1e-7)
    model(images(8, 16)).square().sum().backward()
    learned = [p for e in ENCODINGS[name]().values() for p in e.parameters()]
    own = [p for n, p in model.named_parameters() if "posenc" in n]
    assert len(own) == len(learned)
    assert all(parameter.grad is not None for parameter in own)


@pytest.mark.parametrize("native", ["none", "learn"])
def test_empty_slots_are_no_encoding_even_over_a_native_one(native):
    model = classifier(args={**ARGS, "pos_embed": native}).eval()
    batch = images(8, 16)
    torch.testing.assert_close(model(batch), model(swapped(batch)))
    kept = classifier(args={**ARGS, "pos_embed": "learn"}, keep_native=True).eval()
    assert not torch.allclose(kept(batch), kept(swapped(batch)), atol=1e-7)


def test_a_bypassed_native_table_is_not_trained():
    model = classifier(args={**ARGS, "pos_embed": "learn"}, rotary=Rotary(8, 2))
    model(images(8, 16)).sum().backward()
    assert all((p.grad is not None) == p.requires_grad for p in model.parameters())


def test_any_network_is_a_baseline_with_what_it_has():
    model = classifier("resnet18", None, keep_native=True)
    assert model(images(32, 64)).shape == (4, 5)
    with pytest.raises(ValueError, match="ResNet"):
        classifier("resnet18", None)


def test_networks_are_refused_plainly():
    with pytest.raises(ValueError, match="'vit_tinny'.*close ones: .*vit_"):
        create("vit_tinny")
    for name in ("img_size", "in_chans", "num_classes"):
        with pytest.raises(ValueError, match=f"{name!r}, which comes from the"):
            create("vit_tiny_patch16_224", {name: 3})
    with pytest.raises(TypeError, match="embed_dimm"):
        create("vit_tiny_patch16_224", {"embed_dimm": 3})


def test_widths_are_those_of_the_network():
    assert widths("vit_tiny_patch16_224", ARGS, (8, 16)) == Widths(24, 3, 8, (2, 4))
    assert widths("eva02_tiny_patch14_224", None, 56) == Widths(192, 3, 64, (4, 4))
    # Pretrained weights are not fetched to read off a width.
    pretrained = widths("vit_small_patch16_224", {"pretrained": True}, 224)
    assert pretrained == Widths(384, 6, 64, (14, 14))
    with pytest.raises(ValueError, match="one grid of patches.*'resnet18', a ResNet"):
        widths("resnet18", None, 32)


def test_losses():
    model = classifier(label_smoothing=0.3, rotary=Rotary(8, 2))
    model.log = lambda *args, **kwargs: None
    batch, labels = images(8, 16), torch.tensor([0, 4, 2, 2])
    logits = model(batch)
    rows = F.log_softmax(logits, -1)
    # Smoothing moves its share of each target evenly onto all classes.
    target = 0.7 * F.one_hot(labels, 5) + 0.3 / 5
    torch.testing.assert_close(
        model.training_step((batch, labels), 0), -(target * rows).sum(1).mean()
    )
    probabilities = model.predict_step((batch, labels), 0)
    torch.testing.assert_close(probabilities, rows.exp())


def trainer(path, **kwargs):
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    return Trainer(accelerator="cpu", default_root_dir=path, **quiet, **kwargs)


def test_accuracy_is_over_all_images_of_each_size(tmp_path):
    model = classifier(additive=Learned(24, (2, 4)))
    labels = torch.randint(5, (7,))
    # Batches of 3, 3 and 1: a mean of their means would be another number.
    sizes = ((8, 16), (16, 16), (12, 8))
    sets = [TensorDataset(images(*size, count=7), labels) for size in sizes]
    loaders = [DataLoader(one, batch_size=3) for one in sets]
    (first, second, third) = trainer(tmp_path).test(model, loaders, verbose=False)
    scores = first | second | third
    model.eval()
    for name, one in zip(("", "_16", "_12x8"), sets, strict=True):
        logits = model(one.tensors[0])
        right = (logits.argmax(-1) == labels).float().mean().item()
        assert scores[f"test/accuracy{name}"] == pytest.approx(right)
        assert scores[f"test/loss{name}"] == pytest.approx(F.cross_entropy(logits, labels).item())


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint of a model built in Python, whose slots its hyperparameters cannot hold."""
    run = trainer(tmp_path)
    run.strategy.connect(classifier(rotary=MixedRotary(8, 3, 2)))
    run.save_checkpoint(tmp_path / "mixed.ckpt")
    return tmp_path / "mixed.ckpt"


def test_a_checkpoint_loads_under_its_encoding(checkpoint):
    model = ImageClassifier.load_from_checkpoint(checkpoint, rotary=MixedRotary(8, 3, 2))
    trained = classifier(rotary=MixedRotary(8, 3, 2))
    batch = images(8, 16)
    torch.testing.assert_close(model.cpu().eval()(batch), trained.eval()(batch))


@pytest.mark.parametrize(
    ("slots", "named"),
    [
        ({}, ["this model has none"]),
        ({"rotary": Rotary(8, 2)}, ["has Rotary(head_dim=8, axes=2"]),
        ({"rotary": MixedRotary(8, 3, 2, base=100.0)}, ["base=10.0", "base=100.0"]),
        (
            {"rotary": MixedRotary(8, 3, 2), "bias": ALiBi(3)},
            ["trained with none", "ALiBi(heads=3"],
        ),
        ({"rotary": MixedRotary(8, 3, 2), "keep_native": True}, ["replaced", "kept"]),
    ],
)
def test_a_checkpoint_under_another_encoding_is_an_error_naming_both(checkpoint, slots, named):
    with pytest.raises(ValueError, match="trained with another encoding") as refusal:
        ImageClassifier.load_from_checkpoint(checkpoint, **slots)
    for part in named:
        assert part in str(refusal.value)
    if "bias" not in slots and "keep_native" not in slots:
        assert "trained with MixedRotary(head_dim=8, heads=3" in str(refusal.value)


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    run = trainer(tmp_path)
    run.strategy.connect(LightningModule())
    run.save_checkpoint(tmp_path / "other.ckpt")
    with pytest.raises(ValueError, match="must say which encoding"):
        ImageClassifier.load_from_checkpoint(tmp_path / "other.ckpt", strict=False)
