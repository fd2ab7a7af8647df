"""Launch: run one program on several replicas, each a thread on its device.

Everything ends together: the first failure stops every replica at its next wait, and its
traceback is what the caller sees, with the replica, device and step named.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from typing import Any

from minidp.backend import get_backend
from minidp.backend.cpu import blas_threads, keep_freed_memory
from minidp.device import Device, device_list
from minidp.errors import DeviceError, ReplicaError
from minidp.mode import mode, quietly, switched
from minidp.parallel.communicator import Communicator
from minidp.parallel.exchange import Exchange, Stopped
from minidp.parallel.host import HostCommunicator
from minidp.parallel.nccl import NcclCommunicator, nccl_available
from minidp.parallel.peer import PeerCommunicator
from minidp.parallel.replica import World
from minidp.parallel.split import counts
from minidp.random import default_generator

GRACE = 2.0
"""Seconds that replicas are given to notice a failure at their next wait."""

SWITCH = 2e-4
"""Seconds after which a Python thread that computes lets another one run, while replicas run; see
``tests/bench/busy_interpreter.py``."""

STORES = {
    "local": "local", "local_update_cpu": "local", "local_allreduce_cpu": "local",
    "device": "device", "local_allreduce_device": "device", "nccl": "device",
}  # fmt: skip
"""Names of stores, MXNet's among them."""


def check_devices(devices: Any) -> list[Device]:
    """The devices meant; a DeviceError when one of them is not there."""
    found = device_list(devices)
    problem = get_backend(found[0].type).problem(max(found).index)
    if problem:
        raise DeviceError(f"device {max(found)} cannot be used: {problem}")
    return found


def check_store(store: str) -> str:
    """The store meant, ``local`` or ``device``; a ReplicaError for one that does not exist."""
    if not isinstance(store, str) or store not in STORES:
        dist = str(store).startswith("dist")
        later = " (several machines come in a later version)" if dist else ""
        names = ", ".join(STORES)
        raise ReplicaError(f"store {store!r} is unknown{later}; expected one of {names}")
    return STORES[store]


def assign(devices: list[Device], replicas: int) -> list[Device]:
    """The device of each replica: neighbouring replicas share one."""
    return [devices[rank * len(devices) // replicas] for rank in range(replicas)]


def placed(devices: list[Device], replicas: int, weights: Sequence[Fraction]) -> list[Device]:
    """The device of each replica, as many to each device as its workload says."""
    if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 1:
        raise ReplicaError(f"replicas={replicas!r}: expected a number of at least 1")
    if len(set(weights)) == 1:
        return assign(devices, replicas)
    many = counts(replicas, weights)
    return [device for device, n in zip(devices, many, strict=True) for _ in range(n)]


def launch(
    program: Callable[..., Any], devices: Any = None, *, args: tuple[Any, ...] = (),
    replicas: int | None = None, store: str = "local", watch: Callable[[], None] | None = None,
    warn_after: float = 10.0, deadline: float = 300.0,
) -> list[Any]:  # fmt: skip
    """Run ``program(world, *args)`` once per replica; return what each returned, in rank order.

    ``watch`` is called about ten times a second in the calling thread while they run.
    ``warn_after`` and ``deadline`` are seconds a replica may wait for another.

    >>> dp.launch(lambda world: (world.rank, world.size), devices=2)
    [(0, 2), (1, 2)]
    """
    places = check_devices(devices)
    places = places if replicas is None else assign(places, replicas)
    exchange = Exchange(len(places), warn_after, deadline)
    return launch_on(program, places, args, check_store(store), watch, exchange)


def launch_on(
    program: Callable[..., Any], places: list[Device], args: tuple[Any, ...], store: str,
    watch: Callable[[], None] | None = None, exchange: Exchange | None = None,
) -> list[Any]:  # fmt: skip
    """``launch`` for replicas that already have their devices."""
    exchange = exchange or Exchange(len(places))
    results: list[Any] = [None] * len(places)
    modes, random = mode.handed_on(), default_generator.get_state()
    modes["faults"] = mode.faults

    def run(rank: int) -> None:
        try:
            with _SETTINGS:
                exchange.take_turn(rank)
                results[rank] = _program(program, args, rank, places, exchange, store, modes,
                                         random)  # fmt: skip
                exchange.depart(rank)
        except Stopped:
            pass
        except BaseException as error:
            step = exchange.steps.get(rank, 0)
            exchange.fail(error, f"in replica {rank} on {places[rank]}, step {step}")
        finally:
            exchange.end_turn(rank)
            exchange.ended[rank].set()

    locks = {place: threading.Lock() for place in places}
    for rank, place in enumerate(places):
        if places.count(place) > 1:
            exchange.share_device(rank, locks[place])
        name = f"minidp replica {rank} on {place}"
        exchange.threads[rank] = threading.Thread(target=run, args=(rank,), name=name, daemon=True)
    _run_threads(exchange, watch)
    failure = exchange.poison()
    if failure is not None:
        try:
            if exchange.owed is not None:
                exchange.owed()
            raise failure
        finally:
            del failure  # its frames are in its traceback: no cycle
    return results


def _program(
    program: Callable[..., Any], args: tuple[Any, ...], rank: int, places: list[Device],
    exchange: Exchange, store: str, modes: dict[str, Any], random: dict[str, int],
) -> Any:  # fmt: skip
    """Run the program in the thread of ``rank``, with its device current."""
    with get_backend(places[rank].type).activate(places[rank].index):
        exchange.check()
        link = communicator(rank, exchange, places, store)
        world, failed = World(rank, places, link, exchange, store, random), True
        try:
            with switched(**modes, replica=world):
                result = quietly(program, world, *args)
            failed = False
            return result
        finally:
            world.close(failed)


def communicator(rank: int, exchange: Exchange, places: list[Device], store: str) -> Communicator:
    """NCCL, or copies, between different GPUs whose store is ``device``; else host memory."""
    gpus = places[rank].type == "cuda" and 1 < len(set(places)) == len(places)
    if store != "device" or not gpus:
        return HostCommunicator(rank, exchange)
    made = NcclCommunicator if nccl_available() else PeerCommunicator
    return made(rank, exchange, get_backend("cuda").xp)


def _run_threads(exchange: Exchange, watch: Callable[[], None] | None) -> None:
    """Run the replicas; after a failure, only for as long as they need to notice it.

    They are waited for through events: a ``join`` that Ctrl-C interrupts takes a running thread
    for a stopped one (in Python up to 3.12), and one whose ``start`` it interrupts begins later.
    """
    begun: list[int] = []
    try:
        for rank, thread in exchange.threads.items():
            begun.append(rank)
            thread.start()
        for ended in exchange.ended:
            while exchange.failure is None and not ended.wait(0.1):
                for look in exchange.looks:
                    look(exchange)
                if watch is not None:
                    watch()
        if watch is not None and exchange.failure is None:
            watch()
    except BaseException as error:
        exchange.fail(error)
    until = time.monotonic() + GRACE
    for rank in begun:
        if _ended(exchange, rank, until):
            exchange.threads[rank].join()


def _ended(exchange: Exchange, rank: int, until: float) -> bool:
    """Whether a replica ends by the time ``until``, or by the deadline if it commits a step."""
    ended, last = exchange.ended[rank], until + exchange.deadline
    while not ended.wait(max(0.0, until - time.monotonic())):
        if rank not in exchange.committing or until > last:
            return False
        until = time.monotonic() + 0.05
    return True


class Settings:
    """What belongs to the whole process while replicas run, of however many launches at once.

    BLAS runs one thread per replica, and Python threads take turns often, so that a busy one does
    not starve the others. The last replica to end puts things back: not the thread that launched
    them, which Ctrl-C may interrupt in the midst of it.
    """

    def __init__(self) -> None:
        self._lock, self._replicas, self._undo = threading.Lock(), 0, ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            self._replicas += 1
            keep_freed_memory()
            if self._replicas == 1:
                self._undo.enter_context(blas_threads(1))
                self._undo.enter_context(_quick_switches())

    def __exit__(self, *failure: object) -> None:
        with self._lock:
            self._replicas -= 1
            if self._replicas == 0:
                self._undo.close()


_SETTINGS = Settings()


@contextmanager
def _quick_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, SWITCH))
    try:
        yield
    finally:
        sys.setswitchinterval(before)
