"""At which size, by which rule? A trained vision transformer at sizes it was not trained at."""

import hashlib
import json
import os
import re
import shlex
import sys
import time
from pathlib import Path
from typing import Any

from vision.resizing.asking import parse

Pair = tuple[int, int]


def main(argv: list[str]) -> None:
    """Run the command.

    Args:
        argv: arguments, as on the command line.
    """
    options = parse(argv)
    if options.print_config:
        print(json.dumps(vars(options), indent=1, default=str))
        sys.exit(0)
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    stem = re.sub(r"\W+", "_", Path(options.checkpoint).stem).strip("_")
    out = options.out or Path("runs") / "vision" / f"resize-{stem}"
    try:
        _run(options, out, shlex.join(["python", "-m", "vision", "resize", *argv]), console)
    except KeyboardInterrupt:
        print(
            f"\ninterrupted; what is measured is kept in {out / 'runs'}: the same command goes on"
        )
        sys.exit(130)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")


def _run(options: Any, out: Path, command: str, console: Any) -> None:
    from vision.resizing import reporting
    from vision.resizing.preparing import prepare
    from vision.resizing.trying import NATIVE, rows_of

    study = prepare(options)
    for note in study.notes:
        console.print(f"note: {note}")
    native = study.opened.native
    tasks = [_task(options, study, out, NATIVE, native)]
    for row in rows_of(options):
        sizes = options.sizes
        # Rules and baselines leave the native size as it is, but for the one without positions.
        if row.what != "zero" and row.kind != "trained":
            sizes = [size for size in sizes if size != native]
        tasks += [_task(options, study, out, row, size) for size in sizes]
    (out / "runs").mkdir(parents=True, exist_ok=True)
    todo = [task for task in tasks if not _finished(task)]
    console.print(
        f"{len(tasks)} measurements on {len(study.data.split.test)} pictures: {len(todo)} to do, "
        f"{len(tasks) - len(todo)} kept from before"
    )
    _measure(options, study, todo, console)
    results = [
        {**json.loads(task["path"].read_text(encoding="utf-8")), "row": task["row"].name}
        for task in tasks
    ]
    reporting.report(results, study, options, out, command, console)


def _task(options: Any, study: Any, out: Path, row: Any, size: Pair) -> dict[str, Any]:
    parts: list[Any] = [study.key, row.kind, row.what]
    name = row.what
    if row.kind == "trained":
        asked = ("epochs", "train_limit", "train_size", "lr", "trainable", "table", "table_rule")
        parts += [[str(getattr(options, name)) for name in asked], options.batch_size]
        parts.append(len(study.data.split.train))
        overlay = Path(row.what)
        parts.append(overlay.read_text(encoding="utf-8") if overlay.is_file() else "")
        name = overlay.stem
    name = re.sub(r"\W+", "_", name)
    return {
        "row": row, "size": size, "key": _hash([*parts, size]), "training": _hash(parts),
        "path": out / "runs" / f"{row.kind}-{name}-{'x'.join(map(str, size))}.json",
        "weights": out / "trained" / f"{name}.pt",
    }  # fmt: skip


def _hash(parts: list[Any]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]


def _finished(task: dict[str, Any]) -> bool:
    path = task["path"]
    return path.is_file() and json.loads(path.read_text(encoding="utf-8"))["key"] == task["key"]


def _measure(options: Any, study: Any, todo: list[dict[str, Any]], console: Any) -> None:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from vision.resizing.trying import NATIVE, run

    if not todo:
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"))
    with Progress(*columns, TimeElapsedColumn(), console=console) as bar:
        line = bar.add_task("native size", total=len(todo))
        opened, data, device = study.opened, study.data, study.device
        native = run(opened, NATIVE, opened.native, data, device, [])
        models: dict[str, Any] = {}
        known: list[Any] = []
        # Row by row, as a row's training comes before its sizes.
        for task in todo:
            row, size = task["row"], task["size"]
            bar.update(line, description=f"{row.name} at {_side(size)}")
            start = time.perf_counter()
            if row.kind == "native":
                seen, told = native, {}
            elif row.kind == "trained":
                if row.what not in models:
                    models.clear()
                    models[row.what] = _train(options, study, task, bar)
                seen, told = _trained_at(models[row.what], size, options, data, device)
            else:
                seen, told = run(opened, row, size, data, device, known), {}
            result = _result(task, seen, native, study.labels)
            _write(task["path"], {**result, **told, "seconds": time.perf_counter() - start})
            bar.advance(line)
            bar.console.print(_line(row, size, result))


def _train(options: Any, study: Any, task: dict[str, Any], bar: Any) -> Any:
    """Train a row's model, or take it from where an interrupted command left it."""
    import torch

    from vision.resizing.trying import attached, train

    row, path = task["row"], task["weights"]
    model = attached(study.opened, row, options, study.device)
    if path.is_file():
        kept = torch.load(path, map_location=study.device, weights_only=True)
        if kept["key"] == task["training"]:
            model.load_state_dict(kept["state"])
            return model, kept["told"]
    line = bar.add_task(f"training with {row.what}", total=1.0)

    def tell(share: float, loss: float) -> None:
        bar.update(line, completed=share, description=f"training with {row.what}, loss {loss:.2f}")

    told = train(model, options, study.data, study.device, tell)
    bar.remove_task(line)
    path.parent.mkdir(exist_ok=True)
    part = path.with_suffix(".part")
    torch.save({"key": task["training"], "state": model.state_dict(), "told": told}, part)
    os.replace(part, path)
    return model, told


def _trained_at(
    model: tuple[Any, dict[str, Any]], size: Pair, options: Any, data: Any, device: Any
) -> tuple[Any, dict[str, Any]]:
    from posenc_mm.timm import resize
    from vision.resizing.measuring import look
    from vision.resizing.pictures import at_size
    from vision.resizing.trying import rule_of

    resized = resize(model[0], size, rule=rule_of(options))
    try:
        return look(model[0], at_size(data, size), device), model[1]
    finally:
        resized.undo()


def _result(task: dict[str, Any], seen: Any, native: Any, labels: Any) -> dict[str, Any]:
    from vision.resizing.measuring import compare

    row = task["row"]
    found = {"refused": seen} if isinstance(seen, str) else compare(seen, native, labels)
    size = list(task["size"])
    return {"key": task["key"], "row": row.name, "kind": row.kind, "what": row.what,
            "size": size, **found}  # fmt: skip


def _write(path: Path, result: dict[str, Any]) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(result), encoding="utf-8")
    os.replace(part, path)


def _side(size: Pair) -> str:
    return f"{size[0]} px" if size[0] == size[1] else f"{size[0]}x{size[1]} px"


def _line(row: Any, size: Pair, result: dict[str, Any]) -> str:
    if "refused" in result:
        return f"{row.name} at {_side(size)}: not defined ({result['refused']})"
    score = sum(result["scores"]) / len(result["scores"])
    said = f"{100 * score:.1f} % right" if result["accuracy"] is not None else f"cosine {score:.4f}"
    return f"{row.name} at {_side(size)}: {said}"
