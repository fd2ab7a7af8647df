"""Launch: run one program on several replicas, each a thread on its device.

Everything ends together: the first failure stops every replica at its next wait, and its
traceback is what the caller sees, with the replica, device and step named.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from minidp.backend import get_backend
from minidp.backend.cpu import blas_threads
from minidp.device import Device, device_list
from minidp.errors import DeviceError, ReplicaError
from minidp.mode import mode, switched
from minidp.parallel.communicator import Communicator
from minidp.parallel.exchange import Exchange, Stopped
from minidp.parallel.host import HostCommunicator
from minidp.parallel.nccl import NcclCommunicator
from minidp.parallel.replica import World

GRACE = 2.0
"""Seconds that replicas are given to notice a failure at their next wait."""

STORES = ("local", "device")


def check_devices(devices: Any) -> list[Device]:
    """The devices meant; a DeviceError when one of them is not there."""
    found = device_list(devices)
    problem = get_backend(found[0].type).problem(max(found).index)
    if problem:
        raise DeviceError(f"device {max(found)} cannot be used: {problem}")
    return found


def check_store(store: str) -> str:
    """The store's name; a ReplicaError for one that does not exist."""
    if store not in STORES:
        later = " (several machines come in a later version)" if store.startswith("dist") else ""
        raise ReplicaError(f"store {store!r} is unknown{later}; expected local or device")
    return store


def assign(devices: list[Device], replicas: int) -> list[Device]:
    """The device of each replica: neighbouring replicas share one."""
    return [devices[rank * len(devices) // replicas] for rank in range(replicas)]


def launch(
    program: Callable[..., Any], devices: Any = None, *, args: tuple[Any, ...] = (),
    replicas: int | None = None, store: str = "local", watch: Callable[[], None] | None = None,
    warn_after: float = 10.0, deadline: float = 300.0,
) -> list[Any]:  # fmt: skip
    """Run ``program(world, *args)`` once per replica; return what each returned, in rank order.

    ``watch`` is called about ten times a second in the calling thread while they run.
    ``warn_after`` and ``deadline`` are seconds a replica may wait for another.
    """
    places = check_devices(devices)
    places = places if replicas is None else assign(places, replicas)
    return launch_on(program, places, args, check_store(store), watch, warn_after, deadline)


def launch_on(
    program: Callable[..., Any], places: list[Device], args: tuple[Any, ...], store: str,
    watch: Callable[[], None] | None = None, warn_after: float = 10.0, deadline: float = 300.0,
) -> list[Any]:  # fmt: skip
    """``launch`` for replicas that already have their devices."""
    exchange = Exchange(len(places), warn_after, deadline)
    results: list[Any] = [None] * len(places)
    locks = {place: threading.Lock() for place in places}
    modes = mode.handed_on()

    def run(rank: int) -> None:
        device, world = places[rank], None
        try:
            exchange.take_turn(rank)
            with get_backend(device.type).activate(device.index):
                link = communicator(rank, exchange, places, store)
                world = World(rank, device, link, exchange, store)
                with switched(**modes, replica=world):
                    results[rank] = program(world, *args)
            exchange.depart(rank)
        except Stopped:
            pass
        except BaseException as error:
            step = f", step {world.step}" if world is not None else ""
            error.add_note(f"in replica {rank} on {device}{step}")
            exchange.fail(error)
        finally:
            exchange.end_turn(rank)

    for rank, place in enumerate(places):
        if places.count(place) > 1:
            exchange.share_device(rank, locks[place])
        name = f"minidp replica {rank} on {place}"
        exchange.threads[rank] = threading.Thread(target=run, args=(rank,), name=name, daemon=True)
    with blas_threads(1), _quick_switches():
        for thread in exchange.threads.values():
            thread.start()
        _join(exchange, watch)
    if exchange.failure is not None:
        raise exchange.failure
    return results


def communicator(
    rank: int, exchange: Exchange, places: list[Device], store: str
) -> Communicator:
    """NCCL between different GPUs whose store is ``device``; host memory for all else."""
    if store == "device" and places[rank].type == "cuda" and 1 < len(set(places)) == len(places):
        cupy = get_backend("cuda").xp
        if cupy.cuda.nccl.available:
            return NcclCommunicator(rank, exchange, cupy)
    return HostCommunicator(rank, exchange)


def _join(exchange: Exchange, watch: Callable[[], None] | None) -> None:
    """Wait for the replicas; after a failure, only for as long as they need to notice it."""
    try:
        for thread in exchange.threads.values():
            while thread.is_alive() and exchange.failure is None:
                thread.join(0.1)
                if watch is not None:
                    watch()
    except BaseException as error:
        exchange.fail(error)
    until = time.monotonic() + GRACE
    for thread in exchange.threads.values():
        thread.join(max(0.0, until - time.monotonic()))


@contextmanager
def _quick_switches() -> Iterator[None]:
    """Let Python threads take turns often, so that a busy one does not starve the replicas."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, 5e-4))
    try:
        yield
    finally:
        sys.setswitchinterval(before)
