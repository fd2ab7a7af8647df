"""From Python's objects to the words of a frame, as machine code: what calls a nest of loops.

`run(words, program)` reads addresses and shapes from the array objects among the words; it gives 1,
and has done nothing, where an array is not what the program expects. So Python hands on the `id` of
each array, and need not look at it.
"""

import ctypes

import numpy as np
from llvmlite import ir

from ._inner import fields_known
from ._native import CALL, DATA, I32, I64, WORDS, Code, once
from ._traced import Traced

FIRST = DATA // 8
TYPE, AXES, LENGTHS, DTYPE, FLAGS = (FIRST + k for k in (-1, 1, 2, 5, 6))
"""Words of an array object: `PyArrayObject` in NumPy's ndarraytypes.h."""
SHORT = 0xFFFFFFFF  # where a number has 32 bits
DENSE = 0x1 | 0x100 | 0x400  # flags: C-contiguous, aligned, writable
MOST = 256  # words of a frame
NUMBER = -1  # what a program says instead of an array's axes
HEAD = ("code", "count", "array", "traced")


def program(code, kinds):
    """What `run` is told of a nest: its address, and of each word the axes and dtype expected."""
    entries = [entry for kind in kinds for entry in _entries(kind)]
    if sum(1 + max(0, axes) for axes, _ in entries) > MOST:
        raise ValueError(f"a nest of loops takes at most {MOST} words")
    head = code, len(entries), id(np.ndarray), id(Traced)
    return np.array([*head, *[number for entry in entries for number in entry]], np.int64)


def _entries(kind):
    """(axes, address of the dtype) of an argument; of a tuple, of all in it."""
    if not isinstance(kind, tuple):
        return [(NUMBER, 0)]
    if isinstance(kind[0], str):
        letter, axes = kind
        return [(axes, id(np.dtype(letter)))]
    return [entry for each in kind[1:] for entry in _entries(each)]


class Unpacking(Code):
    """Builds `run`."""

    def built(self):
        given, self.program = self.function.args
        self.frame = self.builder.alloca(I64, size=I64(MOST))
        self.filled = self.builder.alloca(I64)
        self.builder.store(I64(0), self.filled)
        with self.each(self.load(self.program, HEAD.index("count"))) as k:
            place = self.add(len(HEAD), self.builder.mul(k, I64(2)))
            axes, word = self.load(self.program, place), self.load(given, k)
            dtype = self.load(self.program, self.add(place, 1))
            is_number = self.builder.icmp_signed("==", axes, I64(NUMBER))
            with self.builder.if_else(is_number) as (then, otherwise):
                with then:
                    self.fill(word)
                with otherwise:
                    self.array(self.words(word), axes, dtype)
        code = self.builder.inttoptr(self.load(self.program, 0), CALL.as_pointer())
        self.builder.ret(self.builder.call(code, [self.frame]))
        return self

    def fill(self, word):
        """The next word of the frame."""
        at = self.builder.load(self.filled)
        self.store(word, self.frame, at)
        self.builder.store(self.add(at, 1), self.filled)

    def array(self, found, axes, dtype):
        """The address and the shape of an array, if it is as expected."""
        kind = self.load(found, TYPE)
        known = [self.builder.icmp_signed("==", kind, self.load(self.program, HEAD.index(name)))
                 for name in ("array", "traced")]  # fmt: skip
        self.expect(self.builder.or_(*known))
        self.expect_same(self.load(found, DTYPE), dtype)
        self.expect_same(self.builder.and_(self.load(found, AXES), I64(SHORT)), axes)
        self.expect_same(self.builder.and_(self.load(found, FLAGS), I64(DENSE)), I64(DENSE))
        self.fill(self.load(found, FIRST))
        lengths = self.words(self.load(found, LENGTHS))
        with self.each(axes) as axis:
            self.fill(self.load(lengths, axis))

    def expect_same(self, a, b):
        self.expect(self.builder.icmp_signed("==", a, b))

    def expect(self, condition):
        """Go on where it holds, else say that something does not fit."""
        with self.builder.if_then(self.builder.not_(condition), likely=False):
            self.builder.ret(I32(1))


@once
def unpacking():
    """`run(bytes of words, address of a program)`; None where objects lie in an unknown way."""
    if not (fields_known() and _words_known()):
        return None
    kind = ir.FunctionType(I32, [WORDS, WORDS])
    place, _ = Unpacking("unpack", kind).built().address()
    return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p, ctypes.c_int64)(place)


def _words_known():
    """Whether array objects of this NumPy have the words where we look for them."""
    array = np.zeros((2, 3), np.float32)
    words = (ctypes.c_int64 * (FLAGS + 1)).from_address(id(array))
    found = words[TYPE], words[DTYPE], words[AXES] & SHORT, words[FLAGS] & DENSE
    expected = id(np.ndarray), id(array.dtype), array.ndim, DENSE
    return found == expected and tuple((ctypes.c_int64 * 2).from_address(words[LENGTHS])) == (2, 3)
