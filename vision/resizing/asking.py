"""The options of ``python -m vision resize``."""

import argparse
import re
from pathlib import Path

from posenc_mm.resizing import RULES
from vision.checkpoints import NORMALISATIONS
from vision.checkpoints_encoder import ACTIVATIONS
from vision.finetune import CONTROL, TRAINABLE, overlays

Pair = tuple[int, int]
# The rule that posenc_mm.timm.resize takes where none is given.
OWN = "own"
DESCRIPTION = """Run a trained vision transformer at sizes it was not trained at: resize its table
of positions by every rule, measure each on your pictures, and say which keeps most. Pictures in
class folders give accuracy (if there are as many classes as the model tells apart, in alphabetical
order); any other pictures give how far features drift from those at the native size. Finished
measurements are kept: interrupted, the same command goes on where it stopped."""


def parse(argv: list[str]) -> argparse.Namespace:
    """Read the options.

    Args:
        argv: arguments, as on the command line.

    Returns:
        The options.
    """
    parser = argparse.ArgumentParser(
        "python -m vision resize", description=DESCRIPTION, allow_abbrev=False
    )
    parser.add_argument("checkpoint", help="a file of weights, or a name that timm knows")
    parser.add_argument(
        "--sizes", type=_size, nargs="+", required=True, metavar="PIXELS",
        help="sizes to run at: 64, or HEIGHTxWIDTH as in 48x64",
    )  # fmt: skip
    _model(parser)
    _pictures(parser)
    parser.add_argument(
        "--rules", nargs="+", metavar="RULE", default=distinct(),
        help=f"of {', '.join(sorted(RULES))}, or {OWN}, what the model's name or family tells; "
        "default: each once, without other names of the same",
    )  # fmt: skip
    _tuning(parser)
    parser.add_argument("--device", help="default: cuda where there is one, else cpu")
    parser.add_argument("--out", type=Path, help="default: runs/vision/resize-CHECKPOINT")
    parser.add_argument("--print_config", action="store_true", help="print the options and stop")
    options = parser.parse_args(argv)
    _check(parser, options)
    return options


def distinct() -> list[str]:
    """The rules that differ, each by its first name; one that only refuses more is left out."""
    names: dict[object, str] = {}
    for name, rule in RULES.items():
        if not rule.keep_aspect:
            names.setdefault(rule, name)
    return list(names.values())


def _model(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the model")
    group.add_argument("--model", metavar="NAME", help="timm's name of the network of a file")
    group.add_argument("--pretrained", action="store_true", help="fetch timm's weights for a name")
    group.add_argument(
        "--native", type=_size, metavar="PIXELS", help="the size trained at, if not the network's"
    )
    group.add_argument("--heads", type=int, help="attention heads of an nn.TransformerEncoder")
    group.add_argument("--activation", choices=list(ACTIVATIONS), default="relu")
    group.add_argument("--norm-first", action="store_true", help="its layers normalise first")


def _pictures(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the pictures")
    group.add_argument(
        "--images", type=Path, metavar="PATH",
        help="a folder of pictures or of class folders, or an archive; default: two photographs "
        "of scikit-learn, cut in pieces",
    )  # fmt: skip
    group.add_argument(
        "--interpolation", choices=["bilinear", "bicubic", "nearest"], default="bilinear",
        help="how pictures are brought to a size; default: bilinear",
    )  # fmt: skip
    group.add_argument("--limit", type=int, default=2000, help="pictures to measure; default: 2000")
    group.add_argument(
        "--normalise", choices=[*NORMALISATIONS, "auto"],
        help="how pictures are normalised; default: as timm says, else auto: what gives the best "
        "accuracy on 500 pictures to train on",
    )  # fmt: skip
    group.add_argument("--batch-size", type=int, default=100)
    group.add_argument("--seed", type=int, default=0)


def _tuning(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("training a little at one of the sizes")
    group.add_argument(
        "--attach", nargs="+", default=[], metavar="NAME",
        help=f"encodings to attach and train with: {CONTROL} (the resized table alone), "
        f"{', '.join(overlays())}, or a YAML file",
    )  # fmt: skip
    group.add_argument("--epochs", type=int, default=1)
    group.add_argument("--train-limit", type=int, default=5000, help="pictures an epoch")
    group.add_argument("--train-size", type=_size, metavar="PIXELS", help="default: the largest")
    group.add_argument("--lr", type=float, default=1e-3)
    group.add_argument("--trainable", choices=list(TRAINABLE), default="attention")
    group.add_argument(
        "--table", choices=["keep", "drop"], default="keep",
        help="whether the resized table stays beside what is attached; default: keep",
    )  # fmt: skip
    group.add_argument("--table-rule", default="timm", metavar="RULE", help="default: timm")


def _size(text: str) -> Pair:
    found = re.fullmatch(r"(\d+)(?:x(\d+))?", text)
    if not found or not int(found[1]) or found[2] == "0":
        raise argparse.ArgumentTypeError(
            f"a size is pixels as in 64, or HEIGHTxWIDTH as in 48x64, got {text!r}"
        )
    return int(found[1]), int(found[2] or found[1])


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    unknown = [name for name in (*options.rules, options.table_rule) if name not in (*RULES, OWN)]
    if unknown:
        parser.error(
            f"unknown rules {' '.join(unknown)}; there are {', '.join((OWN, *sorted(RULES)))}"
        )
    for name in ("limit", "batch_size", "epochs", "train_limit"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    if not options.lr > 0:
        parser.error(f"--lr must be above 0, got {options.lr}")
    if options.attach and options.images is None:
        parser.error("--attach trains, which needs class folders: give --images")
    if options.train_size is not None and options.train_size not in options.sizes:
        parser.error("--train-size must be one of --sizes")
    for name in ("sizes", "rules", "attach"):
        setattr(options, name, list(dict.fromkeys(getattr(options, name))))
    if options.train_size is None:
        options.train_size = max(options.sizes, key=lambda size: size[0] * size[1])
