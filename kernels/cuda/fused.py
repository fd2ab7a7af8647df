"""Chains of element-wise functions as one kernel, written from their formula.

What a formula is stands at the head of `kernels/cpu/machine.py`.
"""

import math

from .runtime import source

MOST = 200  # pointers that a kernel may take
LEAVES = {
    "add": "{} + {}", "subtract": "{} - {}", "multiply": "{} * {}", "true_divide": "{} / {}",
    "negative": "-{}", "abs": "fabs({})", "where": "{} ? {} : {}", "convert": "T({})",
    "maximum": "larger({}, {})", "minimum": "smaller({}, {})", "rint": "rint({})",
    "equal": "{} == {}", "not_equal": "{} != {}", "less": "{} < {}", "less_equal": "{} <= {}",
    "greater": "{} > {}", "greater_equal": "{} >= {}", "isnan": "{0} != {0}",
    "isfinite": "is_finite({})", "signbit": "copysign(T(1), {}) < 0", "invert": "!{}",
    "bitwise_and": "{} && {}", "bitwise_or": "{} || {}", "bitwise_xor": "{} != {}",
    "remainder": "modulo({}, {})", "floor_divide": "quotient({}, {})",
    "logaddexp": "log_sum({}, {})", "power": "pow({}, {})", "fmod": "fmod({}, {})",
    "arctan2": "atan2({}, {})", "hypot": "hypot({}, {})", "copysign": "copysign({}, {})",
    **{f"arc{name}": f"a{name}({{}})" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{name: f"{name}({{}})" for name in (
        "floor", "ceil", "trunc", "sqrt", "exp", "expm1", "log", "log1p", "log2", "log10", "sin",
        "cos", "tan", "sinh", "cosh", "tanh",
    )},
}  # fmt: skip
TO_BOOL = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "isnan",
           "isfinite", "signbit", "invert", "bitwise_and", "bitwise_or", "bitwise_xor"}  # fmt: skip


def fused(gpu, *arrays, formula):
    """The outputs of `formula` for `arrays`; declines what has no leaf function here."""
    if formula.compiled is None or formula.compiled[0] is not gpu:
        formula.compiled = gpu, gpu.written(text(formula), "fused") if served(formula) else None
    kernel = formula.compiled[1]
    if kernel is None or not all(isinstance(x, gpu.xp.ndarray) for x in arrays):
        return NotImplemented
    order = formula.order
    memory = [gpu.contiguous(x.transpose(order) if order and x.size > 1 else x) for x in arrays]
    made = [gpu.empty([shape[i] for i in order] or shape, dtype)
            for _, dtype, shape in formula.outputs]  # fmt: skip
    gpu.run_each(kernel, formula.size, (*memory, *made, formula.size))
    if order:
        back = sorted(range(len(order)), key=order.__getitem__)
        made = [y.transpose(back) for y in made]
    return tuple(made) if len(made) != 1 else made[0]


def served(formula):
    """Whether a kernel can be written for a formula."""
    known = all(step[0] in LEAVES or step[0] == "input" for step in formula.steps)
    return known and len(formula.kinds) + len(formula.outputs) <= MOST


def text(formula):
    """fused.cu with the formula's parameters and steps."""
    real = {"f": "float", "d": "double"}[formula.dtype.char]
    types = ["bool" if kind == "mask" else "REAL" for kind in formula.kinds]
    parameters = [f"const {kind} *a{k}" for k, kind in enumerate(types)]
    steps, bools = [], set()
    for number, (leaf, *sources) in enumerate(formula.steps):
        if leaf == "input":
            kind = types[sources[0]].replace("REAL", "T")
            value = f"a{sources[0]}[{'0' if formula.kinds[sources[0]] == 'number' else 'i'}]"
        else:
            chosen = leaf == "where" and {sources[1], sources[2]} <= bools
            kind = "bool" if leaf in TO_BOOL or chosen else "T"
            value = LEAVES[leaf].format(*map(operand, sources))
        bools |= {number} if kind == "bool" else set()
        steps.append(f"{kind} v{number} = {value};")
    for k, (source_number, dtype, _) in enumerate(formula.outputs):
        parameters.append(f"{'bool' if dtype.char == '?' else 'REAL'} *y{k}")
        steps.append(f"y{k}[i] = v{source_number};")
    lines = ["// fused.cu: its parameters and steps, from a formula", f"#define REAL {real}",
             f"#define PARAMETERS {', '.join(parameters)},", f"#define STEPS {' '.join(steps)}",
             '#line 1 "fused.cu"', source("fused")]  # fmt: skip
    return "\n".join(lines)


def operand(value):
    """A value of an earlier step, or a literal to the last bit."""
    if type(value) is int:
        return f"v{value}"
    if math.isnan(value):
        return "not_a_number()"
    if math.isinf(value):
        return "infinity()" if value > 0 else "(-infinity())"
    return f"T({value.hex()})"
