"""Chains of element-wise functions in one pass: a program for the machine of `_interpreter`.

A formula is plain. `steps`: each a name of NumPy's and its sources (a whole number: the value of
an earlier step; a float: itself), or "input" and the position of an array, or "convert": a bool
as 0 or 1. `kinds` of the arrays: "whole", "number" or "mask"; their `layouts`: the shape and
strides that each must have (None: it has them). `outputs`: each a source, a dtype and a shape.
The `size` and `dtype` of all, and the `order` of their axes in memory (the empty tuple: C order).
`compiled` is left to the kernel.
"""

import numba
import numpy as np

from . import _interpreter as machine
from ._address import Address, address
from ._frames import compiled_code
from ._inner import fields_known, inner_loop
from ._memory import empty
from ._native import thunk
from ._notes import FRAME, Private, noting
from ._traced import plain

L1, LEAST, MOST = 24 * 2**10, 256, 1024  # bytes of registers that stay near; elements of a block


def fused(*arrays, formula):
    """The outputs of `formula` for `arrays`; declines what it has no instructions for."""
    call = formula.compiled
    if call is None:
        call = formula.compiled = prepared(formula)
    if call and noting.notes is not None:
        return _noted(call.program, arrays, call)
    return call(*arrays) if call else NotImplemented


def prepared(formula):
    """The program of a formula, as a function of arrays; False if there is none."""
    if numba.config.DISABLE_JIT or not fields_known() or formula.dtype.char not in "fd":
        return False
    try:
        return Program(formula).python()
    except LookupError:
        return False


class Program:
    """A formula as instructions; what a run changes is a `State`, of which each thread has one."""

    def __init__(self, formula):
        self.formula, self.item, self.states = formula, formula.dtype.itemsize, []
        self.once, self.code, self.functions = [], [], []
        self.rows, self.free = 0, []
        self.pinned = {}  # sources that keep their row: literals and numbers
        last = self.last_uses()
        places, stores = {}, self.stores()
        for number, (leaf, *sources) in enumerate(formula.steps):
            uses = [] if leaf == "input" else sources
            given = [self.pin(s) if type(s) is float else places[s] for s in uses]
            dead = {s for s in uses if type(s) is int and last[s] == number}
            free = [places[s] for s in dead if s not in self.pinned]
            if leaf in machine.LEAVES:  # in place NumPy's loops take one element after the other
                self.free, free = self.free + free, []
            places[number] = self.place(number, leaf, sources, given)
            self.free += free
            for output in stores.get(number, ()):
                self.store(output, places[number])
            if number not in last and number not in self.pinned:
                self.free.append(places[number])
        self.finish()

    def last_uses(self):
        """The last step that uses each value."""
        found = {}
        for number, (leaf, *sources) in enumerate(self.formula.steps):
            found |= {s: number for s in sources if type(s) is int and leaf != "input"}
        return found

    def stores(self):
        """The outputs that each source is stored to."""
        found = {}
        for position, (source, *_) in enumerate(self.formula.outputs):
            found.setdefault(source, []).append(position)
        return found

    def row(self):
        if self.free:
            return self.free.pop()
        self.rows += 1
        return self.rows - 1

    def pin(self, source):
        """A row of its own for a literal or a number."""
        key = (source, np.signbit(source)) if type(source) is float else source
        if key not in self.pinned:
            self.rows += 1
            self.pinned[key] = self.rows - 1
        return self.pinned[key]

    def place(self, number, leaf, sources, given):
        """Write the instruction of a step; the row of its value."""
        if leaf == "input":
            kind = self.formula.kinds[sources[0]]
            if kind == "number":
                row = self.pin(number)
                self.once.append(("spread", row, sources[0]))
                return row
            row = self.row()
            self.code.append(("load" if kind == "whole" else "load_bool", row, sources[0]))
            return row
        row, leaf = self.row(), "abs" if leaf == "convert" else leaf
        if leaf in machine.LEAVES:
            self.code.append((leaf, row, *given))
        else:
            function = ufunc_loop(leaf, self.formula.dtype.char, len(given))
            if function not in self.functions:
                self.functions.append(function)
            place = self.functions.index(function)
            self.code.append(("loop", row, *given, *[0] * (3 - len(given)), place, len(given)))
        return row

    def store(self, output, row):
        name = "store" if self.formula.outputs[output][1] == self.formula.dtype else "store_bool"
        self.code.append((name, len(self.formula.kinds) + output, row))

    def finish(self):
        """The table of instructions, with registers by their first bytes; and what a run needs."""
        formula, size = self.formula, self.formula.size
        lanes = machine.VECTOR // self.item
        fits = L1 // (max(self.rows, 1) * self.item) // lanes * lanes
        self.block = min(max(fits, LEAST), MOST, -(-size // lanes) * lanes)
        self.pitch = self.block * self.item + machine.VECTOR  # NumPy takes neighbours for one array
        lines = [*self.once, *self.code]
        self.table = np.zeros((len(lines), machine.FIELDS), np.int32)
        for line, (name, *fields) in zip(self.table, lines, strict=True):
            registers = {"load": (0,), "load_bool": (0,), "spread": (0,), "store": (1,),
                         "store_bool": (1,), "loop": (0, 1, 2, 3)}.get(name, range(4))  # fmt: skip
            scaled = [f * self.pitch if i in registers else f for i, f in enumerate(fields)]
            line[: 1 + len(scaled)] = (machine.OPERATIONS[name], *scaled)
        self.numbers = np.array(self.functions or [(0, 0)], np.int64)
        self.literals = [(row, key[0]) for key, row in self.pinned.items() if type(key) is tuple]
        self.run = machine.run_float32 if self.item == 4 else machine.run_float64
        self.made = [maker(shape, formula.order, dtype) for _, dtype, shape in formula.outputs]

    def python(self):
        """What a run does in Python, as a function of arrays without loops."""
        known = {"states": self.states, "State": State, "program": self, "run": self.run,
                 "fitted": fitted}  # fmt: skip
        text = ["state = states.pop() if states else State(program)", "header = state.header"]
        place = machine.ARRAYS
        for i, expected in enumerate(self.formula.layouts):
            if expected is not None:
                dtype = np.dtype(bool) if self.formula.kinds[i] == "mask" else self.formula.dtype
                known |= {f"shape{i}": expected[0], f"strides{i}": expected[1], f"dtype{i}": dtype}
                unlike = (f"a{i}.strides != strides{i} or a{i}.shape != shape{i} "
                          f"or a{i}.dtype is not dtype{i}")  # fmt: skip
                fit = f"fitted(a{i}, dtype{i}, shape{i}, program.formula)"
                text.append(f"if {unlike}: a{i} = {fit}")
            text.append(f"header[{place + i}] = id(a{i})")
        place += len(self.formula.kinds)
        for i, (function, lengths, dtype) in enumerate(self.made):
            known |= {f"empty{i}": function, f"lengths{i}": lengths, f"kind{i}": dtype}
            text += [f"b{i} = empty{i}(lengths{i}, kind{i})", f"header[{place + i}] = id(b{i})"]
        results = ", ".join(f"b{i}" for i in range(len(self.made)))
        text += ["run(state.address)", "states.append(state)", f"return {results}"]
        arguments = ", ".join(f"a{i}" for i in range(len(self.formula.kinds)))
        exec(f"def call({arguments}):\n    " + "\n    ".join(text), known)
        call = known.pop("call")  # or it would hold itself
        call.program = self
        return call


class State:
    """Registers and the header of one run at a time."""

    def __init__(self, program):
        size = program.rows * program.pitch
        count = len(program.formula.kinds) + len(program.made)
        raw = np.zeros(size + machine.VECTOR, np.uint8)
        start = -raw.ctypes.data % machine.VECTOR
        self.scratch = raw[start : start + size]
        rows = self.scratch.view(program.formula.dtype).reshape(program.rows, -1)
        for row, value in program.literals:
            rows[row] = value
        table = np.zeros(machine.ARRAYS + count, np.int64)
        table[: machine.ARRAYS] = (
            *(program.table.ctypes.data, len(program.once), len(program.table)),
            *(self.scratch.ctypes.data, program.formula.size, program.block),
            program.numbers.ctypes.data,
        )
        self.table, self.header, self.address = table, memoryview(table), table.ctypes.data


def maker(shape, order, dtype):
    """How an array of this layout is made: a function, and what it is given."""
    if not order:
        return empty, shape, dtype
    back = tuple(sorted(range(len(order)), key=order.__getitem__))
    return (
        (lambda shape, dtype: empty(shape, dtype).transpose(back)),
        tuple(shape[axis] for axis in order),
        dtype,
    )


def fitted(array, dtype, shape, formula):
    """An array that came in another layout than was foreseen, in the formula's."""
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(
            f"fused: an array {array.dtype}{list(array.shape)} where the captured step had "
            f"{dtype}{list(shape)}"
        )
    make, lengths, kind = maker(shape, formula.order if array.size > 1 else (), dtype)
    result = make(lengths, kind)
    result[...] = array
    return result


def _noted(program, arrays, call):
    """Run it, and leave a note: a frame that holds the header, and cells that stand for array
    objects in it."""
    arrays = [_as_expected(a, i, program.formula) for i, a in enumerate(arrays)]
    results = call(*plain(arrays))
    results = results if isinstance(results, tuple) else (results,)
    scratch = Private(State(program).scratch)
    start, given = 4 + machine.ARRAYS, [*arrays, *results]
    header = [
        program.table.ctypes.data, len(program.once), len(program.table), Address(scratch, 0),
        program.formula.size, program.block, program.numbers.ctypes.data,
    ]  # fmt: skip
    cells = [8 * (start + len(given) + i) for i in range(len(given))]
    objects = [Address(FRAME, cell - machine.DATA) for cell in cells]
    code, kind = compiled_code(program.run, (numba.int64,))
    words = [code, 0, 0, Address(FRAME, 8 * 4), *header, *objects, *map(address, given)]
    noting.notes.add(thunk(kind)[0], words, "fused").keeps = program
    return results if len(results) > 1 else results[0]


def _as_expected(array, place, formula):
    expected = formula.layouts[place]
    if expected is None or (array.shape, array.strides) == expected:
        return array
    dtype = np.dtype(bool) if formula.kinds[place] == "mask" else formula.dtype
    return fitted(array, dtype, expected[0], formula)


def ufunc_loop(name, char, count):
    """The loop of the ufunc of that name for `count` arguments of a float type."""
    ufunc = getattr(np, name, None)
    if not isinstance(ufunc, np.ufunc) or (ufunc.nin, ufunc.nout) != (count, 1):
        raise LookupError(name)
    return inner_loop(ufunc, char * (count + 1))
