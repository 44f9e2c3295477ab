"""Any text of yours: a file, or a folder of files."""

from pathlib import Path

from lightning.pytorch.utilities import rank_zero_only

from text.data.base import Split, Text
from text.data.splitting import Document, split_documents


class TextFiles(Text):
    """A text file, or all text files of a folder.

    A folder is split by its files, a single file (or a few) into contiguous blocks: the first 80 %
    train, the next 10 % validate, the last 10 % test.

    Args:
        path: a file in UTF-8, or a folder.
        pattern: which files of a folder, at any depth: ``"*.md"`` are all that end so.
        length: tokens of a window to train at.
        test_length: tokens of a window to test at; a list tests at each in turn.
        stride: tokens between windows of an evaluation; the whole window unless given.
        batch_size: windows per step and process.
        vocabulary: ``"bytes"`` or ``"characters"``.
        train_windows: drawn at random per epoch; one pass over the text unless given.
        eval_tokens: of validation and of test text to evaluate; all unless given.
        packed: whether the documents of a window are kept apart.

    Raises:
        ValueError: there is no such file, or no text in it.
    """

    def __init__(
        self,
        path: str,
        pattern: str = "*",
        length: int = 256,
        test_length: int | list[int] | None = None,
        stride: int | None = None,
        batch_size: int = 32,
        vocabulary: str = "bytes",
        train_windows: int | None = None,
        eval_tokens: int | None = None,
        packed: bool = False,
    ) -> None:
        super().__init__(
            length, test_length, stride, batch_size, vocabulary, train_windows, eval_tokens, packed
        )
        self.path, self.pattern = Path(path).expanduser(), pattern

    def load(self) -> Split:
        if self.path.is_file():
            text = read_text(self.path)
            if text is None:
                raise ValueError(f"path must be a text in UTF-8, {self.path} is none")
            return split_documents([Document(self.path.name, text)])
        if not self.path.is_dir():
            raise ValueError(f"path must be a text file or a folder of them, got {self.path}")
        found = [path for path in sorted(self.path.rglob(self.pattern)) if path.is_file()]
        read = {path.relative_to(self.path).as_posix(): read_text(path) for path in found}
        skipped = [name for name, text in read.items() if text is None]
        if skipped:
            rank_zero_only(print)(
                f"{len(skipped)} files are no text in UTF-8 and left out, such as {skipped[0]}"
            )
        documents = [Document(name, text) for name, text in read.items() if text]
        if not documents:
            raise ValueError(
                f"path must hold text files, {self.path} has none that match {self.pattern!r}"
            )
        return split_documents(documents)


def read_text(path: Path) -> str | None:
    """Read a text in UTF-8 with its line ends as newlines; None if it is something else."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text
