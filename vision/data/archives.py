"""Archives of images, unpacked once, and small images, decoded once, into the user's cache."""

import hashlib
import lzma
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from tqdm import tqdm

from vision.data.stored import decode

ARCHIVES = (".zip", ".tar", ".tar.xz", ".txz", ".tar.gz", ".tgz", ".tar.bz2")
BROKEN = (tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError)
MOST_BYTES = 2**30  # decoded images held in memory


def cache_folder() -> Path:
    """Where what is unpacked and decoded is kept; ``XDG_CACHE_HOME`` moves it."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "posenc_mm"


def is_archive(path: Path) -> bool:
    """Tell by its name whether a file is an archive that can be unpacked."""
    return path.name.lower().endswith(ARCHIVES)


def unpacked(path: Path) -> Path:
    """Unpack an archive unless that was done before.

    Args:
        path: a zip file or a tar file, compressed or not.

    Returns:
        The folder that holds what was in it.

    Raises:
        ValueError: the file is not such an archive, or a member would leave the folder.
    """
    state = path.stat()
    key = _key(str(path.resolve()), state.st_size, state.st_mtime_ns)
    target = cache_folder() / f"{path.name.partition('.')[0]}-{key}"
    if not target.is_dir():
        with _appearing(target) as folder:
            folder.mkdir()
            try:
                (_unzip if zipfile.is_zipfile(path) else _untar)(path, folder)
            except BROKEN as error:
                raise ValueError(f"{path} must be a whole zip or tar archive: {error}") from error
    return target


def decoded(paths: Sequence[Path], channels: int) -> np.ndarray | None:
    """Decode small images of one shape, unless that was done before.

    Args:
        paths: of the images.
        channels: 1 for grey, 3 for colour.

    Returns:
        ``(N, C, height, width)`` uint8, or None where shapes differ or memory would not do.
    """
    first = decode(paths[0], channels)
    if first.size * len(paths) > MOST_BYTES:
        return None
    states = ((path, path.stat()) for path in paths)
    key = _key(channels, *((str(p), s.st_size, s.st_mtime_ns) for p, s in states))
    target = cache_folder() / f"{len(paths)}-images-{key}.npy"
    if target.is_file():
        return np.load(target)
    images = np.empty((len(paths), *first.shape), dtype=np.uint8)
    for row, path in enumerate(tqdm(paths, "Decoding once", unit="image")):
        image = decode(path, channels)
        if image.shape != first.shape:
            return None
        images[row] = image
    with _appearing(target) as file, file.open("wb") as stream:
        np.save(stream, images)
    return images


def _unzip(path: Path, folder: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        for member in tqdm(archive.infolist(), f"Unpacking {path.name}", unit="file"):
            if not (folder / member.filename).resolve().is_relative_to(folder.resolve()):
                raise ValueError(f"{path} must keep to its folder, but holds {member.filename!r}")
            archive.extract(member, folder)


def _untar(path: Path, folder: Path) -> None:
    with tarfile.open(path) as archive:
        for member in tqdm(archive, f"Unpacking {path.name}", unit="file"):
            # The filter refuses what leads out of the folder, devices and the like.
            archive.extract(member, folder, filter="data")


def _key(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


@contextmanager
def _appearing(target: Path) -> Iterator[Path]:
    """Give a place to write beside a target, which then appears whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".partial-", dir=target.parent) as folder:
        made = Path(folder) / target.name
        yield made
        try:
            os.replace(made, target)
        except OSError:
            # Another process was first: a folder cannot replace one that is not empty.
            if not target.exists():
                raise
            shutil.rmtree(made, ignore_errors=True)
