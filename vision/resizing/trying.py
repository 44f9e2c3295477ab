"""The ways to run a model at another size, each as a row of the table."""

import copy
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn

from posenc_mm.timm import resize
from vision.checkpoints import Opened
from vision.data.base import Images
from vision.finetune import attach_named, choose_trainable, tune
from vision.resizing.asking import OWN
from vision.resizing.measuring import Seen, look
from vision.resizing.pictures import at_size, first_of_each

Pair = tuple[int, int]
KINDS = ("native", "rule", "baseline", "trained")


class Row(NamedTuple):
    """A way to run at another size.

    Attributes:
        name: of the row.
        kind: one of ``KINDS``.
        what: the rule, the baseline or the encoding that it is.
    """

    name: str
    kind: str
    what: str


NATIVE = Row("native", "native", "native")
BASELINES = {
    "shrink": "picture brought to the native size first",
    "patches": "patches resized instead, as many as before",
    "zero": "table of positions zeroed",
}


def rows_of(options: Any) -> list[Row]:
    """All rows that the options ask for.

    Args:
        options: as parsed.

    Returns:
        Rules first, then baselines, then what is trained.
    """
    rules = [Row(name, "rule", name) for name in options.rules]
    baselines = [Row(text, "baseline", what) for what, text in BASELINES.items()]
    passes = f"{options.epochs} epoch{'s' if options.epochs > 1 else ''}"
    height, width = options.train_size
    side = str(height) if height == width else f"{height}x{width}"
    trained = [
        Row(f"{name}, trained {passes} at {side} px", "trained", name) for name in options.attach
    ]
    return [*rules, *baselines, *trained]


class Known(NamedTuple):
    """What was seen at a size with some tables: rules that agree there are run once."""

    size: Pair
    tables: list[torch.Tensor]
    seen: Seen


def run(
    opened: Opened,
    row: Row,
    size: Pair,
    data: Images,
    device: torch.device,
    known: list[Known],
) -> Seen | str:
    """Run a model at a size in the way of a row that needs no training.

    Args:
        opened: the model at its native size; as it was, afterwards.
        row: the way.
        size: pixels, (height, width).
        data: the pictures.
        device: to run on.
        known: what was seen before, added to.

    Returns:
        What it made of the pictures, or why it cannot be done.
    """
    model, loader = opened.model, at_size(data, size)
    if row.kind == "native":
        return look(model, loader, device)
    if row.what == "shrink":
        return look(model, loader, device, first_to=opened.native)
    if row.what == "zero" and getattr(model, "pos_embed", None) is None:
        return f"{type(model).__name__} has no table pos_embed to zero"
    patch, rule = None, row.what if row.kind == "rule" and row.what != OWN else None
    if row.what == "patches":
        patch = larger_patch(opened, size)
        if patch is None:
            return f"no patch of whole pixels gives {size} as many patches as {opened.native}"
    try:
        resized = resize(model, size, patch_size=patch, rule=rule)
    except ValueError as error:
        return str(error)
    tables: dict[nn.Parameter, torch.Tensor] = {}
    try:
        if row.what == "zero":
            tables = _forget(model)
        own = dict(model.named_parameters())
        held = [own[name].detach().clone() for name in resized.names]
        for before in known:
            if row.kind == "rule" and before.size == size and _agree(before.tables, held):
                return before.seen
        seen = look(model, loader, device)
        if row.kind == "rule":
            known.append(Known(size, held, seen))
        return seen
    finally:
        for table, values in tables.items():
            table.data = values
        resized.undo()


def _agree(first: list[torch.Tensor], second: list[torch.Tensor]) -> bool:
    pairs = list(zip(first, second, strict=True))
    # As far as rounding: the sums of two rules may be formed in another order.
    return bool(pairs) and all(torch.allclose(a, b, rtol=0, atol=1e-6) for a, b in pairs)


def larger_patch(opened: Opened, size: Pair) -> Pair | None:
    """The patch that cuts a size into as many patches as the native size has.

    Args:
        opened: the model.
        size: pixels, (height, width).

    Returns:
        Its pixels, None where they are not whole.
    """
    pairs = list(zip(size, opened.patch, opened.native, strict=True))
    if any(new * patch % old for new, patch, old in pairs):
        return None
    height, width = (new * patch // old for new, patch, old in pairs)
    return height, width


def _forget(model: Any) -> dict[nn.Parameter, torch.Tensor]:
    """Zero each patch's row of the table and keep the prefix's; returns what was there."""
    table = model.pos_embed
    held = table.data
    bare = getattr(model, "no_embed_class", False) or table.ndim != 3
    prefix = 0 if bare else model.num_prefix_tokens
    table.data = held.clone()
    table.data[:, prefix:] = 0.0
    return {table: held}


def rule_of(options: Any) -> str | None:
    """The rule for the table of what is trained, None for the model's own."""
    return None if options.table_rule == OWN else options.table_rule


def attached(opened: Opened, row: Row, options: Any, device: torch.device) -> Any:
    """Bring a copy of the model to the size to train at, and attach what a row says.

    Args:
        opened: the model at its native size, left as it is.
        row: what to attach.
        options: as parsed.
        device: where the copy lives.

    Returns:
        The copy, in evaluation mode.
    """
    torch.manual_seed(options.seed)
    model: Any = copy.deepcopy(opened.model)
    resize(model, options.train_size, rule=rule_of(options))
    attach_named(model, row.what, keep_native=options.table == "keep")
    return model.to(device).eval()


def train(
    model: Any,
    options: Any,
    data: Images,
    device: torch.device,
    tell: Callable[[float, float], None],
) -> dict[str, Any]:
    """Train what :func:`attached` returned, on labelled pictures.

    Args:
        model: changed in place.
        options: as parsed.
        data: the pictures.
        device: to train on.
        tell: takes the share that is done and the loss of each step.

    Returns:
        ``before``, the accuracy before training, how many ``numbers`` were trained on how many
        ``pictures``, and ``training_seconds``.
    """
    split: Any = data.split
    seen = look(model, at_size(data, options.train_size), device)
    labels = split.test.labels[split.test.rows]
    before = (seen.predicted == labels).double().mean().item()
    chosen = first_of_each(split.train, options.train_limit)
    training = copy.copy(data)
    training.split, training.augmentation = split._replace(train=chosen), True
    numbers = choose_trainable(model, options.trainable)
    training.size = options.train_size
    loader = training.train_dataloader()
    torch.manual_seed(options.seed)  # what was attached may have drawn: the order stays the same
    start = time.perf_counter()
    tune(model, loader, epochs=options.epochs, lr=options.lr, device=device, tell=tell)
    seconds = time.perf_counter() - start
    return {"before": before, "numbers": numbers, "pictures": len(chosen),
            "training_seconds": seconds}  # fmt: skip
