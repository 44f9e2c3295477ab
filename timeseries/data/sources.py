"""Files of public sets: found on this machine, or fetched from where they were published."""

import hashlib
import os
import tempfile
import urllib.request
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

GITHUB = "https://raw.githubusercontent.com"
_CHUNK = 2**16


class Source(NamedTuple):
    """A file at one commit of a public repository.

    Attributes:
        name: what it is called here.
        place: owner, repository, commit and path.
        sha256: of what is in it.
    """

    name: str
    place: str
    sha256: str

    @property
    def url(self) -> str:
        return f"{GITHUB}/{self.place}"

    @property
    def names(self) -> tuple[str, str]:
        """What it is called here and there."""
        return self.name, self.place.rpartition("/")[2]


def folders(path: str | None) -> list[Path]:
    """Where to look: the path that was given, or else ``$POSENC_MM_DATA`` and ``data``."""
    given = [path] if path else [os.environ.get("POSENC_MM_DATA"), "data"]
    return [Path(one).expanduser() for one in given if one]


def find(source: Source, path: str | None) -> Path | None:
    """Find the file on this machine; the path may be the file itself, or the folder it is in."""
    for folder in folders(path):
        for file in (folder, *(folder / name for name in source.names)):
            if file.is_file():
                return file
    return None


def fetch(source: Source, path: str | None, download: bool = True) -> Path:
    """Find the file on this machine, or else download it to the last of the folders.

    Args:
        source: of the file.
        path: the file, or the folder to look in and to download to.
        download: whether to try.

    Returns:
        Where it is.

    Raises:
        FileNotFoundError: it is neither here nor to be had.
    """
    found = find(source, path)
    if found is not None:
        return found
    looked = folders(path)
    missing = (
        f"{source.name} is not in {' or '.join(str(folder.resolve()) for folder in looked)}. Fetch "
        f"{source.url} into that folder under this name, or give data.path"
    )
    if not download:
        raise FileNotFoundError(f"{missing}, or data.download=true")
    target = looked[-1] / source.name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=target.parent) as folder:
            # It appears whole or not at all.
            part = Path(folder) / source.name
            _download(source, part)
            os.replace(part, target)
    except OSError as error:
        raise FileNotFoundError(f"{missing}. Downloading failed: {error}") from error
    return target


def _download(source: Source, target: Path) -> None:
    digest = hashlib.sha256()
    with urllib.request.urlopen(source.url, timeout=30) as answer, target.open("wb") as file:
        size = int(answer.headers.get("Content-Length") or 0)
        with tqdm(total=size or None, desc=source.name, unit="B", unit_scale=True) as progress:
            while chunk := answer.read(_CHUNK):
                digest.update(chunk)
                progress.update(file.write(chunk))
    if digest.hexdigest() != source.sha256:
        raise OSError(f"{source.url} holds something else than it did (SHA-256 differs)")
