"""The tokenizer of llama2.c: pairs merged by score."""

import heapq
import struct
from pathlib import Path

# Tokens of single bytes come after the three special ones.
FIRST_BYTE = 3


class Llama2cTokenizer:
    """Pairs merged by score, as llama2.c does it: spelled in bytes where the pieces end.

    Args:
        pieces: the bytes of each token.
        scores: of each token, the best is merged first.
    """

    def __init__(self, pieces: list[bytes], scores: list[float]) -> None:
        self.pieces, self.scores = pieces, scores
        self._known = {piece: number for number, piece in reversed(list(enumerate(pieces)))}

    @classmethod
    def read(cls, path: Path) -> "Llama2cTokenizer":
        """Read a tokenizer file.

        Args:
            path: of the file: a largest length, then score, length and bytes of each token.

        Returns:
            The tokenizer.

        Raises:
            ValueError: the file ends within a token.
        """
        data = path.read_bytes()
        at, pieces, scores = 4, [], []
        while at < len(data):
            if at + 8 > len(data):
                raise ValueError(f"{path} must hold whole tokens, it ends within one")
            score, size = struct.unpack_from("<fi", data, at)
            if size < 0 or at + 8 + size > len(data):
                raise ValueError(f"{path} must hold whole tokens, it ends within one")
            pieces.append(data[at + 8 : at + 8 + size])
            scores.append(score)
            at += 8 + size
        return cls(pieces, scores)

    def encode(self, text: str) -> list[int]:
        """Cut a text into tokens, without a first token of the document.

        Args:
            text: any; a space is put in front, as in training.

        Returns:
            Numbers of tokens.
        """
        tokens: list[int] = []
        for character in f" {text}" if text else "":
            spelled = character.encode()
            known = self._known.get(spelled)
            tokens += [known] if known is not None else [byte + FIRST_BYTE for byte in spelled]
        return self._merged(tokens)

    def _merged(self, tokens: list[int]) -> list[int]:
        after = list(range(1, len(tokens) + 1))
        before = list(range(-1, len(tokens) - 1))
        gone = [False] * len(tokens)
        queue: list[tuple[float, int, int, int, int]] = []

        def offer(left: int) -> None:
            right = after[left]
            if right < len(tokens):
                joined = self._known.get(self.pieces[tokens[left]] + self.pieces[tokens[right]])
                if joined is not None:
                    entry = (-self.scores[joined], left, joined, tokens[left], tokens[right])
                    heapq.heappush(queue, entry)

        for left in range(len(tokens)):
            offer(left)
        while queue:
            _, left, joined, first, second = heapq.heappop(queue)
            right = after[left]
            stale = gone[left] or right >= len(tokens) or tokens[left] != first
            if stale or tokens[right] != second:
                continue
            tokens[left], gone[right] = joined, True
            after[left] = after[right]
            if after[right] < len(tokens):
                before[after[right]] = left
            offer(left)
            if before[left] >= 0:
                offer(before[left])
        return [token for token, merged in zip(tokens, gone, strict=True) if not merged]

    def decode(self, tokens: list[int]) -> str:
        """Spell tokens.

        Args:
            tokens: numbers.

        Returns:
            The text, with the space in front of it that :meth:`encode` put there.
        """
        spelled = (
            bytes([token - FIRST_BYTE]) if FIRST_BYTE <= token < FIRST_BYTE + 256
            else self.pieces[token]
            for token in tokens
        )  # fmt: skip
        return b"".join(spelled).decode(errors="replace")
