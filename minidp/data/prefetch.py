"""Working ahead in one thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from minidp.mode import mode, switched

Item = TypeVar("Item")
Result = TypeVar("Result")
Results = queue.Queue[list[Any]]


def prefetched(make: Callable[[Item], Result], items: Iterable[Item],
               depth: int = 2) -> Iterator[Result]:  # fmt: skip
    """`make(item)` for each of `items`, up to `depth` results ahead of the consumer.

    depth 0: no thread, everything is made when asked for.  An error in `make` is raised here in its
    turn, with the traceback it has in the thread.  The thread ends with the last item, after an
    error, and when this iterator is closed or forgotten. It has the consumer's default dtype.
    """
    if depth < 1:
        for item in items:
            yield make(item)
        return
    results: Results = queue.Queue(depth)
    stop = threading.Event()
    worker = threading.Thread(
        target=work, args=(make, items, results, stop, mode.handed_on()), name="minidp-prefetch",
        daemon=True,
    )  # fmt: skip
    worker.start()
    answer: list[Any] = []
    try:
        while answer := results.get():
            if len(answer) > 1:
                raise answer[1]
            yield answer.pop()  # so that it is not kept alive while the next is waited for
    finally:
        answer.clear()  # else error -> traceback -> this frame -> error is a cycle
        stop.set()
        drain(results)


def work(make: Callable[[Any], Any], items: Iterable[Any], results: Results,
         stop: threading.Event, modes: dict[str, Any]) -> None:  # fmt: skip
    """The thread: put [result] for every item; at the end [], after an error [None, error]."""
    try:
        with switched(**modes):
            for item in items:
                if stop.is_set():
                    return
                results.put([make(item)])
        end: list[Any] = []
    except BaseException as error:
        end = [None, error]
    if not stop.is_set():
        results.put(end)


def drain(results: Results) -> None:
    """Empty the queue, so that a thread waiting to put wakes up and sees that it should stop.

    It can put once more at most: there is room for that, and then it looks.
    """
    try:
        while True:
            results.get_nowait()
    except queue.Empty:
        pass
