"""Tests run against mutants: each in a forked process, until the first test fails.

The tests are collected once, and run once on the unchanged kernels, to see which test comes by
which site: a mutant meets those alone. A mutant is killed when a test fails, the process crashes,
or it does not end in time.
"""

import ctypes
import faulthandler
import mmap
import os
import signal
import sys
import time
from dataclasses import dataclass, field

import pytest

from minidp.kernels.cuda import emulate, fused, runtime

from .sites import mutable

SIDES = ("grid", "block")


@dataclass
class Kernels:
    """The kernels' texts as they are compiled now, and what is known of them.

    A mutant of a header is one in every text that includes it: {.cu name: number}.
    """

    mutants: dict = field(default_factory=dict)  # file: {key: {.cu name: number}}
    modules: list = field(default_factory=list)  # (.cu name, library)
    names: dict = field(default_factory=dict)  # .cu name: its kernels, without their types
    launches: set = field(default_factory=set)  # (kernel, grid or block, axis) of this test
    chosen: dict = field(default_factory=dict)  # .cu name: number
    launch: tuple = ()  # (kernel, grid or block, axis, factor)

    def choose(self, numbers):
        """Make a mutant the running one; no other is."""
        self.chosen = numbers
        for name, library in self.modules:
            set_chosen(library, numbers.get(name, 0))

    def reached(self):
        """(.cu name, number) of every site that was evaluated since the last call."""
        found = set()
        for name, library in self.modules:
            marks = (ctypes.c_char * 4096).in_dll(library, "mutant_reached")
            found |= {(name, k) for k, mark in enumerate(marks.raw) if mark}
            ctypes.memset(marks, 0, 4096)
        return found


def set_chosen(library, number):
    ctypes.c_int.in_dll(library, "mutant_chosen").value = number


def install(files):
    """Let the emulator compile texts with mutants for these files; the Kernels that result."""
    kernels, texts = Kernels(), {}
    for name in files:
        texts[name], mutants = mutable(runtime.source(name), name)
        for mutant in mutants:
            of_file = kernels.mutants.setdefault(mutant.file, {})
            of_file.setdefault(mutant.key, {})[name] = mutant.number
    source = runtime.source
    for module in (runtime, fused):
        module.source = lambda name: texts.get(name) or source(name)
    watch_modules(kernels)
    watch_launches(kernels)
    return kernels


def watch_modules(kernels):
    """Remember each module that the emulator loads, and tell it the chosen mutant."""
    load = emulate.Module.__init__

    def loaded(self, code, name="kernels.cu", **options):
        load(self, code, name, **options)
        file = name.removesuffix(".cu")
        if "mutant_chosen" in code:
            kernels.modules.append((file, self.library))
            kernels.names.setdefault(file, set()).update(map(base_of, self.kernels))
            set_chosen(self.library, kernels.chosen.get(file, 0))

    emulate.Module.__init__ = loaded


def watch_launches(kernels):
    """Note the launches, and change the sizes of the one that is chosen."""
    find = emulate.Module.get_function

    def found(self, name):
        kernel, base = find(self, name), base_of(name)

        def launched(grid, block, args, shared_mem=0):
            sizes = {"grid": list(grid), "block": list(block)}
            kernels.launches |= {
                (base, side, axis) for side in SIDES for axis in range(len(sizes[side]))
            }
            if kernels.launch and kernels.launch[0] == base:
                _, side, axis, factor = kernels.launch
                sizes[side][axis] = int(sizes[side][axis] * factor)
            return kernel(tuple(sizes["grid"]), tuple(sizes["block"]), args, shared_mem=shared_mem)

        return launched

    emulate.Module.get_function = found


def base_of(kernel):
    """A kernel's name without the types at its end."""
    for ending in ("_u8", "_i32", "_f16", "_f32", "_f64"):
        kernel = kernel.removesuffix(ending)
    return kernel


class Machine:
    """A pytest plugin that takes the place of the loop over tests."""

    def __init__(self, kernels, visit):
        self.kernels, self.visit = kernels, visit
        self.sites, self.launched, self.seconds = {}, {}, {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        self.session, self.items = session, session.items
        self.kernels.choose({})
        for position, item in enumerate(self.items):
            self.kernels.launches, start = set(), time.perf_counter()
            self.kernels.reached()
            item.config.hook.pytest_runtest_protocol(
                item=item, nextitem=after(self.items, position)
            )
            self.seconds[item] = time.perf_counter() - start
            self.sites[item] = self.kernels.reached()
            self.launched[item] = set(self.kernels.launches)
            if session.testsfailed:
                raise session.Failed(f"{item.nodeid} fails without any mutant")
        self.visit(self)
        return True

    def tests_of(self, numbers):
        """The tests that come by a site, the quickest first."""
        sites = {(name, number & ~1) for name, number in numbers.items()}
        found = [item for item in self.items if sites & self.sites[item]]
        return sorted(found, key=self.seconds.__getitem__)

    def tests_launching(self, launch):
        """The tests that launch a kernel, the quickest first."""
        found = [item for item in self.items if launch in self.launched[item]]
        return sorted(found, key=self.seconds.__getitem__)

    def outcome(self, items, change):
        """"killed: why", "survived" or "unreached" of the mutant that `change` chooses."""
        if not items:
            return "unreached"
        (read, write), place = os.pipe(), mmap.mmap(-1, 4)
        child = os.fork()
        if child == 0:
            self.run_child(items, change, write, place)
        os.close(write)
        status = self.waited(child, items, place)
        with os.fdopen(read) as pipe:
            test = pipe.read()
        if status is None:
            return "killed: no end in time"
        if os.WIFSIGNALED(status):
            return f"killed: crash, signal {os.WTERMSIG(status)}"
        return f"killed: {test}" if os.WEXITSTATUS(status) else "survived"

    def waited(self, child, items, place):
        """The exit status; None: a test took much longer than it should, and was ended."""
        current, since = -1, time.monotonic()
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                return status
            now = int.from_bytes(place[:4], "little")
            if now != current:
                current, since = now, time.monotonic()
            elif time.monotonic() - since > 1 + 30 * self.seconds[items[current]]:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return None
            time.sleep(0.002)

    def run_child(self, items, change, write, place):
        """In the forked process: run the tests until one fails."""
        null = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (1, 2):
            os.dup2(null, descriptor)
        sys.stdout = sys.stderr = os.fdopen(null, "w")
        faulthandler.disable()
        change()
        failed = 1
        try:
            for position, item in enumerate(items):
                place[:4] = position.to_bytes(4, "little")
                item.config.hook.pytest_runtest_protocol(
                    item=item, nextitem=after(items, position)
                )
                if self.session.testsfailed:
                    os.write(write, item.name.encode())
                    break
            else:
                failed = 0
        finally:
            os._exit(failed)


def after(items, position):
    return items[position + 1] if position + 1 < len(items) else None
