"""A trained vision transformer, from a file or by a name of timm's, and what it was trained on."""

from dataclasses import dataclass
from math import isqrt
from pathlib import Path
from typing import Any

import timm
from timm.models import load_state_dict
from torch import Tensor, nn

from vision.checkpoints_encoder import host_encoder, is_encoder
from vision.networks import create

ENDINGS = (".pth", ".pt", ".bin", ".safetensors", ".ckpt", ".tar")
# Means and standard deviations that pictures are commonly normalised by, as (R, G, B).
NORMALISATIONS = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "cifar100": ((0.5071, 0.4865, 0.4409), (0.2673, 0.2564, 0.2762)),
    "clip": ((0.4815, 0.4578, 0.4082), (0.2686, 0.2613, 0.2758)),
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "none": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
}


@dataclass(frozen=True)
class Opened:
    """A model, ready to run at its native size, and what the file or the name told of it.

    Attributes:
        model: in evaluation mode.
        native: the pixels it was trained at, (height, width).
        patch: the pixels of a patch, (height, width).
        normalisation: mean and standard deviation of its pictures, None where nothing tells.
        notes: what was taken for granted, to be said.
    """

    model: nn.Module
    native: tuple[int, int]
    patch: tuple[int, int]
    normalisation: tuple[tuple[float, ...], tuple[float, ...]] | None
    notes: tuple[str, ...]

    @property
    def channels(self) -> int:
        return self.model.patch_embed.proj.in_channels

    @property
    def classes(self) -> int:
        return self.model.num_classes


def open_model(
    source: str,
    *,
    name: str | None = None,
    pretrained: bool = False,
    native: tuple[int, int] | None = None,
    heads: int | None = None,
    activation: str = "relu",
    norm_first: bool = False,
) -> Opened:
    """Open a checkpoint, or create a network of timm's.

    Args:
        source: a file of weights, or a name that ``timm.create_model`` knows.
        name: timm's name of the network whose weights the file holds.
        pretrained: fetch timm's weights for the name.
        native: pixels it was trained at, (height, width), where that is not the network's own size.
        heads: of a plain ``nn.TransformerEncoder``, whose file does not say.
        activation: of such an encoder.
        norm_first: whether such an encoder normalises first.

    Returns:
        The model and what is known of it.

    Raises:
        ValueError: there is no such file or name, the weights do not fit, or something is missing
            that the file does not say.
    """
    path = Path(source).expanduser()
    if not path.is_file():
        if path.suffix in ENDINGS or path.exists():
            raise ValueError(f"checkpoint must be a file of weights, but {path} is none")
        return _by_name(source, name, pretrained, native)
    if pretrained:
        raise ValueError(f"pretrained is for a name of timm's, leave it out for the file {path}")
    state = _read(path)
    if is_encoder(state) and name is None:
        return _encoder(state, path, native, heads, activation, norm_first)
    if name is None:
        raise ValueError(
            f"{path.name} does not say which network it is of, give its name in timm as "
            f"--model NAME; it holds {sorted(state)[:5]} and {max(len(state) - 5, 0)} more"
        )
    return _by_weights(state, path, name, native)


def _read(path: Path) -> dict[str, Tensor]:
    try:
        state = load_state_dict(str(path), device="cpu")
    except Exception as error:  # whatever a broken or a hostile file may raise
        raise ValueError(
            f"{path} must be a state dict of tensors alone, as torch.save or safetensors write "
            f"it: {type(error).__name__}: {str(error).splitlines()[0]}"
        ) from error
    if not state or not all(isinstance(value, Tensor) for value in state.values()):
        raise ValueError(f"{path} must hold tensors by name, got {sorted(state)[:5]}")
    return state


def _by_name(
    source: str, name: str | None, pretrained: bool, native: tuple[int, int] | None
) -> Opened:
    if name is not None:
        raise ValueError(f"--model goes with a file of weights, but {source!r} is no file here")
    if pretrained and native is not None:
        raise ValueError("--native is not for pretrained weights, whose size timm knows")
    known = timm.get_pretrained_cfg(source) if timm.is_model(source) else None
    size = native or (known.input_size[1:] if known else 224)
    classes = known.num_classes if known else 1000
    model = create(source, {"pretrained": pretrained}, image_size=size, classes=classes)
    notes = () if pretrained else (f"{source} has random weights: --pretrained fetches trained",)
    return _opened(model, notes)


def _by_weights(
    state: dict[str, Tensor], path: Path, name: str, native: tuple[int, int] | None
) -> Opened:
    head = next((state[key] for key in ("head.weight", "head.fc.weight") if key in state), None)
    known = timm.get_pretrained_cfg(name) if timm.is_model(name) else None
    size = native or (known.input_size[1:] if known else 224)
    classes = 0 if head is None else len(head)
    stem = state.get("patch_embed.proj.weight")
    channels = 3 if stem is None else stem.shape[1]
    model = create(name, None, image_size=size, classes=classes, channels=channels)
    own = model.state_dict()
    other = [
        f"{key} {tuple(value.shape)} in the file, {tuple(own[key].shape)} in {name} at "
        f"{size[0]} x {size[1]} px"
        for key, value in state.items()
        if key in own and own[key].shape != value.shape
    ]
    missing, strange = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
    if other or missing or strange:
        raise ValueError(
            f"{path.name} does not fit {name}: {len(other)} of another shape {other[:3]}, "
            f"{len(missing)} missing {missing[:3]}, {len(strange)} without a place {strange[:3]}; "
            f"if only the size differs, say the one it was trained at: --native HEIGHTxWIDTH"
        )
    model.load_state_dict(state)
    return _opened(model, ())


def _opened(model: Any, notes: tuple[str, ...]) -> Opened:
    stem = getattr(model, "patch_embed", None)
    if stem is None or not hasattr(stem, "grid_size") or not hasattr(stem.proj, "in_channels"):
        raise ValueError(
            f"the network must cut pictures into one grid of patches, {type(model).__name__} "
            f"does not"
        )
    config = model.pretrained_cfg
    normalisation = (tuple(config["mean"]), tuple(config["std"]))
    return Opened(model.eval(), tuple(stem.img_size), tuple(stem.patch_size), normalisation, notes)


def _encoder(
    state: dict[str, Tensor],
    path: Path,
    native: tuple[int, int] | None,
    heads: int | None,
    activation: str,
    norm_first: bool,
) -> Opened:
    stem, table = state.get("patch_embed.proj.weight"), state.get("pos_embed")
    if stem is None or table is None:
        raise ValueError(
            f"{path.name} holds an nn.TransformerEncoder, but not its patches and positions under "
            f"the names patch_embed.proj.weight and pos_embed; it holds {sorted(state)[:8]}"
        )
    patch, dim = tuple(stem.shape[2:]), len(stem)
    cells = table.numel() // dim - int("cls_token" in state)
    notes = [f"its layers normalise {'before' if norm_first else 'after'} the sums and use "
             f"{activation}, which the file does not say"]  # fmt: skip
    if heads is None:
        fitting = [count for count in range(1, dim + 1) if dim % count == 0]
        raise ValueError(
            f"{path.name} does not say how many attention heads it has, give --heads (a divisor "
            f"of {dim}: {fitting})"
        )
    if native is None:
        if isqrt(cells) ** 2 != cells:
            raise ValueError(
                f"{path.name} has a table of {cells} patches, which is no square: give "
                f"--native HEIGHTxWIDTH, the pixels it was trained at"
            )
        native = (isqrt(cells) * patch[0], isqrt(cells) * patch[1])
        notes.append(
            f"its table of {cells} patches is taken for {isqrt(cells)} x {isqrt(cells)}: "
            f"--native says otherwise"
        )
    grid = (native[0] // patch[0], native[1] // patch[1])
    model = host_encoder(state, grid, heads=heads, activation=activation, norm_first=norm_first)
    return Opened(model, native, patch, None, tuple(notes))
