"""Whole numbers, and arrays of values, as LLVM's instructions: what `_translate` makes nests of.

A number is one of Python's (then it is known beforehand, and what is computed from it as well) or
one of LLVM's: i64, or i1 for the result of a comparison; reals are moved, never computed with.
"""

import operator

from llvmlite import ir

WHOLE, FLAG, SHORT = ir.IntType(64), ir.IntType(1), ir.IntType(32)
REALS = ir.FloatType(), ir.DoubleType()
BYTES = ir.IntType(8).as_pointer()
KNOWN = {"Add": operator.add, "Sub": operator.sub, "Mult": operator.mul, "Pow": operator.pow,
         "FloorDiv": operator.floordiv, "Mod": operator.mod, "LShift": operator.lshift,
         "RShift": operator.rshift, "BitAnd": operator.and_, "BitOr": operator.or_,
         "BitXor": operator.xor, "Eq": operator.eq, "NotEq": operator.ne, "Lt": operator.lt,
         "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge}  # fmt: skip
"""What Python does for the operators of its syntax trees."""
PLAIN = {"Add": "add", "Sub": "sub", "Mult": "mul", "LShift": "shl", "RShift": "ashr",
         "BitAnd": "and_", "BitOr": "or_", "BitXor": "xor"}  # fmt: skip
COMPARED = {"Eq": "==", "NotEq": "!=", "Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">="}


class Array:
    """An array in memory: the address of its first value, lengths, and steps in bytes.

    It has the attributes of NumPy's arrays that nests may use.
    """

    def __init__(self, dtype, data, shape, strides):
        self.dtype, self.data, self.shape, self.strides = dtype, data, shape, strides
        self.itemsize, self.ctypes = dtype.itemsize, self


class Numbers:
    """Builds instructions on numbers at the end of what `builder` has built."""

    def __init__(self, builder):
        self.builder = builder

    def whole(self, value):
        """A whole number of LLVM's."""
        if isinstance(value, (bool, int)):
            return WHOLE(int(value))
        if getattr(value, "type", None) not in (WHOLE, FLAG):
            raise NotImplementedError("a nest of loops computes with whole numbers only")
        return self.builder.zext(value, WHOLE) if value.type == FLAG else value

    def truth(self, value):
        """Whether a number is not 0."""
        if isinstance(value, (bool, int)):
            return FLAG(bool(value))
        return value if value.type == FLAG else self.builder.icmp_signed("!=", value, WHOLE(0))

    def compute(self, name, a, b):
        """The result of an operator, named as in Python's syntax trees."""
        if isinstance(a, (bool, int)) and isinstance(b, (bool, int)):
            return KNOWN[name](a, b)
        if name == "Pow":
            return a if b == 1 else self.compute("Mult", a, self.compute("Pow", a, b - 1))
        a, b = self.whole(a), self.whole(b)
        if name in COMPARED:
            return self.builder.icmp_signed(COMPARED[name], a, b)
        if name in PLAIN:
            return getattr(self.builder, PLAIN[name])(a, b)
        return getattr(self, name)(a, b)

    def FloorDiv(self, a, b):
        """a // b, rounded down as in Python."""
        return self.builder.sub(self.builder.sdiv(a, b), self.whole(self._differ(a, b)))

    def Mod(self, a, b):
        """a % b, of b's sign."""
        more = self.builder.select(self._differ(a, b), b, WHOLE(0))
        return self.builder.add(self.builder.srem(a, b), more)

    def _differ(self, a, b):
        """Whether there is a remainder of another sign than b's: LLVM rounds towards 0."""
        rest = self.builder.srem(a, b)
        other = self.builder.icmp_signed("<", self.builder.xor(rest, b), WHOLE(0))
        return self.builder.and_(other, self.builder.icmp_signed("!=", rest, WHOLE(0)))

    def extreme(self, name, a, b):
        """The one of two numbers for which the comparison holds."""
        if isinstance(a, int) and isinstance(b, int):
            return a if KNOWN[name](a, b) else b
        a, b = self.whole(a), self.whole(b)
        return self.builder.select(self.compute(name, a, b), a, b)

    def add(self, a, b):
        return self.compute("Add", a, b)

    def multiply(self, a, b):
        return self.compute("Mult", a, b)

    # Memory

    def dense(self, dtype, data, shape):
        """An array whose values lie behind each other, row by row."""
        strides = [dtype.itemsize]
        for length in reversed(shape[1:]):
            strides.insert(0, self.multiply(strides[0], length))
        return Array(dtype, data, tuple(shape), tuple(strides[: len(shape)]))

    def view(self, array, keys):
        """array[keys], where a key is a number, or a pair of bounds: a part of an axis."""
        data, shape, strides = array.data, [], []
        keys = (*keys, *[(0, None)] * (len(array.shape) - len(keys)))
        for key, length, step in zip(keys, array.shape, array.strides, strict=True):
            first, end = key if isinstance(key, tuple) else (key, None)
            data = self.add(data, self.multiply(first, step))
            if isinstance(key, tuple):
                end = length if end is None else self.extreme("Lt", end, length)
                shape.append(self.extreme("Gt", self.compute("Sub", end, first), 0))
                strides.append(step)
        return Array(array.dtype, data, tuple(shape), tuple(strides))

    def load(self, array):
        """The value of an array without axes."""
        value = self.builder.load(self._place(array))
        if array.dtype.kind in "biu":
            extend = self.builder.sext if array.dtype.kind == "i" else self.builder.zext
            return value if array.itemsize == WHOLE.width // 8 else extend(value, WHOLE)
        return value

    def store(self, array, value):
        """Write an array without axes; a vector can be set to 0: C's memset."""
        if array.shape:
            return self._clear(array, value)
        kind = kind_of(array.dtype)
        return self.builder.store(self._as(value, kind), self._place(array))

    def _clear(self, array, value):
        if len(array.shape) != 1 or array.strides[0] != array.itemsize or value != 0:
            raise NotImplementedError("a nest can set contiguous vectors, and to 0 only")
        function = self.builder.module.declare_intrinsic("llvm.memset", [BYTES, WHOLE])
        size = self.whole(self.multiply(array.shape[0], array.itemsize))
        place = self.builder.inttoptr(self.whole(array.data), BYTES)
        self.builder.call(function, [place, ir.IntType(8)(0), size, FLAG(0)])

    def _as(self, value, kind):
        """A number in the type of values in memory."""
        is_real = kind in REALS
        if isinstance(value, (bool, int, float)):
            return kind(float(value) if is_real else value)
        if value.type in REALS and is_real:
            change = self.builder.fptrunc if kind == REALS[0] else self.builder.fpext
            return value if value.type == kind else change(value, kind)
        whole = self.whole(value)
        if is_real:
            return self.builder.sitofp(whole, kind)
        return whole if kind == WHOLE else self.builder.trunc(whole, kind)

    def _place(self, array):
        return self.builder.inttoptr(self.whole(array.data), kind_of(array.dtype).as_pointer())

    def move(self, source, target, size):
        """Copy `size` bytes between addresses that do not overlap: C's memcpy."""
        places = [self.builder.inttoptr(self.whole(place), BYTES) for place in (target, source)]
        function = self.builder.module.declare_intrinsic("llvm.memcpy", [BYTES, BYTES, WHOLE])
        self.builder.call(function, [*places, self.whole(size), FLAG(0)])

    def call(self, address, arguments):
        """Call the machine code at an address with whole numbers."""
        kind = ir.FunctionType(ir.VoidType(), [WHOLE] * len(arguments)).as_pointer()
        function = self.builder.inttoptr(self.whole(address), kind)
        self.builder.call(function, [self.whole(each) for each in arguments])


def kind_of(dtype):
    """LLVM's type of a value in memory."""
    known = dict(zip(("f4", "f8"), REALS, strict=True))
    return known.get(dtype.str[1:]) or ir.IntType(8 * dtype.itemsize)
