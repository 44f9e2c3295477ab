"""What a token stands for: a byte, or a character of an alphabet."""

from typing import Protocol

import numpy as np
import torch
from torch import Tensor

# Begins every document. No text holds it, so that it can be told from all that does occur.
START = "\0"
# Stands for every character that an alphabet lacks.
UNKNOWN = "\ufffd"


class Vocabulary(Protocol):
    """Translates between text and tokens.

    Attributes:
        size: number of tokens.
        widths: the bytes in UTF-8 that each token stands for.
    """

    size: int
    widths: tuple[int, ...]

    def encode(self, text: str) -> Tensor:
        """Tokens ``(N,)`` of a text."""

    def bytes_of(self, token: int) -> bytes:
        """The bytes in UTF-8 that a token stands for."""


class Bytes:
    """256 tokens, the bytes of UTF-8: any text, in any language, without a vocabulary to learn."""

    size = 256
    widths = (1,) * 256

    def encode(self, text: str) -> Tensor:
        return torch.from_numpy(np.frombuffer(text.encode(), dtype=np.uint8).copy())

    def bytes_of(self, token: int) -> bytes:
        return bytes([token])


class Characters:
    """One token per character of an alphabet; all others are read as the unknown one.

    Args:
        alphabet: its characters, each once, in increasing order, the unknown one among them.

    Raises:
        ValueError: the alphabet is not as said.
    """

    def __init__(self, alphabet: str) -> None:
        if sorted(set(alphabet)) != list(alphabet) or UNKNOWN not in alphabet:
            raise ValueError(
                f"alphabet must hold characters once each, in order, {UNKNOWN!r} among them, got "
                f"alphabet={alphabet!r}: alphabet_of(text) makes one"
            )
        self.alphabet, self.size = alphabet, len(alphabet)
        self.widths = tuple(len(character.encode()) for character in alphabet)

    def encode(self, text: str) -> Tensor:
        known, points = _points(self.alphabet), _points(text)
        found = np.searchsorted(known, points).clip(max=len(known) - 1)
        found[known[found] != points] = self.alphabet.index(UNKNOWN)
        return torch.from_numpy(found.astype(np.int32))

    def bytes_of(self, token: int) -> bytes:
        return self.alphabet[token].encode()


def alphabet_of(text: str) -> str:
    """List the characters of a text, the start of a document and the unknown one among them."""
    return "".join(sorted({*text, START, UNKNOWN}))


def vocabulary_of(alphabet: str) -> Vocabulary:
    """The characters of an alphabet, or bytes where it is empty."""
    return Characters(alphabet) if alphabet else Bytes()


def decode(vocabulary: Vocabulary, tokens: Tensor) -> str:
    """The text that tokens ``(N,)`` stand for; bytes that are no UTF-8 show as unknown."""
    return b"".join(map(vocabulary.bytes_of, tokens.tolist())).decode(errors="replace")


def _points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", errors="surrogatepass"), dtype=np.uint32)
