"""Inner loops that NumPy has not: choosing, and other dtypes; and what calls any inner loop."""

from llvmlite import ir

from ._native import AXES, I8, I32, I64, LOOP, OPERANDS, POINTER, Code, once

I16 = ir.IntType(16)
KINDS = {"f": ir.FloatType(), "d": ir.DoubleType(), "?": I8, "b": I8, "B": I8, "h": I16, "H": I16,
         "i": I32, "I": I32, "l": I64, "L": I64, "q": I64, "Q": I64}  # fmt: skip
"""NumPy's letters for dtypes."""


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
    names = ("run", "turn", "more", "back", "end")
    run, turn, more, back, end = map(builder.append_basic_block, names)
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
