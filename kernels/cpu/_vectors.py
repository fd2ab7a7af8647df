"""Vectors of numbers as instructions of LLVM, of which generators of innermost loops are made."""

from llvmlite import ir

from ._machine_code import INTEGER

SHORT, FLAG = ir.IntType(32), ir.IntType(1)
POINTER = ir.IntType(8).as_pointer()


class Vectors:
    """Vectors of one kind: how to load and store as many of their lanes as exist."""

    def __init__(self, target, dtype):
        self.lanes, self.size = target.lanes(dtype), dtype.itemsize
        self.real = ir.FloatType() if self.size == 4 else ir.DoubleType()
        self.kind = ir.VectorType(self.real, self.lanes)
        self.mask = ir.VectorType(FLAG, self.lanes)
        self.constants = {}
        self.zero = self.constant(0.0)
        self.suffix = f"v{self.lanes}f{8 * self.size}"
        self.unit = ir.Module("kernel")
        kind, place, nothing = self.kind, [self.kind.as_pointer(), SHORT, self.mask], ir.VoidType()
        masked = f"{self.suffix}.p0{self.suffix}"
        self._load = self.known(f"masked.load.{masked}", kind, [*place, kind])
        self._store = self.known(f"masked.store.{masked}", nothing, [kind, *place])
        self._fma = self.known(f"fma.{self.suffix}", kind, [kind] * 3)
        self._fetch = self.known("prefetch.p0i8", nothing, [POINTER, SHORT, SHORT, SHORT])

    def known(self, name, result, arguments):
        """An instruction of LLVM that it knows as a function."""
        return ir.Function(self.unit, ir.FunctionType(result, arguments), f"llvm.{name}")

    def constant(self, value):
        """A number in every lane, made once: its text is long."""
        if value not in self.constants:
            self.constants[value] = ir.Constant(self.kind, [float(value)] * self.lanes)
        return self.constants[value]

    def function(self, count):
        """A function of integers, and a builder at its begin."""
        kind = ir.FunctionType(ir.VoidType(), [INTEGER] * count)
        function = ir.Function(self.unit, kind, "kernel")
        return function, ir.IRBuilder(function.append_basic_block())

    def masks(self, build, columns, count):
        """For each of `count` vectors, which of its lanes are among `columns`."""
        numbers = ir.VectorType(SHORT, self.lanes)
        places = [ir.Constant(numbers, [j * self.lanes + k for k in range(self.lanes)])
                  for j in range(count)]  # fmt: skip
        wide = self.spread(build, build.trunc(columns, SHORT), numbers)
        return [build.icmp_signed("<", place, wide) for place in places]

    def spread(self, build, value, kind=None):
        """A vector with `value` in every lane."""
        kind = kind or self.kind
        unknown, first = ir.Constant(kind, ir.Undefined), ir.Constant(SHORT, 0)
        single = build.insert_element(unknown, value, first)
        everywhere = ir.Constant(ir.VectorType(SHORT, kind.count), [0] * kind.count)
        return build.shuffle_vector(single, unknown, everywhere)

    def load(self, build, place, mask):
        """The lanes of `mask` at an address, 0 in others."""
        place = build.bitcast(place, self.kind.as_pointer())
        return build.call(self._load, [place, SHORT(self.size), mask, self.zero])

    def store(self, build, value, place, mask):
        place = build.bitcast(place, self.kind.as_pointer())
        build.call(self._store, [value, place, SHORT(self.size), mask])

    def fetch(self, build, place, cache=1, to_write=False):
        """Ask for the line of memory that holds a place: some time later the first or second cache
        has it."""
        build.call(self._fetch, [place, SHORT(int(to_write)), SHORT(4 - cache), SHORT(1)])

    def number(self, build, place):
        """One value, in every lane."""
        return self.spread(build, build.load(build.bitcast(place, self.real.as_pointer())))

    def fma(self, build, a, b, c):
        """a * b + c, rounded once."""
        return build.call(self._fma, [a, b, c])

    def relu(self, build, value):
        """0 for what is less; NaN stays."""
        return build.select(build.fcmp_ordered("<", value, self.zero), self.zero, value)

    def masked(self, build, value, by):
        """0 where `by` is 0 or less, but not where it is NaN."""
        return build.select(build.fcmp_ordered("<=", by, self.zero), self.zero, value)

    def bytes(self, build, count):
        """The length of `count` values."""
        return build.mul(count, INTEGER(self.size))
