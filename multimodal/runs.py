"""One run: train one design with one seed, ask it under each condition, write it down."""

import hashlib
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from multimodal.data import load
from multimodal.designs import DESIGNS
from multimodal.model import Answerer
from multimodal.rows import KINDS, Rows, Setting, draw

TRAINED = Setting()
# What is asked of every model beside what it was trained with. Only one thing is changed each time.
CONDITIONS = {
    "as trained": TRAINED,
    "10 frames/s": Setting(rate=10.0),
    "40 frames/s": Setting(rate=40.0),
    "60 % dropped": Setting(dropped=0.6),
    "8 words": Setting(words=8),
    "16 words": Setting(words=16),
}
# Seeds of draws that no training has, whose seeds start at 0.
TEST_SEED = 1_000_000


def run(task: dict[str, Any], progress: Any = None) -> dict[str, Any]:
    """Train one design with one seed, test it, and write down what came out.

    Args:
        task: ``design``, ``seed``, ``data``, ``part``, ``steps``, ``batch``, ``rows``,
            ``test_rows``, ``key`` and the ``path`` to write.
        progress: a queue that takes ``(design, seed, share done)``.

    Returns:
        What was written.
    """
    if progress is not None:
        torch.set_num_threads(1)
    material = load(task["data"])
    start = time.perf_counter()
    model = train(task, draw(material["train"], TRAINED, task["rows"], task["seed"]), progress)
    seconds = time.perf_counter() - start
    scores = {}
    for condition, setting in CONDITIONS.items():
        rows = draw(material[task["part"]], setting, task["test_rows"], TEST_SEED)
        scores[condition] = test(model, task["design"], rows)
    result = {
        "key": task["key"], "design": task["design"], "seed": task["seed"],
        "part": task["part"], "seconds": seconds, "scores": scores,
    }  # fmt: skip
    path = Path(task["path"])
    part = path.with_suffix(".part")
    part.write_text(json.dumps(result, indent=1), encoding="utf-8")
    os.replace(part, path)
    return result


def train(task: dict[str, Any], rows: Rows, progress: Any = None) -> Answerer:
    """Train a model of its seed: the same weights and batches, whatever the design.

    Args:
        task: ``design``, ``seed``, ``steps`` and ``batch``.
        rows: to train on, pass after pass in another order.
        progress: a queue that takes ``(design, seed, share done)``.

    Returns:
        The model.
    """
    torch.manual_seed(task["seed"])
    model = Answerer()
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 2e-3, total_steps=task["steps"], pct_start=0.15, cycle_momentum=False
    )
    place = DESIGNS[task["design"]]
    order: list[Tensor] = []
    for step in range(task["steps"]):
        if not order:
            order = list(torch.randperm(len(rows.content)).split(task["batch"]))
        batch = rows.part(order.pop())
        logits = model(batch.content, place(batch.stream), batch.stream)
        loss = cross_entropy(logits.flatten(0, 1), batch.answer.flatten(), ignore_index=-1)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if progress is not None and step % 10 == 9:
            progress.put((task["design"], task["seed"], (step + 1) / task["steps"]))
    return model.eval()


@torch.no_grad()
def test(model: Answerer, design: str, rows: Rows) -> dict[str, dict[str, int]]:
    """Count right answers.

    Args:
        model: a trained one.
        design: it was trained with.
        rows: to ask about.

    Returns:
        For each kind of question how many were ``asked`` and how many answers were ``right``.
    """
    right, asked = torch.zeros(len(KINDS)), torch.zeros(len(KINDS))
    for numbers in torch.arange(len(rows.content)).split(32):
        batch = rows.part(numbers)
        logits = model(batch.content, DESIGNS[design](batch.stream), batch.stream)
        kind = batch.kind[batch.kind >= 0]
        hits = (logits.argmax(-1) == batch.answer)[batch.kind >= 0]
        asked += kind.bincount(minlength=len(KINDS))
        right += kind[hits].bincount(minlength=len(KINDS))
    return {
        name: {"asked": int(asked[number]), "right": int(right[number])}
        for number, name in enumerate(KINDS)
    }


def key_of(task: dict[str, Any]) -> str:
    """Name all that a result depends on: it is kept only while this is the same."""
    asked = {name: value for name, value in task.items() if name not in ("key", "path", "data")}
    conditions = {name: asdict(setting) for name, setting in CONDITIONS.items()}
    here = Path(__file__).parent
    codes = [(here / f"{name}.py").read_text("utf-8") for name in ("data", "rows", "designs")]
    codes += [(here / f"{name}.py").read_text("utf-8") for name in ("model", "runs")]
    parts = [asked, conditions, codes]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def is_finished(task: dict[str, Any]) -> bool:
    """Whether a result with this very key lies at the task's path."""
    path = Path(task["path"])
    return path.is_file() and json.loads(path.read_text(encoding="utf-8"))["key"] == task["key"]
