"""A machine for element-wise formulas: its instructions, and the compiled loop that obeys them.

It is one function of LLVM's language, generated once for each float type: over blocks of elements,
over the instructions of a program, a switch; each case is a loop over whole vectors of 64 bytes.
Nothing is compiled for a formula. No multiplication is fused with an addition, and what is not an
instruction here is done by NumPy's own inner loop, so that bytes are those of NumPy's functions.

A register is a row of a block's elements in scratch memory; it may be filled up to a whole vector
with anything. Bools are 1.0 and 0.0 in registers and bytes in memory.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ._jit import compiled

VECTOR = 64  # bytes
FIELDS = 8  # 32-bit numbers in an instruction: operation, target, sources a, b, c, function, count
CODE, ONCE, COUNT, SCRATCH, SIZE, BLOCK, FUNCTIONS, ARRAYS = range(8)
"""The header of a program, 64-bit numbers: addresses of the instructions and of scratch memory,
how many instructions are for the first block only, ... ; from ARRAYS on, the addresses of array
objects. Registers are named by their first byte in scratch memory."""
DATA = object.__basicsize__  # of an array object, in bytes: where the address of its data stands
I8, I32, I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
POINTER = I8.as_pointer()

MEMORY = ("load", "store", "load_bool", "store_bool", "spread", "loop")
"""Between memory and registers; ``spread``: one number to a whole register; ``loop``: a function
of NumPy's from one or two registers to another."""
CALLED = {name: name for name in ("sqrt", "floor", "ceil", "trunc", "rint")} | {"abs": "fabs"}
ARITHMETIC = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "true_divide": "fdiv"}
COMPARED = {"equal": "==", "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">="}
BITS = {"bitwise_and": "and_", "bitwise_or": "or_", "bitwise_xor": "xor"}
OTHERS = ("negative", "copysign", "maximum", "minimum", "not_equal", "isnan", "isfinite",
          "signbit", "invert", "where")  # fmt: skip
LEAVES = (*CALLED, *ARITHMETIC, *COMPARED, *BITS, *OTHERS)
OPERATIONS = {name: number for number, name in enumerate((*MEMORY, *LEAVES))}


class Vectors:
    """Builds instructions on vectors of one float type."""

    def __init__(self, builder, kind):
        self.builder, self.kind = builder, kind
        self.bytes = 4 if kind == ir.FloatType() else 8
        self.lanes = VECTOR // self.bytes
        self.type = ir.VectorType(kind, self.lanes)
        self.whole = ir.VectorType(ir.IntType(8 * self.bytes), self.lanes)
        self.zero, self.one = self.constant(0.0), self.constant(1.0)

    def constant(self, value):
        return ir.Constant(self.type, [value] * self.lanes)

    def leaf(self, name, a, b, c):
        """The value of a leaf function of vectors; sources that it has not are None."""
        builder = self.builder
        if name in CALLED:
            return self.call(CALLED[name], a)
        if name in ARITHMETIC:
            return getattr(builder, ARITHMETIC[name])(a, b)
        if name in COMPARED:
            return self.flag(builder.fcmp_ordered(COMPARED[name], a, b))
        if name in BITS:
            return self.of_bits(getattr(builder, BITS[name])(self.bits(a), self.bits(b)))
        return getattr(self, name)(*[x for x in (a, b, c) if x is not None])

    def call(self, name, *arguments):
        """A function that LLVM knows, on vectors."""
        full = f"llvm.{name}.v{self.lanes}f{8 * self.bytes}"
        kind = ir.FunctionType(self.type, [self.type] * len(arguments))
        found = self.builder.module.globals.get(full)
        return self.builder.call(found or ir.Function(self.builder.module, kind, full), arguments)

    def flag(self, condition):
        return self.builder.select(condition, self.one, self.zero)

    def bits(self, a):
        return self.builder.bitcast(a, self.whole)

    def of_bits(self, a):
        return self.builder.bitcast(a, self.type)

    def negative(self, a):
        sign = ir.Constant(self.whole, [1 << (8 * self.bytes - 1)] * self.lanes)
        return self.of_bits(self.builder.xor(self.bits(a), sign))

    def copysign(self, a, b):
        return self.call("copysign", a, b)

    def maximum(self, a, b):
        return self._extreme(">", a, b)

    def minimum(self, a, b):
        return self._extreme("<", a, b)

    def _extreme(self, sign, a, b):
        """A NaN where there is one; of equals (two zeros) the second, as NumPy has it."""
        first = self.builder.fcmp_ordered(sign, a, b)
        return self.builder.select(self.builder.or_(first, self._nan(a)), a, b)

    def _nan(self, a):
        return self.builder.fcmp_unordered("uno", a, a)

    def not_equal(self, a, b):
        return self.flag(self.builder.fcmp_unordered("!=", a, b))

    def isnan(self, a):
        return self.flag(self._nan(a))

    def isfinite(self, a):
        infinite = self.constant(float("inf"))
        return self.flag(self.builder.fcmp_ordered("<", self.call("fabs", a), infinite))

    def signbit(self, a):
        zero = ir.Constant(self.whole, [0] * self.lanes)
        return self.flag(self.builder.icmp_signed("<", self.bits(a), zero))

    def invert(self, a):
        return self.flag(self.builder.fcmp_ordered("==", a, self.zero))

    def where(self, a, b, c):
        return self.builder.select(self.builder.fcmp_unordered("!=", a, self.zero), b, c)


ONE = (*CALLED, "negative", "isnan", "isfinite", "signbit", "invert")
ARITY = {**dict.fromkeys(LEAVES, 2), **dict.fromkeys(ONE, 1), "where": 3}


class Interpreter(Vectors):
    """Builds the loops over blocks and instructions, and the cases of the switch."""

    def number(self, address, place):
        """The 64-bit number at a place of a table."""
        pointer = self.builder.inttoptr(address, I64.as_pointer())
        return self.builder.load(self.builder.gep(pointer, [I64(place)]))

    def build(self, header):
        builder = self.builder
        code, once, count, scratch, size, block, functions = (
            self.number(header, place) for place in range(ARRAYS)
        )
        self.header, self.scratch, self.functions = header, scratch, functions
        self.pointers = [builder.alloca(t, size=I64(n)) for t, n in ((POINTER, 3), (I64, 4))]
        last = builder.add(code, builder.mul(count, I64(4 * FIELDS)))
        later = builder.add(code, builder.mul(once, I64(4 * FIELDS)))
        with self.counted(I64(0), size, block) as self.start:
            left = builder.sub(size, self.start)
            fits = builder.icmp_signed("<", left, block)
            self.length = builder.select(fits, left, block)
            whole = builder.add(self.length, I64(self.lanes - 1))
            self.end = builder.mul(builder.and_(whole, I64(-self.lanes)), I64(self.bytes))
            first = builder.select(builder.icmp_signed("==", self.start, I64(0)), code, later)
            with self.counted(first, last, I64(4 * FIELDS)) as instruction:
                self.obey(instruction)

    def counted(self, begin, end, step):
        return Loop(self.builder, begin, end, step)

    def obey(self, instruction):
        builder = self.builder
        pointer = builder.inttoptr(instruction, I32.as_pointer())
        fields = [builder.load(builder.gep(pointer, [I64(i)])) for i in range(7)]
        done = builder.append_basic_block("done")
        self.fields = [builder.sext(field, I64) for field in fields]
        switch = builder.switch(fields[0], done)
        for name, number in OPERATIONS.items():
            case = builder.append_basic_block(name)
            switch.add_case(I32(number), case)
            builder.position_at_end(case)
            (self.vectors if name in LEAVES else getattr(self, name))(name)
            builder.branch(done)
        builder.position_at_end(done)

    def row(self, field):
        """The address of the register that an instruction names."""
        return self.builder.add(self.scratch, self.fields[field])

    def at(self, address, offset, kind):
        return self.builder.inttoptr(self.builder.add(address, offset), kind.as_pointer())

    def vectors(self, name):
        rows = [self.row(2 + i) for i in range(ARITY[name])]
        target = self.row(1)
        with self.counted(I64(0), self.end, I64(VECTOR)) as offset:
            found = [self.builder.load(self.at(row, offset, self.type)) for row in rows]
            for each in found:
                each.align = VECTOR
            value = self.leaf(name, *found, *[None] * (3 - len(found)))
            self.builder.store(value, self.at(target, offset, self.type)).align = VECTOR

    def memory(self, field, bytes):
        """The address of this block in an array."""
        place = self.builder.add(I64(ARRAYS), self.fields[field])
        table = self.builder.inttoptr(self.header, I64.as_pointer())
        array = self.builder.load(self.builder.gep(table, [place]))
        data = self.builder.load(self.at(array, I64(DATA), I64))
        return self.builder.add(data, self.builder.mul(self.start, I64(bytes)))

    def copy(self, target, source):
        kind = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, I64, ir.IntType(1)])
        name = "llvm.memcpy.p0i8.p0i8.i64"
        found = self.builder.module.globals.get(name)
        found = found or ir.Function(self.builder.module, kind, name)
        size = self.builder.mul(self.length, I64(self.bytes))
        ends = [self.builder.inttoptr(address, POINTER) for address in (target, source)]
        self.builder.call(found, [*ends, size, ir.IntType(1)(0)])

    def load(self, name):
        self.copy(self.row(1), self.memory(2, self.bytes))

    def store(self, name):
        self.copy(self.memory(1, self.bytes), self.row(2))

    def load_bool(self, name):
        source, target = self.memory(2, 1), self.row(1)
        with self.counted(I64(0), self.length, I64(1)) as i:
            byte = self.builder.load(self.at(source, i, I8))
            value = self.builder.uitofp(byte, self.kind)
            place = self.builder.mul(i, I64(self.bytes))
            self.builder.store(value, self.at(target, place, self.kind))

    def store_bool(self, name):
        source, target = self.row(2), self.memory(1, 1)
        with self.counted(I64(0), self.length, I64(1)) as i:
            place = self.builder.mul(i, I64(self.bytes))
            value = self.builder.load(self.at(source, place, self.kind))
            self.builder.store(self.builder.fptoui(value, I8), self.at(target, i, I8))

    def spread(self, name):
        """Every lane of a register as the only number of an array; in the first block."""
        value = self.builder.load(self.at(self.memory(2, self.bytes), I64(0), self.kind))
        target = self.row(1)
        with self.counted(I64(0), self.end, I64(self.bytes)) as offset:
            self.builder.store(value, self.at(target, offset, self.kind))

    def loop(self, name):
        builder, (pointers, numbers) = self.builder, self.pointers
        rows = [builder.inttoptr(self.row(field), POINTER) for field in (2, 3, 1)]
        two = builder.icmp_signed("==", self.fields[6], I64(2))
        rows[1] = builder.select(two, rows[1], rows[2])
        for i, row in enumerate(rows):
            builder.store(row, builder.gep(pointers, [I64(i)]))
            builder.store(I64(self.bytes), builder.gep(numbers, [I64(i)]))
        length = builder.gep(numbers, [I64(3)])
        builder.store(self.length, length)
        place = builder.mul(self.fields[5], I64(16))
        given = [POINTER.as_pointer(), I64.as_pointer(), I64.as_pointer(), POINTER]
        kind = ir.FunctionType(ir.VoidType(), given).as_pointer()
        entry = builder.add(self.functions, place)
        function = builder.load(self.at(entry, I64(0), kind))
        data = builder.load(self.at(entry, I64(8), POINTER))
        builder.call(function, [pointers, length, numbers, data])


class Loop:
    """for number in range(begin, end, step), which is known to run at least once."""

    def __init__(self, builder, begin, end, step):
        self.builder, self.begin, self.end, self.step = builder, begin, end, step

    def __enter__(self):
        builder, before = self.builder, self.builder.block
        self.body = builder.append_basic_block("loop")
        builder.branch(self.body)
        builder.position_at_end(self.body)
        self.number = builder.phi(I64)
        self.number.add_incoming(self.begin, before)
        return self.number

    def __exit__(self, *problem):
        builder, after = self.builder, self.builder.append_basic_block("after")
        following = builder.add(self.number, self.step)
        self.number.add_incoming(following, builder.block)
        builder.cbranch(builder.icmp_signed("<", following, self.end), self.body, after)
        builder.position_at_end(after)


@intrinsic
def _interpret(typing, header, like):
    def generate(context, builder, signature, arguments):
        Interpreter(builder, context.get_value_type(like)).build(arguments[0])
        return context.get_dummy_value()

    return types.void(header, like), generate


@compiled
def run_float32(header):
    _interpret(header, np.float32(0))


@compiled
def run_float64(header):
    _interpret(header, np.float64(0))
