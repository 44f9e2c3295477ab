"""Everything that has to be right before the first measurement."""

import copy
import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import torch

from posenc_mm.timm import resize
from vision.checkpoints import NORMALISATIONS, Opened, open_model
from vision.data.base import Images
from vision.data.stored import Files
from vision.finetune import attach_named
from vision.resizing.measuring import look
from vision.resizing.pictures import at_size, find, first_of_each
from vision.resizing.trying import rule_of

Pair = tuple[int, int]


class Study(NamedTuple):
    """A model, pictures and what to try on them.

    Attributes:
        opened: the model.
        data: the pictures, normalised as the model wants.
        labels: of the pictures measured, None where there are none.
        device: to run on.
        key: names the model and the pictures; a result is kept only while both are the same.
        notes: what was taken for granted, to be said in the report.
    """

    opened: Opened
    data: Images
    labels: torch.Tensor | None
    device: torch.device
    key: str
    notes: list[str]


def prepare(options: Any) -> Study:
    """Open the model, find the pictures, and check that all that is asked for can be done.

    Args:
        options: as parsed.

    Returns:
        What to measure.

    Raises:
        ValueError: something cannot be done.
    """
    torch.manual_seed(options.seed)
    opened = open_model(
        options.checkpoint, name=options.model, pretrained=options.pretrained,
        native=options.native, heads=options.heads, activation=options.activation,
        norm_first=options.norm_first,
    )  # fmt: skip
    _check_sizes(opened, options.sizes)
    device = torch.device(options.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    opened.model.to(device)
    data = find(
        options.images, opened.native, batch_size=options.batch_size, channels=opened.channels,
        limit=options.limit, training=bool(options.attach),
    )  # fmt: skip
    data.interpolation = options.interpolation
    split: Any = data.split
    notes = [*opened.notes, *_of_pictures(data, opened)]
    labelled = len(data.class_names) == opened.classes > 0
    if options.attach and not labelled:
        raise ValueError(
            f"--attach trains, which needs a class folder for each class: the model tells "
            f"{opened.classes} apart, the pictures have {len(data.class_names)}"
        )
    for name in options.attach:
        _try_attaching(opened, options, name)
    notes.append(_normalise(options, opened, data, labelled, device))
    return Study(
        opened, data, split.test.labels[split.test.rows] if labelled else None, device,
        _key(options, split.test, data), notes,
    )  # fmt: skip


def _check_sizes(opened: Opened, sizes: list[Pair]) -> None:
    for size in sizes:
        if any(side % patch for side, patch in zip(size, opened.patch, strict=True)):
            near = [
                max(patch, round(side / patch) * patch)
                for side, patch in zip(size, opened.patch, strict=True)
            ]
            raise ValueError(
                f"--sizes must be whole patches of {opened.patch[0]} x {opened.patch[1]} px, got "
                f"{size[0]}x{size[1]}; the nearest is {near[0]}x{near[1]}"
            )


def _of_pictures(data: Images, opened: Opened) -> list[str]:
    split: Any = data.split
    count, names = len(split.test), data.class_names
    if not names:
        return [f"{count} pictures without classes: what is measured is the drift of features"]
    if len(names) != opened.classes:
        return [
            f"{count} pictures of {len(names)} classes, but the model tells {opened.classes} "
            f"apart: what is measured is the drift of features, not accuracy"
        ]
    listed = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return [
        f"{count} pictures; the model's classes are taken to be the class folders in alphabetical "
        f"order: {listed}"
    ]


def _try_attaching(opened: Opened, options: Any, name: str) -> None:
    """Refuse now what would else be refused after hours of measuring."""
    model = copy.deepcopy(opened.model)
    resize(model, options.train_size, rule=rule_of(options))
    attach_named(model, name, keep_native=options.table == "keep")


def _normalise(
    options: Any,
    opened: Opened,
    data: Images,
    labelled: bool,
    device: torch.device,
) -> str:
    name = options.normalise or ("auto" if opened.normalisation is None else None)
    if name is None:
        data.mean, data.std = opened.normalisation or NORMALISATIONS["none"]
        return f"pictures normalised as timm says: mean {data.mean}, deviation {data.std}"
    if name != "auto":
        data.mean, data.std = _of_channels(name, opened.channels)
        return f"pictures normalised by {name}: mean {data.mean}, deviation {data.std}"
    if not labelled:
        raise ValueError(
            f"nothing says how pictures are to be normalised, and without labels for the model's "
            f"{opened.classes} classes it cannot be found: give --normalise, one of "
            f"{list(NORMALISATIONS)}"
        )
    split: Any = data.split
    part = "train" if len(split.train) else "test"
    probe = copy.copy(data)
    chosen = first_of_each(getattr(split, part), 500)
    probe.split = split._replace(test=chosen)
    found = {}
    for known in NORMALISATIONS:
        probe.mean, probe.std = _of_channels(known, opened.channels)
        seen = look(opened.model, at_size(probe, opened.native), device)
        found[known] = (seen.predicted == chosen.labels[chosen.rows]).double().mean().item()
    best = max(found, key=lambda known: found[known])
    data.mean, data.std = _of_channels(best, opened.channels)
    listed = ", ".join(f"{known} {100 * share:.1f} %" for known, share in found.items())
    return (
        f"pictures normalised by {best}, chosen by accuracy on {len(chosen)} pictures of "
        f"{part} ({listed})"
    )


def _of_channels(name: str, channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    mean, std = NORMALISATIONS[name]
    if channels == 1:
        return (sum(mean) / 3,), (sum(std) / 3,)
    return mean, std


def _key(options: Any, measured: Any, data: Images) -> str:
    path = Path(options.checkpoint).expanduser()
    digest = hashlib.sha256()
    if path.is_file():
        with path.open("rb") as file:
            while block := file.read(2**20):
                digest.update(block)
    asked = ("checkpoint", "model", "pretrained", "native", "heads", "activation", "norm_first")
    digest.update(repr([getattr(options, name) for name in asked]).encode())
    pictures = (data.mean, data.std, data.class_names, data.interpolation)
    digest.update(repr((options.seed, *pictures)).encode())
    digest.update(measured.labels[measured.rows].numpy().tobytes())
    if isinstance(measured, Files):
        paths = [measured.paths[row] for row in measured.rows.tolist()]
        digest.update(
            repr([(str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in paths]).encode()
        )
    else:
        digest.update(measured.images[measured.rows].contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
