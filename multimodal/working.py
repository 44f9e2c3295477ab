"""Runs side by side, each in a process of its own, with a bar that shows how far they are."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from multiprocessing.managers import SyncManager
from typing import Any

Result = dict[str, Any]


def work(
    run: Callable[..., Result], todo: list[Result], jobs: int, line: Callable[[Result], str]
) -> None:
    """Run tasks, and print a line for each that ends.

    Args:
        run: takes a task and a queue for ``(design, seed, share done)``; importable by name.
        todo: the tasks.
        jobs: how many at a time.
        line: what to say of a result.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    if not todo:
        return
    context = multiprocessing.get_context("spawn")
    columns = (TextColumn("training"), BarColumn(), TextColumn("{task.percentage:.0f} %"))
    manager = SyncManager(ctx=context)
    manager.start(_depend)
    with manager, Progress(*columns, TimeElapsedColumn()) as bar:
        shown = bar.add_task("training", total=len(todo))
        queue = manager.Queue()
        pool = ProcessPoolExecutor(jobs, context, initializer=_depend)
        try:
            running = {pool.submit(run, task, queue) for task in todo}
            shares: dict[tuple[str, int], float] = {}
            while running:
                done, running = wait(running, timeout=0.5, return_when=FIRST_COMPLETED)
                while not queue.empty():
                    design, seed, share = queue.get()
                    shares[design, seed] = share
                for future in done:
                    result = future.result()
                    bar.console.print(line(result), highlight=False, soft_wrap=True)
                bar.update(shown, completed=sum(shares.values()))
        except BaseException:
            for process in list((pool._processes or {}).values()):
                process.terminate()
            pool.shutdown(cancel_futures=True)
            raise
        pool.shutdown()


def _depend() -> None:
    """Leave it to the parent to be interrupted, and end with it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
