"""The source text of Python's standard library: real text that is on every machine."""

import sysconfig
from pathlib import Path

from text.data.base import Split, Text
from text.data.files import read_text
from text.data.splitting import Document, split_documents

# Other people's packages, tests (much like what they test), and tables that no one wrote.
LEFT_OUT = {
    "__pycache__",
    "dist-packages",
    "idlelib",
    "pydoc_data",
    "site-packages",
    "test",
    "tests",
}


class StandardLibrary(Text):
    """The modules of the standard library of the Python that runs, about 10 million characters.

    Modules and whole packages go to one split each, since the files of a package resemble each
    other. Another version of Python has another text: figures are comparable within one.

    Args:
        length: tokens of a window to train at.
        test_length: tokens of a window to test at; a list tests at each in turn.
        stride: tokens between windows of an evaluation; the whole window unless given.
        batch_size: windows per step and process.
        vocabulary: ``"bytes"`` or ``"characters"``.
        train_windows: drawn at random per epoch; one pass over the text unless given.
        eval_tokens: of validation and of test text to evaluate; all unless given.
        packed: whether the documents of a window are kept apart.

    Raises:
        ValueError: this Python has no source text.
    """

    def __init__(
        self,
        length: int = 128,
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

    def load(self) -> Split:
        folder = Path(sysconfig.get_paths()["stdlib"])
        documents = []
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).parts
            if LEFT_OUT.isdisjoint(parts):
                text = read_text(path)
                if text:
                    documents.append(Document(parts[0], text))
        if not documents:
            raise ValueError(f"the source text of this Python must lie in {folder}, it does not")
        return split_documents(documents)
