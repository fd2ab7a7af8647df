"""What the text of a .cu file says about its kernels: names, parameters, whether threads wait.

It reads preprocessed text (`g++ -E`): no comments, no macros; the plain C++ that these files are
written in, not all of C++.
"""

import re
from dataclasses import dataclass

import numpy as np

KERNEL = re.compile(
    r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(([^)]*)\)'
)
FUNCTION = re.compile(r"\b(\w+)\s*\(([^(){};]*)\)\s*(?:const\s*)?\{")
WAITS = re.compile(r"\b(__syncthreads|__syncwarp|__shfl\w*|__ballot_sync|__any_sync|__all_sync)\b")
TYPES = {
    "float16": np.float16, "float": np.float32, "double": np.float64, "bool": np.bool_,
    "unsigned char": np.uint8,
    "int": np.int32, "unsigned": np.uint32, "unsigned int": np.uint32,
    "long long": np.int64, "unsigned long long": np.uint64,
}  # fmt: skip


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel, say `const float *x`: name "x", dtype float32, a pointer.

    `written`: what it points to may be written, as there is no const.
    """

    name: str
    dtype: np.dtype
    pointer: bool
    written: bool = False

    def __str__(self):
        return f"{self.name}: {self.dtype}{'*' if self.pointer else ''}"


def parameter(text):
    """A Parameter from its declaration; ValueError if its type is none that a launcher can pass."""
    words = re.sub(r"\b(const|__restrict__)\b", " ", text.replace("*", " * ")).split()
    name, pointer = words[-1], "*" in words
    kind = " ".join(word for word in words[:-1] if word != "*")
    if kind not in TYPES:
        raise ValueError(
            f"parameter '{text.strip()}': pass only {', '.join(TYPES)} and pointers to them"
        )
    written = pointer and not re.search(r"\bconst\b", text)
    return Parameter(name, np.dtype(TYPES[kind]), pointer, written)


def parameters(text):
    """The Parameters of a kernel from the text between its parentheses."""
    return tuple(parameter(part) for part in text.split(",") if part.strip())


def kernels(text):
    """{kernel name: text between its parentheses} of preprocessed CUDA text."""
    return dict(KERNEL.findall(text))


def closing(text, start):
    """The index just after the brace that closes the one at text[start]."""
    depth = 0
    for brace in re.finditer(r"[{}]", text[start:]):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return start + brace.end()
    return len(text)


def bodies(text):
    """{function name: its body}; bodies of overloads are joined."""
    found = {}
    for match in FUNCTION.finditer(text):
        body = text[match.end() - 1 : closing(text, match.end() - 1)]
        found[match.group(1)] = found.get(match.group(1), "") + body
    return found


def waiting(text):
    """Names of the functions that may meet a barrier or warp collective, also through a call."""
    body = bodies(text)
    names = {name for name in body if WAITS.search(body[name])}
    while True:
        more = {name for name in body if names.intersection(re.findall(r"\w+", body[name]))}
        if more <= names:
            return names
        names |= more


def check(kernel, declared, arguments):
    """Raise TypeError unless `arguments` are what the kernel's parameters ask for.

    A pointer takes a C-contiguous array of its type or a null pointer (numpy.uintp(0)); a value
    takes a NumPy scalar of exactly its type. CUDA checks none of this: a wrong type is read as
    other numbers.
    """
    if len(declared) != len(arguments):
        names = ", ".join(map(str, declared))
        raise TypeError(
            f"{kernel} takes {len(declared)} arguments ({names}), {len(arguments)} were given"
        )
    for one, value in zip(declared, arguments, strict=True):
        problem = pointer_problem(one, value) if one.pointer else value_problem(one, value)
        if problem:
            raise TypeError(f"{kernel}: parameter {one} {problem}")


def pointer_problem(one, value):
    """What is wrong with `value` as a pointer argument, or None."""
    if isinstance(value, np.uintp) and value == 0:
        return None
    if isinstance(value, np.generic) or not hasattr(value, "flags"):
        return f"takes an array, not {type(value).__name__}"
    if value.dtype != one.dtype:
        return f"was given an array of {value.dtype}"
    if not value.flags.c_contiguous:
        return f"was given an array {value.shape} that is not C-contiguous: use gpu.contiguous"
    return None


def value_problem(one, value):
    """What is wrong with `value` as an argument passed by value, or None."""
    if isinstance(value, np.generic) and value.dtype == one.dtype:
        return None
    shown = value.dtype if isinstance(value, np.generic) else type(value).__name__
    return f"was given a {shown}: pass numpy.{one.dtype}(value)"
