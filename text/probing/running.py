"""One run of a probe: an encoding trained on the task, or a checkpoint, asked everywhere."""

from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from text.data.needles import ALPHABET
from text.runs import parameters_of, train, write


def probe_trained(task: dict[str, Any], progress: Any = None) -> dict[str, Any]:
    """Train an encoding on the task with a seed, ask it, and write down what came out.

    Args:
        task: ``encoding``, ``seed``, ``configs``, ``overrides``, ``factors``, ``depths``,
            ``samples``, ``key`` and the ``path`` to write.
        progress: a queue that takes ``(encoding, seed, share done)`` after each epoch.

    Returns:
        What was written.
    """
    model, data, seconds = train(task, progress)
    lengths = [data.length * factor for factor in task["factors"]]
    return _ask(task, model, lengths, seconds, data.length, keys=data.keys)


def probe_checkpoint(task: dict[str, Any]) -> dict[str, Any]:
    """Ask a trained model, and write down what came out.

    Args:
        task: ``encoding`` (what to call it), ``seed``, ``checkpoint``, ``device``, ``text`` (a
            path, or None for the test part of the standard library), ``keys``, ``factors``,
            ``depths``, ``samples``, ``key`` and the ``path`` to write.

    Returns:
        What was written.

    Raises:
        ValueError: the checkpoint is of another program, or the text too short.
    """
    from text.data import StandardLibrary, TextFiles
    from text.generate import open_checkpoint

    try:
        model = open_checkpoint(Path(task["checkpoint"]), task["device"])
    except UnpicklingError:
        raise ValueError(
            f"checkpoint must be a file that `python -m text fit` wrote, got {task['checkpoint']}, "
            f"which is of another kind"
        ) from None
    lengths = [model.length * factor for factor in task["factors"]]
    if model.alphabet == ALPHABET:
        return _ask(task, model, lengths, 0.0, model.length, keys=task["keys"])
    if task["text"] is None:
        texts = StandardLibrary().load().test
    else:
        split = TextFiles(task["text"]).load()
        texts = split.train + split.val + split.test
    filler = model.vocabulary.encode("".join(texts))
    return _ask(task, model, lengths, 0.0, model.length, filler=filler)


def _ask(
    task: dict[str, Any],
    model: Any,
    lengths: list[int],
    seconds: float,
    trained: int,
    **asked: Any,
) -> dict[str, Any]:
    from text.probing.task import letters_accuracy, text_accuracy

    ask = text_accuracy if "filler" in asked else letters_accuracy
    model.eval()
    accuracy: dict[int, Any] = {}
    for length in lengths:
        refusal = model.network.refusal(length)
        accuracy[length] = refusal or [
            ask(model, length=length, depth=depth, samples=task["samples"], seed=k, **asked)
            for k, depth in enumerate(task["depths"])
        ]
    result = {
        "key": task["key"], "encoding": task["encoding"], "seed": task["seed"],
        "seconds": seconds, "parameters": parameters_of(model), "train_length": trained,
        "depths": task["depths"], "samples": task["samples"], "accuracy": accuracy,
        "chance": 0.1, "slots": model.encodings,
    }  # fmt: skip
    write(result, Path(task["path"]))
    return result
