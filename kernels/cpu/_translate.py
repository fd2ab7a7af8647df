"""From Python to LLVM: nests of loops on whole numbers and addresses.

A nest is a plain function of numbers, tuples of them, and arrays. It may use: assignment, `for`
over `range` (of a step above 0), `while`, `if`, `continue`, `break`; whole numbers with Python's
operators, `min`, `max`, `len`; arrays by number and slice (from 0 on, not backwards), their shape,
strides, itemsize and address; `call`, `move` and `copy`; named tuples; and other plain functions,
of which `return` is the last statement: these are written out where they are called.

Every name that is assigned once is the value itself, and known only where it is assigned and
further in; others are memory, which LLVM puts in registers. Types need no rules: numbers are whole,
and arrays know what they hold.
"""

import ast
import inspect
import textwrap
from functools import cache

import numpy as np
from llvmlite import ir

from ._expressions import Expressions
from ._numbers import REALS, SHORT, WHOLE, Numbers

FRAME = ir.FunctionType(SHORT, [WHOLE.as_pointer()])


def write(target, nest, kinds):
    """LLVM's text of a nest as `int32 kernel(int64 *frame)`; it gives 0.

    `kinds` say what the words of the frame are: int; float; of an array (letter of its dtype,
    axes), which is its address and its shape; a type and the kinds in it, for a tuple.
    """
    module = ir.Module("kernel")
    function = ir.Function(module, FRAME, "kernel")
    words = Words(function)
    values = [words.value(kind) for kind in kinds]
    Body(words.numbers, nest.function, values).run()
    words.numbers.builder.ret(SHORT(0))
    return str(module)


class Words:
    """Reads the words of a frame, one after the other."""

    def __init__(self, function):
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        self.numbers, self.frame, self.count = Numbers(builder), function.args[0], 0

    def word(self):
        builder = self.numbers.builder
        self.count += 1
        return builder.load(builder.gep(self.frame, [WHOLE(self.count - 1)]))

    def value(self, kind):
        if kind is int:
            return self.word()
        if kind is float:
            return self.numbers.builder.bitcast(self.word(), REALS[1])
        if isinstance(kind[0], str):
            letter, axes = kind
            data = self.word()
            shape = [self.word() for _ in range(axes)]
            return self.numbers.dense(np.dtype(letter), data, shape)
        values = [self.value(each) for each in kind[1:]]
        return kind[0](*values) if hasattr(kind[0], "_fields") else tuple(values)


@cache
def _tree(function):
    """The syntax tree of a function, and how often each name is assigned in it."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    names = [each.arg for each in tree.args.args]
    for node in ast.walk(tree):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            names.append(node.target.id)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
    return tree, {name: names.count(name) for name in names}


class Body(Expressions):
    """Writes the statements of one function, at the end of what has been written."""

    def __init__(self, numbers, function, values):
        self.numbers, self.builder, self.function = numbers, numbers.builder, function
        self.tree, self.counts = _tree(function)
        self.names, self.loops, self.result = {}, [], None
        names = [each.arg for each in self.tree.args.args]
        if len(names) > len(values):
            values = (*values, *(function.__defaults__ or ())[len(values) - len(names) :])
        if len(names) != len(values):
            raise TypeError(f"{function.__qualname__}() takes {names}, got {len(values)} arguments")
        for name, value in zip(names, values, strict=True):
            self.assign(ast.Name(name, ast.Store()), value)

    def run(self):
        """What the function returns."""
        self.each(self.tree.body)
        return self.result

    def each(self, statements):
        for statement in statements:
            self.write(statement)

    def assign(self, target, value):
        if isinstance(target, ast.Tuple):
            for each, part in zip(target.elts, value, strict=True):
                self.assign(each, part)
        elif isinstance(target, ast.Subscript):
            self.numbers.store(self.view(target), value)
        elif self.counts[target.id] == 1:
            self.names[target.id] = value
        else:
            value = self.numbers.whole(value)
            if target.id not in self.names:
                self.names[target.id] = self.memory(WHOLE)
            self.builder.store(value, self.names[target.id])

    # Statements

    def Assign(self, node):
        value = self.write(node.value)
        for target in node.targets:
            self.assign(target, value)

    def AugAssign(self, node):
        old, more = self.write(node.target), self.write(node.value)
        self.assign(node.target, self.numbers.compute(type(node.op).__name__, old, more))

    def Expr(self, node):
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.write(node.value)

    def Return(self, node):
        if node is not self.tree.body[-1]:
            self.refuse(node, "a return before its last line")
        self.result = self.write(node.value)

    def If(self, node):
        self.either(node.test, lambda: self.each(node.body), lambda: self.each(node.orelse))

    def For(self, node):
        if not isinstance(node.iter, ast.Call) or self.write(node.iter.func) is not range:
            self.refuse(node, "a loop over anything but a range")
        bounds = [self.write(each) for each in node.iter.args]
        first, end, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
        counter, end = self.memory(WHOLE), self.numbers.whole(end)
        self.builder.store(self.numbers.whole(first), counter)

        def goes_on():
            return self.builder.icmp_signed("<", self.builder.load(counter), end)

        def body():
            self.assign(node.target, self.builder.load(counter))
            self.each(node.body)

        def further():
            step_on = self.numbers.add(self.builder.load(counter), step)
            self.builder.store(step_on, counter)

        self.loop(goes_on, body, further)

    def While(self, node):
        self.loop(lambda: self.numbers.truth(self.write(node.test)),
                  lambda: self.each(node.body), lambda: None)  # fmt: skip

    def loop(self, goes_on, body, further):
        """Blocks: head, body, further (where `continue` goes), after (where `break` goes)."""
        names = ("head", "body", "further", "after")
        head, inside, following, after = map(self.builder.append_basic_block, names)
        self.builder.branch(head)
        self.builder.position_at_end(head)
        self.builder.cbranch(goes_on(), inside, after)
        self.builder.position_at_end(inside)
        self.loops.append((following, after))
        body()
        self.loops.pop()
        self.builder.branch(following)
        self.builder.position_at_end(following)
        further()
        self.builder.branch(head)
        self.builder.position_at_end(after)

    def Continue(self, node):
        self.leave(self.loops[-1][0])

    def Break(self, node):
        self.leave(self.loops[-1][1])

    def leave(self, block):
        """Go on elsewhere; what is written next is never come to."""
        self.builder.branch(block)
        self.builder.position_at_end(self.builder.append_basic_block("never"))
