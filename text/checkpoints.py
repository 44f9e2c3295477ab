"""Pretrained decoders from files: which kind it is, and what belongs to it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from posenc_mm.scaling import RotarySettings
from text.checkpoints_llama2c import BASE, read_decoder
from text.checkpoints_tokens import Llama2cTokenizer
from text.decoder import Decoder


class Opened(NamedTuple):
    """A pretrained decoder and what is known of it.

    Attributes:
        decoder: with its weights, as it was trained.
        settings: of its rotary encoding.
        layout: of the rotary encoding.
        length: tokens that it was trained on.
        encode: cuts a text into tokens.
        decode: spells tokens.
        files: what was read, by which a change is noticed.
    """

    decoder: Decoder
    settings: RotarySettings
    layout: str
    length: int
    encode: Callable[[str], list[int]]
    decode: Callable[[list[int]], str]
    files: tuple[Path, ...]


def open_checkpoint(
    path: Path, *, tokenizer: Path | None = None, length: int | None = None
) -> Opened:
    """Open a pretrained decoder.

    Args:
        path: a ``.bin`` of llama2.c, a folder of Hugging Face, or a ``.gguf``.
        tokenizer: of llama2.c; unless given, the one ``tok*.bin`` beside the checkpoint.
        length: that it was trained on, in place of what the file says.

    Returns:
        The decoder and what belongs to it.

    Raises:
        ValueError: there is no such file, it is of no kind that is known, or the tokenizer is
            missing or of another vocabulary.
    """
    if not path.exists():
        raise ValueError(f"checkpoint must be a file or folder, there is no {path}")
    if path.is_dir() or path.suffix == ".gguf":
        if tokenizer is not None:
            raise ValueError(f"tokenizer comes with {path}: leave it out, got {tokenizer}")
        from text import checkpoints_hf

        decoder, settings, known, words = checkpoints_hf.read_decoder(path)
        files = (path,) if path.is_file() else tuple(sorted(p for p in path.iterdir()))
        encode = words_encoder(words)
        return Opened(decoder, settings, "half", length or known, encode, words.decode, files)
    if path.suffix != ".bin":
        raise ValueError(f"checkpoint must be a .bin, a .gguf or a folder, got {path}")
    decoder, known = read_decoder(path)
    beside = tokenizer or _beside(path)
    pairs = Llama2cTokenizer.read(beside)
    if len(pairs.pieces) != decoder.shape.vocab:
        raise ValueError(
            f"tokenizer must have the {decoder.shape.vocab} tokens of {path.name}, {beside.name} "
            f"has {len(pairs.pieces)}"
        )
    settings = RotarySettings(decoder.shape.head_dim, decoder.shape.head_dim, BASE)
    return Opened(
        decoder, settings, "interleaved", length or known, pairs.encode, pairs.decode,
        (path, beside),
    )  # fmt: skip


def words_encoder(tokenizer: Callable[..., Any]) -> Callable[[str], list[int]]:
    """Make a tokenizer of transformers cut a text without special tokens.

    Args:
        tokenizer: of transformers.

    Returns:
        A function of a text.
    """

    def encode(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    return encode


def _beside(path: Path) -> Path:
    found = sorted(path.parent.glob("tok*.bin"))
    if len(found) != 1:
        raise ValueError(
            f"tokenizer must be given: beside {path.name} lie {[each.name for each in found]}, one "
            f"tok*.bin is wanted"
        )
    return found[0]
