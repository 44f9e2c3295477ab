"""Recordings of spoken digits and pictures of written ones, in parts that share nothing."""

import hashlib
import io
import os
import re
import tarfile
import tempfile
import urllib.request
import wave
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

RATE = 8000
ARCHIVE = (
    "https://github.com/Jakobovski/free-spoken-digit-dataset/archive/"
    "26eb9aaf76e81b692f806f9140c2d2777410d7a1.tar.gz"
)
# Of the 600 recordings below, in order of their names: an archive's own bytes may change.
SHA256 = "1908f434152ffa35ccf2df905daf40d28769bece65aa3a0634d5328d35b4feb3"
NAMES = ("spoken_digits.tar.xz", "spoken_digits.tar.gz", "spoken_digits")
NAMED = re.compile(r"(\d)_([a-z]+)_(\d+)\.wav")
# Recordings by their index, ten of each digit and speaker; the set itself has up to fifty.
INDICES = {"test": (0, 1), "validation": (2,), "train": (3, 4, 5, 6, 7, 8, 9)}
# Pictures by their place among all, from and to: neighbours may be of the same writer.
SHARES = {"train": (0.0, 0.7), "validation": (0.7, 0.8), "test": (0.8, 1.0)}


class Material(NamedTuple):
    """What the rows of one part are made of.

    Attributes:
        names: of the recordings.
        sounds: a waveform ``(T,)`` each, at 8 kHz, of mean square 1.
        said: ``(R,)``, the digit of each.
        pictures: ``(P, 8, 8)``, from 0 to 1.
        shown: ``(P,)``, the digit of each.
    """

    names: tuple[str, ...]
    sounds: tuple[Tensor, ...]
    said: Tensor
    pictures: Tensor
    shown: Tensor


def load(path: str | None = None) -> dict[str, Material]:
    """Read recordings and pictures, split so that nothing is in two parts.

    Args:
        path: the archive of recordings, a folder of them, or the folder that either is in; else
            ``$POSENC_MM_DATA`` and then ``data`` are looked in, and ``data`` is downloaded to.

    Returns:
        ``"train"``, ``"validation"`` and ``"test"``.

    Raises:
        FileNotFoundError: recordings are neither here nor to be had.
        ValueError: some are missing.
    """
    from sklearn.datasets import load_digits

    read = _read(find(path) or download(path))
    digits = load_digits()
    pictures = torch.tensor(digits.images, dtype=torch.float32) / 16
    shown = torch.tensor(digits.target, dtype=torch.int64)
    parts = {}
    for part, indices in INDICES.items():
        own = {name: sound for name, sound in read.items() if _index(name) in indices}
        said = [int(name[0]) for name in own]
        if set(said) != set(range(10)):
            raise ValueError(
                f"recordings must be of all ten digits, named like 7_theo_0.wav, but those of "
                f"index {indices} are of {sorted(set(said))}"
            )
        first, last = (round(share * len(pictures)) for share in SHARES[part])
        parts[part] = Material(
            tuple(own),
            tuple(own.values()),
            torch.tensor(said),
            pictures[first:last],
            shown[first:last],
        )
    return parts


def find(path: str | None) -> Path | None:
    """Find the archive or folder of recordings on this machine."""
    for place in _places(path):
        inside = [place / name for name in NAMES]
        if path and (place.is_file() or any(place.glob("*.wav"))):
            return place
        for each in inside:
            if each.exists():
                return each
    return None


def _places(path: str | None) -> list[Path]:
    given = [path] if path else [os.environ.get("POSENC_MM_DATA"), "data"]
    return [Path(each).expanduser() for each in given if each]


def download(path: str | None) -> Path:
    """Fetch the archive into the last of the places that are looked in.

    Args:
        path: as for :func:`load`.

    Returns:
        Where it is.

    Raises:
        FileNotFoundError: it cannot be had.
    """
    places = _places(path)
    target = places[-1] / NAMES[1]
    print(f"downloading spoken digits to {target}", flush=True)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=target.parent) as folder:
            # It appears whole or not at all.
            part = Path(folder) / target.name
            with urllib.request.urlopen(ARCHIVE, timeout=30) as answer:
                part.write_bytes(answer.read())
            if digest(_files(part)) != SHA256:
                raise OSError("it holds other recordings than it did (SHA-256 differs)")
            os.replace(part, target)
    except (OSError, tarfile.TarError) as error:
        looked = " or ".join(str(place.resolve()) for place in places)
        raise FileNotFoundError(
            f"no {NAMES[0]} and no folder of that name in {looked}. Fetch {ARCHIVE} into that "
            f"folder as {NAMES[1]}, or give --data. Downloading failed: {error}"
        ) from error
    return target


def digest(files: dict[str, bytes]) -> str:
    """SHA-256 of recordings, in order of their names."""
    return hashlib.sha256(b"".join(files[name] for name in sorted(files))).hexdigest()


def _index(name: str) -> int:
    return int(name.removesuffix(".wav").rpartition("_")[2])


def _files(place: Path) -> dict[str, bytes]:
    """Recordings whose index is in use, by name and in order."""
    used = {index for indices in INDICES.values() for index in indices}
    files = {}
    if place.is_dir():
        for file in place.rglob("*.wav"):
            if NAMED.fullmatch(file.name) and _index(file.name) in used:
                files[file.name] = file.read_bytes()
    else:
        with tarfile.open(place) as archive:
            for member in archive:
                name = member.name.rpartition("/")[2]
                if NAMED.fullmatch(name) and _index(name) in used:
                    file = archive.extractfile(member)
                    if file is not None:
                        files[name] = file.read()
    return dict(sorted(files.items()))


def _read(place: Path) -> dict[str, Tensor]:
    sounds = {}
    for name, content in _files(place).items():
        with wave.open(io.BytesIO(content)) as file:
            if (file.getframerate(), file.getnchannels(), file.getsampwidth()) != (RATE, 1, 2):
                raise ValueError(f"{name} must be of 8 kHz, one channel and 16 bits")
            samples = bytearray(file.readframes(file.getnframes()))
        sound = torch.frombuffer(samples, dtype=torch.int16).float()
        sounds[name] = sound / sound.square().mean().sqrt().clamp(min=1.0)
    return sounds
