"""``python -m vision resize``: what it measures is right, what it says follows, and it goes on."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from torch.nn import functional as F

pytest.importorskip("lightning")
from test_vision_resize_checkpoints import DIM, GRID, HEADS, Peer

from vision.cli import main
from vision.resizing import trying

CLASSES = ("ant", "bee", "cat", "dog", "elk", "fox", "gnu")
SIZES = ["12x20", "24x16", "24x40"]
FAST = ["--heads", str(HEADS), "--native", "12x20", "--normalise", "half", "--sizes", *SIZES]


def paint(folder, names=CLASSES, count=3):
    generator = np.random.default_rng(0)
    for name in names:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            pixels = generator.integers(0, 256, (12, 20, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    torch.save(Peer().state_dict(), tmp_path / "vit.pth")
    return tmp_path


def resize(*words):
    main(["resize", "vit.pth", *FAST, *map(str, words)])


def told(folder="runs/vision/resize-vit"):
    with open(f"{folder}/report.json") as file:
        return json.load(file)


def test_accuracy_is_that_of_the_encoder_with_the_table_resized_by_hand(here, capsys):
    torch.manual_seed(5)
    peer = Peer()
    torch.save(peer.state_dict(), here / "vit.pth")
    peer.eval()
    folder = paint(here / "pictures")
    resize("--images", folder, "--rules", "bicubic", "naflex")
    printed = capsys.readouterr().out

    paths = [folder / name / f"{number}.png" for name in CLASSES for number in range(3)]
    pixels = torch.stack([torch.tensor(np.array(Image.open(path))) for path in paths])
    images = (pixels.permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.5
    labels = torch.arange(len(CLASSES)).repeat_interleave(3)
    twice = F.interpolate(images, (24, 40), mode="bilinear", antialias=True)
    table = peer.pos_embed[:, 1:].reshape(1, *GRID, DIM).permute(0, 3, 1, 2)
    kinds = {"bicubic": {}, "naflex": {"mode": "bilinear", "antialias": True}}
    frame = pd.read_csv("runs/vision/resize-vit/results.csv").set_index(["row", "height", "width"])
    for rule, how in kinds.items():
        larger = F.interpolate(table, (6, 10), **{"mode": "bicubic", **how})
        larger = torch.cat([peer.pos_embed[:, :1], larger.flatten(2).transpose(1, 2)], 1)
        right = (peer(twice, larger).argmax(1) == labels).float().mean().item()
        assert frame.loc[(rule, 24, 40), "accuracy"] == pytest.approx(right)
    native = peer(images).argmax(1)
    assert frame.loc[("native", 12, 20), "accuracy"] == pytest.approx(
        (native == labels).float().mean().item()
    )
    back = F.interpolate(twice, (12, 20), mode="bilinear", antialias=True)
    shrunk = (peer(back).argmax(1) == native).float().mean().item()
    row = frame.loc[("picture brought to the native size first", 24, 40)]
    assert row["agreement"] == pytest.approx(shrunk)
    assert "alphabetical order: ant, bee, cat" in printed
    for file in ("results.csv", "report.json", "report.md", "picture.png"):
        assert f"runs/vision/resize-vit/{file}" in printed
        assert (here / "runs/vision/resize-vit" / file).stat().st_size > 500


def test_it_goes_on_where_it_stopped(here, monkeypatch, capsys):
    words = ["--images", paint(here / "pictures"), "--rules", "timm", "bilinear"]
    done = []
    look = trying.look

    def interrupted(*args, **kwargs):
        done.append(1)
        if len(done) == 4:
            raise KeyboardInterrupt
        return look(*args, **kwargs)

    monkeypatch.setattr(trying, "look", interrupted)
    with pytest.raises(SystemExit) as end:
        resize(*words)
    assert end.value.code == 130 and "the same command goes on" in capsys.readouterr().out
    kept = sorted(path.name for path in (here / "runs/vision/resize-vit/runs").iterdir())
    assert kept == ["native-native-12x20.json", "rule-timm-24x16.json", "rule-timm-24x40.json"]
    resize(*words)
    assert "3 kept from before" in capsys.readouterr().out
    first = told()["rows"]
    resize(*words)
    assert ": 0 to do" in capsys.readouterr().out
    assert told()["rows"] == first

    torch.manual_seed(9)
    torch.save(Peer().state_dict(), here / "vit.pth")
    resize(*words)
    assert ", 0 kept from before" in capsys.readouterr().out
    assert told()["rows"] != first


@pytest.mark.parametrize("names", [("",), CLASSES[:3]], ids=["no classes", "other classes"])
def test_pictures_without_the_model_s_classes_show_the_drift(here, names, capsys):
    resize("--images", paint(here / "pictures", names, 4), "--rules", "bilinear", "nearest")
    printed = capsys.readouterr().out
    assert "drift of features" in printed and "%" not in printed.split("measurements")[1][:300]
    report = told()
    assert report["measure"] == "cosine"
    rows = {(row["row"], tuple(row["size"])): row for row in report["rows"]}
    native = rows["native", (12, 20)]
    assert native["cosine_class_token"] == pytest.approx(1) and native["distance_pooled"] == 0
    for rule in ("bilinear", "nearest"):
        row = rows[rule, (24, 40)]
        assert row["accuracy"] is None and 0.5 < row["cosine_pooled"] < 0.99999
        assert row["distance_class_token"] > 0.01


def test_a_row_is_trained_once_and_leaves_the_model_as_it_was(here, monkeypatch, capsys):
    words = ["--images", paint(here / "pictures", count=10), "--rules", "bicubic"]
    words += ["--attach", "nothing", "alibi_2d", "--train-limit", "70", "--batch-size", "10"]
    words += ["--train-size", "24x16"]
    resize(*words)
    assert "trained" in capsys.readouterr().out
    report = told()
    rows = {row["row"]: row for row in report["rows"] if row["size"] == [24, 16]}
    plain, biased = (rows[f"{n}, trained 1 epoch at 24x16 px"] for n in ("nothing", "alibi_2d"))
    assert plain["pictures"] == 56 and plain["numbers"] == biased["numbers"] > 1000
    assert plain["cosine_pooled"] != biased["cosine_pooled"]
    assert any(said.startswith("Trained, at 24x16 px") for said in report["verdict"])

    # Measured anew from the weights that were kept, a row is as it was.
    folder = here / "runs/vision/resize-vit"
    (folder / "runs/trained-alibi_2d-24x16.json").unlink()
    monkeypatch.setattr(trying, "tune", pytest.fail)
    resize(*words)
    again = {row["row"]: row for row in told()["rows"] if row["size"] == [24, 16]}
    name = biased["row"]
    assert again[name]["cosine_pooled"] == pytest.approx(biased["cosine_pooled"])
    kept = torch.load(folder / "trained/nothing.pt", weights_only=True)["state"]
    assert kept["pos_embed"].shape == (1, 1 + 6 * 4, DIM)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--sizes", "26"], "whole patches of 4 x 4 px, got 26x26; the nearest is 24x24"),
        (["--images", "nowhere"], "nothing at nowhere"),
        (["--images", "."], "found none in"),
        (["--normalise", "auto"], "give --normalise, one of"),
        (["--images", "few", "--attach", "nothing"], "tells 7 apart, the pictures have 2"),
        (["--images", "all", "--attach", "nought"], "'nothing', a YAML file or one of"),
        (["--images", "all", "--attach", "axial_rope", "--heads", "24"], "head_dim"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_measured(here, words, message):
    paint(here / "few", CLASSES[:2], count=10)
    paint(here / "all", count=10)
    (here / "cache").mkdir(exist_ok=True)
    if "." in words:
        words[words.index(".")] = str(here / "cache")
    with pytest.raises(SystemExit, match=message):
        resize(*words)
    assert not (here / "runs").exists()


@pytest.mark.parametrize(
    "words",
    [["--sizes", "0"], ["--sizes", "a"], ["--rules", "cubic"], ["--limit", "0"], ["--lr", "0"],
     ["--attach", "nothing"], ["--train-size", "64"], ["--size", "64"]],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(here, words, capsys):
    with pytest.raises(SystemExit) as end:
        resize(*words)
    assert end.value.code == 2 and "error" in capsys.readouterr().err


def test_the_options_can_be_printed(here, capsys):
    with pytest.raises(SystemExit) as end:
        resize("--print_config")
    assert end.value.code == 0
    assert json.loads(capsys.readouterr().out)["sizes"] == [[12, 20], [24, 16], [24, 40]]


def test_timm_networks_on_the_embedded_photographs(here, capsys):
    words = ["--sizes", "96x128", "--rules", "timm", "bilinear", "--limit", "4"]
    main(["resize", "test_vit", "--native", "64x96", *words])
    assert "random weights" in capsys.readouterr().out
    report = told("runs/vision/resize-test_vit")
    rows = {row["row"]: row for row in report["rows"] if row["size"] == [96, 128]}
    assert rows["patches resized instead, as many as before"].get("refused")
    assert 0 < rows["timm"]["cosine_pooled"] < 1


def test_a_cut_into_larger_patches_keeps_the_grid():
    class Opened:
        native, patch = (32, 64), (4, 8)

    assert trying.larger_patch(Opened, (64, 64)) == (8, 8)
    assert trying.larger_patch(Opened, (40, 96)) == (5, 12)
    assert trying.larger_patch(Opened, (36, 64)) is None
