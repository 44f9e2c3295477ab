"""The parts of ``vision resize``: scores, which pictures, the table, the words, training."""

import math

import numpy as np
import pytest
import torch

pytest.importorskip("lightning")
import timm
from torch.utils.data import DataLoader, TensorDataset

from posenc_mm.resizing import RULES
from vision import finetune
from vision.checkpoints import Opened
from vision.data.base import Cover
from vision.data.stored import Memory
from vision.resizing.asking import distinct
from vision.resizing.measuring import Seen, compare, look
from vision.resizing.pictures import Photographs, first_of_each
from vision.resizing.reporting import markdown, table_of
from vision.resizing.trying import Row, run
from vision.resizing.verdict import difference, verdict

CPU = torch.device("cpu")
NATIVE = (32, 32)


def tiny(**kwargs):
    sizes = {"img_size": (32, 48), "num_classes": 5, "dynamic_img_size": True}
    return timm.create_model("test_vit", **{**sizes, **kwargs}).eval()


def batches(count=6, size=(32, 48)):
    generator = torch.Generator().manual_seed(2)
    images = torch.randn(count, 3, *size, generator=generator)
    return DataLoader(TensorDataset(images, torch.arange(count) % 5), batch_size=4)


def test_features_and_predictions_are_the_model_s():
    model, loader = tiny(reg_tokens=2), batches()
    seen = look(model, loader, CPU)
    images = torch.cat([batch for batch, _ in loader])
    with torch.no_grad():
        tokens = model.forward_features(images)
        torch.testing.assert_close(seen.features["class_token"], tokens[:, 0])
        torch.testing.assert_close(seen.features["pooled"], tokens[:, 3:].mean(1))
        assert torch.equal(seen.predicted, model(images).argmax(1))
    assert tokens.shape[1] == 3 + 6
    bare = look(tiny(class_token=False, global_pool="avg", num_classes=0), loader, CPU)
    assert bare.predicted is None and list(bare.features) == ["pooled"]


def test_features_that_are_not_finite_are_refused():
    model = tiny()
    model.norm.weight.data[3] = float("nan")
    with pytest.raises(ValueError, match="not finite"):
        look(model, batches(), CPU)


class Pictures:
    """What hands out the pictures of the sizes it is told."""

    def test_dataloader(self):
        return [batches(size=size) for size in self.test_sizes]


def test_a_way_is_run_and_undone():
    model = tiny()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    opened = Opened(model, (32, 48), (16, 16), None, ())
    known = []
    seen = {}
    for name in ("bicubic", "mae", "nearest"):
        row = Row(name, "rule", name)
        seen[name] = run(opened, row, (48, 96), Pictures(), CPU, known)
    assert seen["mae"] is seen["bicubic"] and len(known) == 2
    assert not torch.equal(seen["nearest"].features["pooled"], seen["mae"].features["pooled"])
    text = run(opened, Row("vjepa2", "rule", "vjepa2"), (48, 96), Pictures(), CPU, known)
    assert "scales all axes alike" in text

    row = Row("zeroed", "baseline", "zero")
    found = run(opened, row, (48, 96), Pictures(), CPU, known)
    bare = tiny()
    bare.load_state_dict(before)
    bare.pos_embed.data[:, 1:] = 0
    expected = look(bare, batches(size=(48, 96)), CPU)
    torch.testing.assert_close(found.features, expected.features)

    model.norm.weight.data[3] = float("nan")
    with pytest.raises(ValueError, match="not finite"):
        run(opened, row, (48, 96), Pictures(), CPU, known)
    model.norm.weight.data[3] = before["norm.weight"][3]
    after = model.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert model.patch_embed.grid_size == (2, 3)

    none = Opened(tiny(pos_embed="none"), (32, 48), (16, 16), None, ())
    assert "has no table" in run(none, row, (48, 96), Pictures(), CPU, known)


def test_scores_by_hand():
    first = torch.tensor([[3.0, 4.0], [1.0, 0.0], [0.0, 2.0]])
    second = torch.tensor([[4.0, 3.0], [1.0, 0.0], [2.0, 0.0]])
    seen = Seen(torch.tensor([0, 1, 2]), {"pooled": second, "class_token": first})
    native = Seen(torch.tensor([0, 2, 2]), {"pooled": first, "class_token": first})
    labels = torch.tensor([0, 1, 1])
    found = compare(seen, native, labels)
    assert found["accuracy"] == pytest.approx(2 / 3) == found["agreement"]
    assert found["scores"] == [1, 1, 0]
    assert found["cosine_pooled"] == pytest.approx((24 / 25 + 1 + 0) / 3)
    assert found["distance_pooled"] == pytest.approx((math.sqrt(2) / 5 + 0 + math.sqrt(2)) / 3)
    assert found["cosine_class_token"] == pytest.approx(1)
    drift = compare(seen, native, None)
    assert drift["accuracy"] is None
    assert drift["scores"] == pytest.approx([(1 + 24 / 25) / 2, 1, 1 / 2])


def test_as_many_of_each_class_the_first_ones():
    labels = [2, 0, 0, 1, 0, 2, 1, 2, 2]
    stored = Memory(torch.arange(9, dtype=torch.uint8).reshape(9, 1, 1, 1), labels)
    chosen = first_of_each(stored, 6)
    assert chosen.rows.tolist() == [0, 1, 2, 3, 5, 6]
    part = stored.select(torch.tensor([8, 7, 4, 2]))
    assert first_of_each(part, 2).rows.tolist() == [8, 4]
    assert len(first_of_each(stored, 100)) == 9


def test_the_photographs_are_all_different():
    data = Photographs((32, 32), 8)
    data.setup("test")
    pieces = torch.stack([image for image, _ in data.split.test]).float()
    assert pieces.shape[1:] == (3, 260, 260) and len(pieces) > 20
    assert (torch.pdist(pieces.flatten(1)) > 1000).all()


def test_rules_are_tried_once_each():
    names = distinct()
    assert len({RULES[name] for name in names}) == len(names)
    left = {name for name, rule in RULES.items() if not rule.keep_aspect}
    assert {RULES[name] for name in left} == {RULES[name] for name in names}


def result(row, kind, size, scores, what=None):
    return {"row": row, "kind": kind, "what": what or row, "size": list(size), "scores": scores}


def many(share, count=400, shift=0):
    scores = np.zeros(count)
    scores[np.arange(round(share * count)) + shift] = 1.0
    return scores.tolist()


def results():
    far, wide = (64, 64), (48, 64)
    return [
        result("native", "native", NATIVE, many(0.8)),
        result("a", "rule", far, many(0.30)),
        result("a", "rule", wide, many(0.50)),
        result("b", "rule", far, many(0.31)),
        result("b", "rule", wide, many(0.50)),
        result("c", "rule", far, many(0.10)),
        result("c", "rule", wide, many(0.20)),
        {"row": "d", "kind": "rule", "what": "d", "size": [48, 64], "refused": "aspect"},
        result("d", "rule", far, many(0.9)),
        result("shrunk", "baseline", far, many(0.7), "shrink"),
        result("shrunk", "baseline", wide, many(0.50, shift=1), "shrink"),
        result("tuned x", "trained", far, many(0.75), "x"),
        result("tuned y", "trained", far, many(0.60), "y"),
    ]


def words(found):
    scores = {(r["row"], tuple(r["size"])): r["scores"] for r in found if "scores" in r}
    return verdict(scores, found, NATIVE, True)


def test_the_words_say_what_the_numbers_can_tell_apart():
    said = words(results())
    assert said[0].startswith("The rule that keeps most is b: 40.5 % on average over 64 and 48x64")
    assert said[0].endswith("of 80.0 % at the native 32 px.")
    assert said[1] == "At 64 px another way keeps more than b (31.0 %): shrunk (70.0 %)."
    assert said[2] == (
        "Trained, at 64 px (b untrained: 31.0 %): tuned x: 75.0 %; tuned y: 60.0 %. "
        "First is tuned x."
    )
    assert len(said) == 3
    close = [dict(one) for one in results()]
    close[3]["scores"] = many(0.30, shift=1)
    assert words(close)[0].endswith("These pictures cannot tell it from b.")
    assert "beyond the native size" in words(results()[:1])[0]


def test_paired_differences_are_sharper_than_their_parts():
    generator = np.random.default_rng(0)
    hard = generator.random(1000)
    first, second = (hard < 0.52).astype(float), (hard < 0.5).astype(float)
    mean, error = difference(first, second)
    assert mean == pytest.approx((first - second).mean())
    assert error == pytest.approx(np.std(first - second, ddof=1) / math.sqrt(1000))
    assert mean > 2 * error  # not so by the errors of the two shares, which are 0.016 each


def test_the_table_holds_each_number_where_it_belongs():
    table = table_of(results(), NATIVE)
    assert table["row"].tolist() == ["b", "a", "c", "d", "shrunk", "tuned x", "tuned y"]
    assert list(table.columns) == ["row", "kind", "32", "48x64", "64", "mean"]
    lines = markdown(table, True).splitlines()
    assert lines[2] == "| b | 80.0 | 50.0 | 31.0 | 40.5 |"
    assert lines[5] == "| d | 80.0 | - | 90.0 | - |"
    assert lines[6] == "| shrunk | 80.0 | 50.0 | 70.0 | 60.0 |"
    assert lines[7] == "| tuned x | - | - | 75.0 | - |"


@pytest.mark.parametrize("name", list(finetune.overlays()))
@pytest.mark.parametrize("keep", [True, False])
def test_every_overlay_attaches_and_trains(name, keep):
    model = tiny()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    finetune.attach_named(model, name, keep_native=keep)
    losses = []
    finetune.tune(
        model, batches(), epochs=2, lr=1e-3, device=CPU, tell=lambda *told: losses.append(told)
    )
    assert [share for share, _ in losses] == [0.25, 0.5, 0.75, 1.0]
    assert not model.training
    after = model.state_dict()
    moved = {key for key, value in before.items() if not torch.equal(value, after[key])}
    assert ("pos_embed" in moved) == keep and "blocks.0.attn.qkv.weight" in moved


def test_training_lowers_the_loss_and_the_rest_can_be_frozen():
    model = tiny()
    count = finetune.choose_trainable(model, "attention")
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert count == sum(p.numel() for n, p in model.named_parameters() if n in trained)
    assert all(".attn." in name or name == "pos_embed" for name in trained) and len(trained) > 4
    losses = []
    tell = lambda _, loss: losses.append(loss)  # noqa: E731
    finetune.tune(model, batches(), epochs=30, lr=1e-2, device=CPU, tell=tell)
    assert sum(losses[-4:]) < 0.6 * sum(losses[:4])
    assert model.head.weight.grad is None


def test_what_cannot_be_attached_is_refused(tmp_path):
    with pytest.raises(ValueError, match="or one of .*'axial_rope'.*got 'axial'"):
        finetune.attach_named(tiny(), "axial", keep_native=True)
    (tmp_path / "empty.yaml").write_text("model:\n  rotary: null\n")
    with pytest.raises(ValueError, match="must fill one of the slots"):
        finetune.attach_named(tiny(), str(tmp_path / "empty.yaml"), keep_native=True)


@pytest.mark.parametrize("name", ["bilinear", "bicubic", "nearest"])
def test_pictures_are_enlarged_as_asked_for(name):
    pixels = torch.rand(2, 3, 6, 8)
    seen = Cover((12, 16), name)(pixels)
    smooth = {} if name == "nearest" else {"antialias": True}
    wanted = torch.nn.functional.interpolate(pixels, (12, 16), mode=name, **smooth)
    torch.testing.assert_close(seen, wanted.clamp(0, 1))
