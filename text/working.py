"""Runs side by side, each in a process of its own, with a bar that shows how far they are."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing.managers import SyncManager
from queue import Empty
from typing import Any


def jobs_at_a_time() -> int:
    """One run per core, or per GPU."""
    import torch

    if torch.cuda.is_available():
        return 1
    # What this process may use, where the system tells.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def work(
    run: Callable[..., dict[str, Any]],
    todo: list[dict[str, Any]],
    jobs: int,
    line: Callable[[dict[str, Any]], str],
) -> None:
    """Run tasks, and print a line for each that ends.

    Args:
        run: takes a task and a queue for ``(encoding, seed, share done)``; importable by name.
        todo: the tasks, of ``encoding`` and ``seed``.
        jobs: how many at a time.
        line: what to say of a result.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    if not todo:
        return
    context = multiprocessing.get_context("spawn")
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:.0f} %"))
    manager = SyncManager(ctx=context)
    manager.start(_depend)
    with manager, Progress(*columns, TimeElapsedColumn()) as bar:
        pool = ProcessPoolExecutor(jobs, context, initializer=_depend)
        queue = manager.Queue()
        try:
            _follow({pool.submit(run, task, queue) for task in todo}, queue, bar, line)
        except BaseException:
            for process in list((pool._processes or {}).values()):
                process.terminate()
            pool.shutdown(cancel_futures=True)
            raise
        pool.shutdown()


def _depend() -> None:
    """Leave it to the parent to be interrupted, and end with it, however it ends."""
    # At the keyboard the parent ends the others: they would only print where they were.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _follow(running: set[Future], queue: Any, bar: Any, line: Callable[..., str]) -> None:
    """Show how far the runs are, and each result as it comes."""
    shown = bar.add_task("training", total=len(running))
    shares: dict[tuple[str, int], float] = {}
    while running:
        done, running = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
        shares.update(_news(queue))
        for future in done:
            result = future.result()
            shares[result["encoding"], result["seed"]] = 1.0
            bar.console.print(line(result), highlight=False, soft_wrap=True)
        bar.update(shown, completed=sum(shares.values()))


def _news(queue: Any) -> dict[tuple[str, int], float]:
    shares = {}
    while True:
        try:
            name, seed, share = queue.get_nowait()
        except Empty:
            return shares
        shares[name, seed] = share
