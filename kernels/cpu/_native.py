"""The few functions that run a table of calls without Python, as machine code made by LLVM.

All have one signature, `int32 f(int64 *frame)`: nought, or what went wrong. A frame is a row of
64-bit words; each kind of function has its own layout:

- `thunk(kind)` calls a function that Numba compiled, as Numba's callers do:
  CODE, RETURN, EXPECTED, arguments. What a function returns must be what is expected.
- `_loops.walk` calls an inner loop of NumPy's (the C function behind a ufunc) along the last of
  several axes: LOOP, DATA, OPERANDS, AXES, then where in the frame DIMS, STEPS and STRIDES begin,
  then the addresses of the operands; an axis has its length and a stride for each operand.
- `_loops.guard` compares bytes: address, expected, how many.

`drive` runs a whole table; its header has the fields of HEADER.
"""

import ctypes
import threading
from functools import cache, wraps

from llvmlite import binding, ir

from ._machine_code import address, anyhow

DATA = object.__basicsize__  # of an array object, in bytes: where the address of its data stands
I8, I32, I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
WORDS, POINTER = I64.as_pointer(), I8.as_pointer()
CALL = ir.FunctionType(I32, [WORDS])
LOOP = ir.FunctionType(ir.VoidType(), [WORDS, WORDS, WORDS, I64])
OPERANDS, AXES = 8, 64  # at most
HEADER = ("count", "entries", "outside", "which", "width", "objects", "bases", "fixups", "patches",
          "begin", "rounds", "round")  # fmt: skip
"""Of a table: how many entries (a function and its frame each), and where they are; how many
arrays from outside it needs, where their numbers are, and how many there are in all; where the
addresses of all array objects are, where those of their data go; how many words of frames depend
on these, and (word, array, offset) of each; the entry to begin at; how many rounds to run, each
with the next row of array objects; the round it is in."""


_one_at_a_time = threading.RLock()


def once(function):
    """Remember what a function gives: also with two threads, code must not be made twice, for
    what is not remembered is let go, and its machine code with it."""
    remembered = cache(function)

    @wraps(function)
    def call(*arguments):
        with _one_at_a_time:
            return remembered(*arguments)

    return call


def _as_it_is(target, text):
    """LLVM's text of a function that has been written already."""
    return text


class Code:
    """Builds one function of LLVM's language."""

    def __init__(self, name, kind=CALL):
        self.module = ir.Module(name)
        self.module.triple = binding.get_default_triple()
        self.function = ir.Function(self.module, kind, "kernel")
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))

    def address(self):
        """The address of its machine code, from disk if it has been compiled before; and itself."""
        return address(anyhow(), _as_it_is, str(self.module)), self

    def at(self, words, place):
        place = I64(place) if isinstance(place, int) else place
        return self.builder.gep(words, [place])

    def load(self, words, place):
        return self.builder.load(self.at(words, place))

    def store(self, value, words, place):
        self.builder.store(value, self.at(words, place))

    def words(self, number):
        """The memory that a number is the address of, as words."""
        return self.builder.inttoptr(number, WORDS)

    def each(self, count, begin=0):
        return Each(self.builder, I64(begin) if isinstance(begin, int) else begin, count)

    def add(self, *numbers):
        total, *rest = [I64(n) if isinstance(n, int) else n for n in numbers]
        for number in rest:
            total = self.builder.add(total, number)
        return total


class Each:
    """for number in range(begin, end), which may be empty."""

    def __init__(self, builder, begin, end):
        self.builder, self.begin, self.end = builder, begin, end

    def __enter__(self):
        builder, before = self.builder, self.builder.block
        self.head, body = (builder.append_basic_block(name) for name in ("head", "body"))
        self.after = builder.append_basic_block("after")
        builder.branch(self.head)
        builder.position_at_end(self.head)
        self.number = builder.phi(I64)
        self.number.add_incoming(self.begin, before)
        builder.cbranch(builder.icmp_signed("<", self.number, self.end), body, self.after)
        builder.position_at_end(body)
        return self.number

    def __exit__(self, *problem):
        builder = self.builder
        self.number.add_incoming(builder.add(self.number, I64(1)), builder.block)
        builder.branch(self.head)
        builder.position_at_end(self.after)


@once
def thunk(kind):
    """What calls functions of an LLVM type of Numba's: the result's place, the exception's, ..."""
    code = Code("thunk")
    builder, frame = code.builder, code.function.args[0]
    result = builder.bitcast(code.at(frame, 1), kind.args[0])
    problem = builder.alloca(kind.args[1].pointee)
    given = [_argument(code, frame, 3 + i, each) for i, each in enumerate(kind.args[2:])]
    function = builder.inttoptr(code.load(frame, 0), kind.as_pointer())
    status = builder.call(function, [result, problem, *given])
    fine = [builder.icmp_signed("==", status, I32(number)) for number in (0, -2)]  # 0, or None
    failed = builder.not_(builder.or_(*fine))
    if isinstance(kind.args[0].pointee, ir.PointerType):
        builder.ret(builder.zext(failed, I32))
        return code.address()
    same = builder.icmp_signed("==", code.load(frame, 1), code.load(frame, 2))
    builder.ret(builder.zext(builder.or_(failed, builder.not_(same)), I32))
    return code.address()


def _argument(code, frame, place, kind):
    """A word of a frame as an argument."""
    word, builder = code.load(frame, place), code.builder
    if isinstance(kind, ir.PointerType):
        return builder.inttoptr(word, kind)
    if kind == ir.FloatType():
        return builder.bitcast(builder.trunc(word, I32), kind)
    if kind == ir.DoubleType():
        return builder.bitcast(word, kind)
    return word if kind == I64 else builder.trunc(word, kind)


@once
def _driver():
    """Runs a table: gives the number of the entry that failed, or -1."""
    return Driver("drive", ir.FunctionType(I64, [WORDS])).built().address()


class Driver(Code):
    """Builds `drive`."""

    def built(self):
        header = self.function.args[0]
        self.field = {name: self.load(header, place) for place, name in enumerate(HEADER)}
        with self.each(self.field["rounds"]) as turn:
            self.store(turn, header, HEADER.index("round"))
            self._find_arrays(turn)
            self._patch_frames()
            with self.each(self.field["count"], self.field["begin"]) as entry:
                self._run(entry)
        self.builder.ret(I64(-1))
        return self

    def _find_arrays(self, turn):
        """Read the addresses of the data of arrays from outside from their objects."""
        field, bases = self.field, self.words(self.field["bases"])
        row = self.builder.mul(turn, field["width"])
        objects = self.at(self.words(field["objects"]), row)
        with self.each(field["outside"]) as i:
            number = self.load(self.words(field["which"]), i)
            array = self.builder.add(self.load(objects, number), I64(DATA))
            self.store(self.load(self.words(array), 0), bases, number)

    def _patch_frames(self):
        """Write these addresses to the words of frames that depend on them."""
        field, bases = self.field, self.words(self.field["bases"])
        patches = self.words(field["patches"])
        with self.each(field["fixups"]) as i:
            first = self.builder.mul(i, I64(3))
            slot, array, offset = (self.load(patches, self.add(first, k)) for k in range(3))
            value = self.builder.add(self.load(bases, array), offset)
            self.store(value, self.words(slot), 0)

    def _run(self, entry):
        builder, entries = self.builder, self.words(self.field["entries"])
        place = builder.mul(entry, I64(2))
        function = builder.inttoptr(self.load(entries, place), CALL.as_pointer())
        frame = self.words(self.load(entries, self.add(place, 1)))
        status = builder.call(function, [frame])
        with builder.if_then(builder.icmp_signed("!=", status, I32(0)), likely=False):
            builder.ret(entry)


def driver():
    """The address of `drive`."""
    return _driver()[0]


@once
def drive():
    """`drive(address of a header)`, which releases the GIL while it runs."""
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(driver())
