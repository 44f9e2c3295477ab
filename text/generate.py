"""``python -m text generate``: a trained model goes on with a text of yours."""

import argparse
import codecs
import sys
import time
from pathlib import Path
from typing import TextIO

import torch

from text.module import LanguageModel
from text.sampling import continuation

DESCRIPTION = """Let a trained model go on with a prompt. The text goes to the standard output as it
comes, and what is said about it to the standard error."""


def parse(argv: list[str]) -> argparse.Namespace:
    """Read the arguments.

    Args:
        argv: as on the command line.

    Returns:
        The options.
    """
    parser = argparse.ArgumentParser(
        "python -m text generate", description=DESCRIPTION, allow_abbrev=False
    )
    parser.add_argument("checkpoint", type=Path, help="a .ckpt file that `fit` wrote")
    parser.add_argument("--prompt", default="\n", help="text to go on with; default: a new line")
    parser.add_argument("--tokens", type=int, default=300, help="to add; default: 300")
    parser.add_argument(
        "--temperature", type=float, default=0.8, help="0 takes the likeliest; default: 0.8"
    )
    parser.add_argument("--top-k", type=int, help="draw among the likeliest only; default: all")
    parser.add_argument("--seed", type=int, default=0, help="of the draws; default: 0")
    parser.add_argument("--device", default="cpu", help="to run on; default: cpu")
    parser.add_argument("--out", type=Path, help="a file to write the whole text to as well")
    options = parser.parse_args(argv)
    if options.tokens < 1 or not options.prompt:
        parser.error("--tokens must be at least 1, and --prompt not empty")
    return options


def open_checkpoint(path: Path, device: str = "cpu") -> LanguageModel:
    """Open a model that was trained here.

    Args:
        path: of a checkpoint.
        device: where it is to run.

    Returns:
        The model, ready to be asked.

    Raises:
        ValueError: there is no such file, or it is of something else.
    """
    if not path.is_file():
        raise ValueError(f"checkpoint must be a file that `python -m text fit` wrote, got {path}")
    return LanguageModel.load_from_checkpoint(path, map_location=device).to(device).eval()


def main(argv: list[str]) -> None:
    """Generate.

    Args:
        argv: arguments, as on the command line.
    """
    options = parse(argv)
    try:
        model = open_checkpoint(options.checkpoint, options.device)
        start = time.perf_counter()
        text = write(model, options, sys.stdout)
    except ValueError as error:
        sys.exit(f"generate: {error}")
    seconds = time.perf_counter() - start
    speed = options.tokens / seconds
    print(f"\n{options.tokens} tokens in {seconds:.1f} s, {speed:.0f} a second", file=sys.stderr)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text, encoding="utf-8")
        print(f"text: {options.out}", file=sys.stderr)


def write(model: LanguageModel, options: argparse.Namespace, stream: TextIO) -> str:
    """Go on with the prompt, and show every character as soon as it is whole.

    Args:
        model: to ask.
        options: of :func:`parse`.
        stream: to show it on.

    Returns:
        The prompt and what came.
    """
    encoded = model.vocabulary.encode(options.prompt).long().to(model.device)
    generator = torch.Generator(model.device).manual_seed(options.seed)
    drawn = continuation(
        model.network, encoded[None], options.tokens, temperature=options.temperature,
        top_k=options.top_k, generator=generator,
    )  # fmt: skip
    # A character of several bytes is several tokens.
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    pieces = [options.prompt]
    for token in drawn:
        if len(pieces) == 1:  # what cannot be read is refused before anything is shown
            stream.write(options.prompt)
        pieces.append(decoder.decode(model.vocabulary.bytes_of(int(token))))
        stream.write(pieces[-1])
        stream.flush()
    pieces.append(decoder.decode(b"", final=True))
    stream.write(pieces[-1])
    return "".join(pieces)
