"""Exponentials inside compiled loops, which the compiler turns into vector code.

Numba's own `exp`, `tanh` and `erf` are calls of C, one for each element. These are a dozen
multiplications and additions without a branch, so a loop over an array does 8 or 16 at a time; the
last elements, done one by one, get the same bytes. With n the whole number nearest x / log 2 and
r = x - n log 2, which is at most log 2 / 2 in size,

    e^x = 2^n (1 + p),  p = r + r^2 / 2! + r^3 / 3! + ...

and 1 + p is left undone as long as digits would be lost: tanh x = h / (h + 1) for
h = (e^2x - 1) / 2. Errors are below 2.5 units in the last place, 3.5 for log1pexp and for what is
`below` a positive number (erf of float64 is C's).
"""

import math

import numpy as np
from llvmlite import ir
from numba.extending import intrinsic, overload

FLOAT = ir.FloatType()
NEAR = (0.12837915122509003, -0.3761250674724579, 0.11281955242156982, -0.02677128277719021,
        0.004999599885195494, -0.0006021799053996801)  # fmt: skip
FAR = (0.1286521703004837, 0.6351358890533447, 0.10626321285963058, -0.023785406723618507,
       0.003653793828561902, -0.0003256603376939893, 1.1523083230713382e-05)  # fmt: skip
TAIL = (0.1292504091249676, 0.10895655702238652, 0.20496691444067924, -0.14341686650476654,
        0.3866609765712002, -0.22991833473558476, 0.04350034054741134)  # fmt: skip
BEND = 0.32
LOG_2 = {32: (0.693147182464599609375, -1.904654299957768e-09),
         64: (0.6931471805599453, 2.3190468138462996e-17)}  # fmt: skip
"""log 2 in each float type, and what is left of it."""


class Formulas:
    """Builds LLVM's instructions for functions of numbers of one float type."""

    def __init__(self, builder, kind):
        self.builder, self.kind = builder, kind
        bits, self.digits, terms = (32, 23, 7) if kind == FLOAT else (64, 52, 13)
        self.whole = ir.IntType(bits)
        self.terms = terms + (0 if kind == FLOAT else 3)
        self.series = [1 / math.factorial(k) for k in range(2, terms + 1)]
        low, high = (-86.9, 88.72283) if kind == FLOAT else (-708.0, 709.782712893384)
        self.low, self.high = self.number(low), self.number(high)

    def number(self, value):
        return ir.Constant(self.kind, value)

    def polynomial(self, x, coefficients):
        """c_0 + c_1 x + c_2 x^2 ..., by Horner's rule."""
        y = self.number(coefficients[-1])
        for each in coefficients[-2::-1]:
            y = self.builder.fma(y, x, self.number(each))
        return y

    def where(self, sign, a, b, yes, no):
        """yes if a sign b, else no; no where one is NaN."""
        return self.builder.select(self.builder.fcmp_ordered(sign, a, b), yes, no)

    def parts(self, x):
        """(2^(n-1), p): adding a large number leaves n, and the exponent's offset, in the last
        bits of the sum, from where they are shifted to the bits of an exponent."""
        b, offset = self.builder, 2 ** (self.whole.width - self.digits - 2) - 2
        large = self.number(1.5 * 2.0**self.digits + offset)
        sum = b.fma(x, self.number(1 / math.log(2)), large)
        n = b.fsub(sum, large)
        bits = b.shl(b.bitcast(sum, self.whole), ir.Constant(self.whole, self.digits))
        high, rest = LOG_2[self.whole.width]
        r = b.fma(n, self.number(-rest), b.fma(n, self.number(-high), x))
        p = b.fma(b.fmul(r, r), self.polynomial(r, self.series), r)
        return b.bitcast(bits, self.kind), p

    def exp(self, x):
        half, p = self.parts(x)
        y = self.builder.fma(half, p, half)
        y = self.where("<", x, self.low, self.number(0.0), self.builder.fadd(y, y))
        return self.where(">", x, self.high, self.number(math.inf), y)

    def decay(self, x):
        """e^x for x <= 0."""
        half, p = self.parts(x)
        y = self.builder.fma(half, p, half)
        return self.where("<", x, self.low, self.number(0.0), self.builder.fadd(y, y))

    def expm1(self, x):
        """e^x - 1 for x <= 0."""
        half, p = self.parts(x)
        y = self.builder.fma(half, p, self.builder.fsub(half, self.number(0.5)))
        return self.where("<", x, self.low, self.number(-1.0), self.builder.fadd(y, y))

    def log1pexp(self, x):
        """log(1 + e^x) = max(x, 0) + log(1 + t) with t = e^-|x|, and the logarithm as the series
        2 (s + s^3 / 3 + s^5 / 5 + ...) for s = t / (2 + t), which is at most 1 / 3."""
        b, zero, two = self.builder, self.number(0.0), self.number(2.0)
        t = self.exp(b.fneg(self.called("llvm.fabs", x)))
        s = b.fdiv(t, b.fadd(two, t))
        series = self.polynomial(b.fmul(s, s), [2 / (2 * k + 1) for k in range(self.terms + 1)])
        positive = self.where("<=", x, zero, zero, x)
        return b.fma(s, series, positive)

    def sigmoid(self, x):
        one = self.number(1.0)
        return self.builder.fdiv(one, self.builder.fadd(one, self.exp(self.builder.fneg(x))))

    def tanh(self, x):
        b, most = self.builder, self.number(20.0)
        size = self.called("llvm.fabs", x)
        size = self.where(">", size, most, most, size)
        half, p = self.parts(b.fadd(size, size))
        h = b.fma(half, p, b.fsub(half, self.number(0.5)))
        return self.called("llvm.copysign", b.fdiv(h, b.fadd(h, self.number(1.0))), x)

    def erf(self, x):
        """x + x p(x^2) up to 0.92, else 1 - e^-(t + t q(t)); p and q were fitted by weighted
        least squares (Lawson 1961)."""
        if self.kind != FLOAT:
            return self.called("erf", x)
        b, one, most = self.builder, self.number(1.0), self.number(4.0)
        near = b.fma(self.polynomial(b.fmul(x, x), NEAR), x, x)
        size = self.called("llvm.fabs", x)
        t = self.where(">", size, most, most, size)
        half, p = self.parts(b.fneg(b.fma(self.polynomial(t, FAR), t, t)))
        far = b.fma(self.number(-2.0), b.fma(half, p, half), one)
        far = self.called("llvm.copysign", far, x)
        return self.where(">", size, self.number(0.92), far, near)

    def below(self, x):
        """e^(-x^2 / 2) r(1 / (1 + 0.32 |x|)) for x < 0 (Hastings 1955), else 1 less that of -x; r
        was fitted like the polynomials of erf."""
        b, zero, one, half = self.builder, *(self.number(value) for value in (0.0, 1.0, 0.5))
        if self.kind != FLOAT:
            return b.fmul(half, b.fadd(one, self.erf(b.fmul(x, self.number(math.sqrt(0.5))))))
        s = b.fdiv(one, b.fma(self.called("llvm.fabs", x), self.number(BEND), one))
        bell = self.decay(b.fmul(b.fmul(b.fneg(half), x), x))
        scale, r = b.fmul(bell, s), self.polynomial(s, TAIL)
        return self.where("<", x, zero, b.fmul(scale, r), b.fma(b.fneg(scale), r, one))

    def fma(self, a, b, c):
        return self.builder.fma(a, b, c)

    def larger(self, a, b):
        return self.called("llvm.maxnum", a, b, flags=("nnan", "nsz"))

    def greatest(self, a, b):
        return self.called("llvm.maximum", a, b, flags=("nsz",))

    def least(self, a, b):
        return self.called("llvm.minimum", a, b, flags=("nsz",))

    def called(self, name, *arguments, flags=()):
        """One of LLVM's functions for this type, or one of C's for float64."""
        full = f"{name}.f{self.whole.width}" if name.startswith("llvm") else name
        kind = ir.FunctionType(self.kind, [self.kind] * len(arguments))
        found = self.builder.module.globals.get(full)
        function = found or ir.Function(self.builder.module, kind, full)
        return self.builder.call(function, arguments, fastmath=flags)


def fma(a, b, c):
    """a b + c, rounded once when compiled."""
    return a * b + c


def larger(a, b):
    """The larger of two numbers, either of them if one is NaN; loops take it in lanes at once."""
    return a if a > b else b


def greatest(a, b):
    """The larger of two numbers, NaN if one is."""
    return np.maximum(a, b)


def least(a, b):
    """The smaller of two numbers, NaN if one is."""
    return np.minimum(a, b)


def exp(x):
    """e^x, 0 where that is below the smallest normal number."""
    return np.exp(x)


def decay(x):
    """e^x for x <= 0; anything else for other x."""
    return np.exp(x)


def expm1(x):
    """e^x - 1 for x <= 0; anything else for other x."""
    return np.expm1(x)


def log1pexp(x):
    """log(1 + e^x)."""
    return np.logaddexp(x, type(x)(0))


def sigmoid(x):
    """1 / (1 + e^-x)."""
    return 1 / (1 + np.exp(-x))


def tanh(x):
    """The hyperbolic tangent."""
    return np.tanh(x)


def erf(x):
    """The error function."""
    return type(x)(math.erf(x))


def below(x):
    """The share of the standard normal distribution that is below x."""
    return type(x)(0.5 * (1 + math.erf(x * math.sqrt(0.5))))


def _emitted(name, count):
    """The formula of that name as a compiled function of ``count`` numbers of one type."""

    def generate(context, builder, signature, arguments):
        return getattr(Formulas(builder, arguments[0].type), name)(*arguments)

    if count == 1:
        return intrinsic(lambda typing, x: (x(x), generate))
    if count == 2:
        return intrinsic(lambda typing, a, b: (a(a, a), generate))
    return intrinsic(lambda typing, a, b, c: (a(a, a, a), generate))


_exp, _expm1, _log1pexp = (_emitted(name, 1) for name in ("exp", "expm1", "log1pexp"))
_sigmoid, _tanh, _erf = (_emitted(name, 1) for name in ("sigmoid", "tanh", "erf"))
_decay, _below = _emitted("decay", 1), _emitted("below", 1)
_greatest, _least = _emitted("greatest", 2), _emitted("least", 2)
_larger, _fma = _emitted("larger", 2), _emitted("fma", 3)

overload(exp)(lambda x: lambda x: _exp(x))
overload(expm1)(lambda x: lambda x: _expm1(x))
overload(log1pexp)(lambda x: lambda x: _log1pexp(x))
overload(sigmoid)(lambda x: lambda x: _sigmoid(x))
overload(tanh)(lambda x: lambda x: _tanh(x))
overload(erf)(lambda x: lambda x: _erf(x))
overload(decay)(lambda x: lambda x: _decay(x))
overload(below)(lambda x: lambda x: _below(x))
overload(larger)(lambda a, b: lambda a, b: _larger(a, b))
overload(greatest)(lambda a, b: lambda a, b: _greatest(a, b))
overload(least)(lambda a, b: lambda a, b: _least(a, b))
overload(fma)(lambda a, b, c: lambda a, b, c: _fma(a, b, c))
