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
def gather(size):
    """out = what lies so many bytes behind the first operand, `size` bytes each."""
    code, kind = Code("gather", LOOP), ir.IntType(8 * size)
    builder, (pointers, dims, steps, _) = code.builder, code.function.args
    with code.each(code.load(dims, 0)) as i:
        base, offset, target = (
            builder.add(code.load(pointers, k), builder.mul(i, code.load(steps, k)))
            for k in range(3)
        )
        source = builder.add(base, code.load(code.words(offset), 0))
        value = builder.load(builder.inttoptr(source, kind.as_pointer()))
        value.align = 1
        builder.store(value, builder.inttoptr(target, kind.as_pointer())).align = 1
    builder.ret_void()
    return code.address()


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
    return Walk("walk").built().address()


class Walk(Code):
    """Builds `walk`: operands have pointers, axes an index each; what is behind the last place of
    an axis goes back to its first, and lets the axis before turn."""

    def built(self):
        self._begin()
        run, turn, end = map(self.builder.append_basic_block, ("run", "turn", "end"))
        self.builder.branch(run)
        self.builder.position_at_end(run)
        self._call()
        last, called = self.add(self.axes, -1), self.builder.block
        self.builder.branch(turn)
        self.builder.position_at_end(turn)
        axis = self.builder.phi(I64)
        axis.add_incoming(last, called)
        self._turn(axis, run, turn, end)
        self.builder.position_at_end(end)
        self.builder.ret(I32(0))
        return self

    def _begin(self):
        builder, self.frame = self.builder, self.function.args[0]
        (self.loop, self.data, self.operands, self.axes, self.dims, self.steps,
         self.strides) = (self.load(self.frame, i) for i in range(7))  # fmt: skip
        self.pointers, self.given = (builder.alloca(I64, size=I64(OPERANDS)) for _ in range(2))
        self.index = builder.alloca(I64, size=I64(AXES))
        with self.each(self.operands) as k:
            self.store(self.load(self.frame, self.add(7, k)), self.pointers, k)
        with self.each(self.axes) as k:
            self.store(I64(0), self.index, k)

    def _call(self):
        with self.each(self.operands) as k:  # some loops move the pointers that they are given
            self.store(self.load(self.pointers, k), self.given, k)
        function = self.builder.inttoptr(self.loop, LOOP.as_pointer())
        dims, steps = self.at(self.frame, self.dims), self.at(self.frame, self.steps)
        self.builder.call(function, [self.given, dims, steps, self.data])

    def _turn(self, axis, run, turn, end):
        """One step along an axis; `turn` is come to again for the axis before."""
        builder = self.builder
        inside, more, back = map(builder.append_basic_block, ("inside", "more", "back"))
        builder.cbranch(builder.icmp_signed("<", axis, I64(0)), end, inside)
        builder.position_at_end(inside)
        offset = builder.mul(axis, self.add(self.operands, 1))
        place = self.at(self.frame, self.add(self.strides, offset))
        length, number = self.load(place, 0), self.add(self.load(self.index, axis), 1)
        builder.cbranch(builder.icmp_signed("<", number, length), more, back)
        builder.position_at_end(more)
        self.store(number, self.index, axis)
        self._move(place, I64(1))
        builder.branch(run)
        builder.position_at_end(back)
        self.store(I64(0), self.index, axis)
        self._move(place, builder.sub(I64(1), length))
        axis.add_incoming(self.add(axis, -1), builder.block)
        builder.branch(turn)

    def _move(self, axis, times):
        """All pointers by so many strides of an axis."""
        with self.each(self.operands) as k:
            step = self.builder.mul(self.load(axis, self.add(k, 1)), times)
            self.store(self.add(self.load(self.pointers, k), step), self.pointers, k)


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
