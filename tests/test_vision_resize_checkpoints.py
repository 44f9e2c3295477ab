"""Checkpoints of any kind become a timm model that computes what they computed."""

import io
import tarfile

import pytest
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F

pytest.importorskip("lightning")
import timm

from posenc_mm import ALiBi, Rotary
from posenc_mm.positions import grid
from posenc_mm.timm import attach, detach, resize
from vision.checkpoints import NORMALISATIONS, open_model
from vision.checkpoints_encoder import PostNormBlock, host_encoder

DIM, HEADS, DEPTH, PATCH, GRID = 24, 3, 2, 4, (3, 5)


class Peer(nn.Module):
    """A vision transformer as it is written without timm."""

    def __init__(self, activation="relu", norm_first=False, prefix=True, norm=True, grid=GRID):
        super().__init__()
        self.patch_embed = nn.Module()
        self.patch_embed.proj = nn.Conv2d(3, DIM, PATCH, PATCH)
        if prefix:
            self.cls_token = nn.Parameter(torch.randn(1, 1, DIM))
        cells = grid[0] * grid[1] + int(prefix)
        self.pos_embed = nn.Parameter(torch.randn(1, cells, DIM))
        layer = nn.TransformerEncoderLayer(
            DIM, HEADS, 40, 0.0, activation, batch_first=True, norm_first=norm_first
        )
        self.transformer = nn.TransformerEncoder(layer, DEPTH, enable_nested_tensor=False)
        parts = [nn.LayerNorm(DIM)] if norm else []
        self.mlp_head = nn.Sequential(*parts, nn.Linear(DIM, 7))
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.3)
        self.prefix = prefix

    def forward(self, images, table=None, mask=None):
        x = self.patch_embed.proj(images).flatten(2).transpose(1, 2)
        if self.prefix:
            x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1)
        x = x + (self.pos_embed if table is None else table)
        x = self.transformer(x, mask=mask)
        return self.mlp_head(x[:, 0] if self.prefix else x.mean(1))


def pictures(cells=GRID, count=4):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(count, 3, cells[0] * PATCH, cells[1] * PATCH, generator=generator)


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True])
def test_the_host_computes_what_the_encoder_computes(activation, norm_first):
    peer = Peer(activation, norm_first).eval()
    kinds = {"activation": activation, "norm_first": norm_first}
    model = host_encoder(peer.state_dict(), GRID, heads=HEADS, **kinds)
    images = pictures()
    torch.testing.assert_close(model(images), peer(images), atol=1e-5, rtol=1e-5)
    other = host_encoder(
        peer.state_dict(), GRID, heads=HEADS, activation=activation, norm_first=not norm_first
    )
    assert (other(images) - peer(images)).abs().max() > 0.1


@pytest.mark.parametrize(("prefix", "norm"), [(False, False), (False, True), (True, False)])
def test_hosts_without_class_token_or_norm(prefix, norm):
    peer = Peer(prefix=prefix, norm=norm).eval()
    model = host_encoder(peer.state_dict(), GRID, heads=HEADS)
    images = pictures()
    torch.testing.assert_close(model(images), peer(images), atol=1e-5, rtol=1e-5)


def test_a_host_resizes_its_table_and_not_its_prefix():
    peer = Peer().eval()
    model = host_encoder(peer.state_dict(), GRID, heads=HEADS)
    cells = (6, 4)
    resize(model, (cells[0] * PATCH, cells[1] * PATCH), rule="bicubic")
    square = peer.pos_embed[:, 1:].reshape(1, *GRID, DIM).permute(0, 3, 1, 2)
    larger = F.interpolate(square, cells, mode="bicubic", align_corners=False)
    table = torch.cat([peer.pos_embed[:, :1], larger.flatten(2).transpose(1, 2)], 1)
    images = pictures(cells)
    torch.testing.assert_close(model(images), peer(images, table), atol=1e-5, rtol=1e-5)


def test_a_bias_attached_to_a_host_is_the_encoder_s_own_mask():
    peer = Peer().eval()
    model = host_encoder(peer.state_dict(), GRID, heads=HEADS)
    images = pictures()
    before = model(images)
    bias = ALiBi(HEADS)
    attach(model, bias=bias, keep_native=True)
    points = grid(*GRID)
    mask = F.pad(bias(points, points), (1, 0, 1, 0)).repeat(len(images), 1, 1)
    torch.testing.assert_close(model(images), peer(images, mask=mask), atol=1e-5, rtol=1e-5)
    assert torch.equal(detach(model)(images), before)
    attach(model, rotary=Rotary(DIM // HEADS, axes=2), keep_native=True)
    assert (model(images) - before).abs().max() > 0.01
    assert all(isinstance(block, PostNormBlock) for block in detach(model).blocks)


def test_what_an_encoder_s_file_does_not_say_is_asked_for(tmp_path):
    torch.save(Peer().state_dict(), tmp_path / "vit.pth")
    with pytest.raises(ValueError, match=r"give --heads \(a divisor of 24: \[1, 2, 3, 4, 6, 8"):
        open_model(str(tmp_path / "vit.pth"))
    with pytest.raises(ValueError, match="table of 15 patches, which is no square"):
        open_model(str(tmp_path / "vit.pth"), heads=HEADS)
    with pytest.raises(ValueError, match="heads must divide the width 24, got heads=5"):
        open_model(str(tmp_path / "vit.pth"), heads=5, native=(12, 20))
    with pytest.raises(ValueError, match=r"1 \+ 5 x 5 rows of 24, got shape \(1, 16, 24\)"):
        open_model(str(tmp_path / "vit.pth"), heads=HEADS, native=(20, 20))
    opened = open_model(str(tmp_path / "vit.pth"), heads=HEADS, native=(12, 20))
    assert (opened.native, opened.patch, opened.classes) == ((12, 20), (4, 4), 7)
    assert opened.normalisation is None and "after the sums" in opened.notes[0]


def test_a_square_table_is_taken_for_a_square_and_that_is_said(tmp_path):
    torch.save({"model": Peer(grid=(4, 4)).state_dict()}, tmp_path / "vit.pth")
    opened = open_model(str(tmp_path / "vit.pth"), heads=HEADS)
    assert opened.native == (16, 16)
    assert "taken for 4 x 4" in opened.notes[1]


def test_weights_of_a_timm_network(tmp_path):
    torch.manual_seed(3)
    sizes = {"img_size": (32, 48), "num_classes": 5}
    model = timm.create_model("test_vit", **sizes).eval()
    torch.save(model.state_dict(), tmp_path / "vit.pth")
    path = str(tmp_path / "vit.pth")
    opened = open_model(path, name="test_vit", native=(32, 48))
    images = torch.randn(2, 3, 32, 48)
    assert torch.equal(opened.model(images), model(images))
    assert opened.classes == 5 and opened.normalisation == ((0.5,) * 3, (0.5,) * 3)
    with pytest.raises(ValueError, match="does not say which network"):
        open_model(path)
    # The table would fit no other grid: nothing is resized on the quiet.
    with pytest.raises(ValueError, match=r"pos_embed \(1, 7, 64\) in the file.*--native"):
        open_model(path, name="test_vit", native=(48, 48))
    with pytest.raises(ValueError, match="test_vitt"):
        open_model(path, name="test_vitt")


def test_sources_that_are_none(tmp_path):
    for source in ("nowhere.pth", str(tmp_path)):
        with pytest.raises(ValueError, match="must be a file of weights"):
            open_model(source)
    with pytest.raises(ValueError, match="'vit_tinny'.*close ones"):
        open_model("vit_tinny")
    (tmp_path / "broken.pth").write_bytes(b"not a checkpoint")
    with pytest.raises(ValueError, match="must be a state dict of tensors"):
        open_model(str(tmp_path / "broken.pth"))
    torch.save(nn.Linear(2, 2), tmp_path / "whole.pth")  # code, which is never run
    with pytest.raises(ValueError, match="must be a state dict of tensors"):
        open_model(str(tmp_path / "whole.pth"))
    with pytest.raises(ValueError, match="leave it out for the file"):
        open_model(str(tmp_path / "broken.pth"), pretrained=True)
    assert "random weights" in open_model("test_vit").notes[0]


def some_cifar(path, each):
    """The first test pictures of each class, as they come in the archive."""
    found: dict[str, list[torch.Tensor]] = {}
    with tarfile.open(path) as archive:
        for member in archive:
            part, *name = member.name.split("/")
            if part != "test" and found:
                break
            if part == "test" and member.isfile() and len(found.setdefault(name[0], [])) < each:
                image = Image.open(io.BytesIO(archive.extractfile(member).read())).convert("RGB")
                pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
                found[name[0]].append(pixels.reshape(32, 32, 3).permute(2, 0, 1))
    classes = sorted(found)
    images = torch.cat([torch.stack(found[name]) for name in classes])
    return images.float() / 255, torch.arange(10).repeat_interleave(each)


def test_real_weights_on_real_pictures(data_dir):
    path = data_dir / "vit_cifar10.pth"
    if not path.is_file() or not (data_dir / "cifar10.tar.xz").is_file():
        pytest.skip("vit_cifar10.pth and cifar10.tar.xz are not there")
    opened = open_model(str(path), heads=8)
    images, labels = some_cifar(data_dir / "cifar10.tar.xz", 40)
    mean, std = (torch.tensor(each)[:, None, None] for each in NORMALISATIONS["imagenet"])
    images = (images - mean) / std

    def right(pixels):
        with torch.inference_mode():
            return (opened.model(pixels).argmax(1) == labels).float().mean().item()

    assert right(images) > 0.63  # 71 % on 2,000 pictures
    table = opened.model.pos_embed.detach().clone()
    opened.model.pos_embed.data[:, 1:] = 0
    assert right(images) < 0.63  # 58 %
    opened.model.pos_embed.data = table
