"""The few functions that run a table of calls without Python, as machine code made by LLVM.

All have one signature, `int32 f(int64 *frame)`: nought, or what went wrong. A frame is a row of
64-bit words, the first of which says what to do; the others are arguments, and each kind of
function has its own layout:

- `thunk(kind)` calls a function that Numba compiled, as Numba's callers do:
  CODE, RETURN, EXPECTED, arguments. What a function returns must be what is expected.
- `walk` calls an inner loop of NumPy's (the C function behind a ufunc) along the last of several
  axes: LOOP, DATA, OPERANDS, AXES, then where in the frame DIMS, STEPS and STRIDES begin, then the
  addresses of the operands; an axis has its length and a stride for each operand.
- `guard` compares bytes: address, expected, how many.

`drive` runs a whole table; its header has the fields of HEADER.
"""

import ctypes
import threading
from functools import cache, wraps

from llvmlite import binding, ir

DATA = object.__basicsize__  # of an array object, in bytes: where the address of its data stands
I1, I8, I32, I64 = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)
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


class Code:
    """Builds one function of LLVM's language."""

    def __init__(self, name, kind=CALL):
        self.module = ir.Module(name)
        self.module.triple = binding.get_default_triple()
        self.function = ir.Function(self.module, kind, name)
        self.builder = ir.IRBuilder(self.function.append_basic_block("entry"))

    def address(self):
        """Compile it; the address of its machine code, and what keeps that in memory."""
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        parsed = binding.parse_assembly(str(self.module))
        machine = binding.Target.from_triple(self.module.triple).create_target_machine(
            cpu=binding.get_host_cpu_name(), features=binding.get_host_cpu_features().flatten(),
            opt=2, jit=True,
        )  # fmt: skip
        engine = binding.create_mcjit_compiler(parsed, machine)
        engine.finalize_object()
        return engine.get_function_address(self.function.name), engine

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
def walk():
    """Calls an inner loop at every place of the outer axes, the last of which turns first."""
    code = Code("walk")
    builder, frame = code.builder, code.function.args[0]
    loop, data, operands, axes, dims, steps, strides = (code.load(frame, i) for i in range(7))
    pointers, given, index = (builder.alloca(I64, size=I64(n)) for n in (OPERANDS, OPERANDS, AXES))
    with code.each(operands) as k:
        code.store(code.load(frame, code.add(7, k)), pointers, k)
    with code.each(axes) as k:
        code.store(I64(0), index, k)
    run, turn, more, back, end = map(builder.append_basic_block, ("run", "turn", "more", "back", "end"))
    builder.branch(run)
    builder.position_at_end(run)
    with code.each(operands) as k:  # some loops move the pointers that they are given
        code.store(code.load(pointers, k), given, k)
    function = builder.inttoptr(loop, LOOP.as_pointer())
    builder.call(function, [given, code.at(frame, dims), code.at(frame, steps), data])
    last, called = code.add(axes, -1), builder.block
    builder.branch(turn)
    builder.position_at_end(turn)
    axis = builder.phi(I64)
    axis.add_incoming(last, called)
    inside = builder.append_basic_block("inside")
    builder.cbranch(builder.icmp_signed("<", axis, I64(0)), end, inside)
    builder.position_at_end(inside)
    place = code.at(frame, code.add(strides, builder.mul(axis, code.add(operands, 1))))
    length, number = code.load(place, 0), code.add(code.load(index, axis), 1)
    builder.cbranch(builder.icmp_signed("<", number, length), more, back)
    builder.position_at_end(more)
    code.store(number, index, axis)
    _move(code, pointers, place, operands, I64(1))
    builder.branch(run)
    builder.position_at_end(back)
    code.store(I64(0), index, axis)
    _move(code, pointers, place, operands, builder.sub(I64(1), length))
    axis.add_incoming(code.add(axis, -1), builder.block)
    builder.branch(turn)
    builder.position_at_end(end)
    builder.ret(I32(0))
    return code.address()


def _move(code, pointers, axis, operands, times):
    with code.each(operands) as k:
        step = code.builder.mul(code.load(axis, code.add(k, 1)), times)
        code.store(code.add(code.load(pointers, k), step), pointers, k)


@once
def guard():
    """Whether memory holds other bytes than it should."""
    code = Code("guard")
    builder, frame = code.builder, code.function.args[0]
    found = code.builder.bitcast(code.words(code.load(frame, 0)), POINTER)
    expected = builder.bitcast(code.at(frame, 1), POINTER)
    differs = builder.alloca(I32)
    builder.store(I32(0), differs)
    with code.each(code.load(frame, 2)) as i:
        same = builder.icmp_signed("==", code.load(found, i), code.load(expected, i))
        builder.store(builder.select(same, builder.load(differs), I32(1)), differs)
    builder.ret(builder.load(differs))
    return code.address()


@once
def _driver():
    """Runs a table: gives the number of the entry that failed, or -1."""
    code = Code("drive", ir.FunctionType(I64, [WORDS]))
    builder, header = code.builder, code.function.args[0]
    field = {name: code.load(header, place) for place, name in enumerate(HEADER)}
    entries, bases = code.words(field["entries"]), code.words(field["bases"])
    with code.each(field["rounds"]) as turn:
        code.store(turn, header, HEADER.index("round"))
        row = builder.mul(turn, field["width"])
        objects = code.at(code.words(field["objects"]), row)
        with code.each(field["outside"]) as i:
            number = code.load(code.words(field["which"]), i)
            array = builder.add(code.load(objects, number), I64(DATA))
            code.store(code.load(code.words(array), 0), bases, number)
        patches = code.words(field["patches"])
        with code.each(field["fixups"]) as i:
            slot, array, offset = (
                code.load(patches, code.add(builder.mul(i, I64(3)), k)) for k in range(3)
            )
            code.store(builder.add(code.load(bases, array), offset), code.words(slot), 0)
        with code.each(field["count"], field["begin"]) as i:
            place = builder.mul(i, I64(2))
            function = builder.inttoptr(code.load(entries, place), CALL.as_pointer())
            frame = code.words(code.load(entries, code.add(place, 1)))
            status = builder.call(function, [frame])
            with builder.if_then(builder.icmp_signed("!=", status, I32(0)), likely=False):
                builder.ret(i)
    builder.ret(I64(-1))
    return code.address()


@once
def drive():
    """`drive(address of a header)`, which releases the GIL while it runs."""
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(_driver()[0])


# Inner loops that NumPy has not: choosing, and other dtypes

KINDS = {"f": ir.FloatType(), "d": ir.DoubleType(), "?": I8, "b": I8, "B": I8, "h": ir.IntType(16),
         "H": ir.IntType(16), "i": I32, "I": I32, "l": I64, "L": I64, "q": I64, "Q": I64}  # fmt: skip


@once
def choose(size):
    """out = a where the first operand is true, else b, of `size` bytes each."""
    kind = ir.IntType(8 * size)

    def element(builder, condition, a, b):
        return builder.select(builder.icmp_signed("!=", condition, I8(0)), a, b)

    return _loop("choose", (I8, kind, kind, kind), element)


@once
def cast(source, target):
    """out = a as another dtype, both by NumPy's letters; a LookupError for what is not known."""
    a, b = KINDS[source], KINDS[target]
    return _loop("cast", (a, b), lambda builder, value: _converted(builder, value, source, target))


def _converted(builder, value, source, target):
    kind, signed = KINDS[target], source not in "?BHILQ"
    real = isinstance(KINDS[source], (ir.FloatType, ir.DoubleType))
    if target == "?":
        different = (
            builder.fcmp_unordered("!=", value, KINDS[source](0)) if real
            else builder.icmp_signed("!=", value, KINDS[source](0))
        )  # fmt: skip
        return builder.zext(different, I8)
    if target in "fd":
        if real:
            grows = source == "f"
            return value if source == target else (
                builder.fpext(value, kind) if grows else builder.fptrunc(value, kind)
            )  # fmt: skip
        return (builder.sitofp if signed else builder.uitofp)(value, kind)
    if real:
        if target not in "ilq":  # C leaves it open what does not fit
            raise LookupError(source + target)
        return builder.fptosi(value, kind)
    if kind.width == KINDS[source].width:
        return value
    if kind.width < KINDS[source].width:
        return builder.trunc(value, kind)
    return (builder.sext if signed else builder.zext)(value, kind)


def _loop(name, kinds, element):
    """A loop like NumPy's: pointers, one length, strides; the last operand is the result."""
    code = Code(name, LOOP)
    builder, (pointers, dims, steps, _) = code.builder, code.function.args
    starts = [code.load(pointers, k) for k in range(len(kinds))]
    strides = [code.load(steps, k) for k in range(len(kinds))]
    with code.each(code.load(dims, 0)) as i:
        places = [
            builder.inttoptr(builder.add(start, builder.mul(i, stride)), kind.as_pointer())
            for start, stride, kind in zip(starts, strides, kinds, strict=True)
        ]
        *sources, target = places
        found = [builder.load(place) for place in sources]
        for value in found:
            value.align = 1
        builder.store(element(builder, *found), target).align = 1
    builder.ret_void()
    return code.address()
