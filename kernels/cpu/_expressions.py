"""Python's expressions as LLVM's instructions: the part of `_translate` that gives values."""

import ast
import builtins

from numba import types

from ._numbers import WHOLE, Array


class Expressions:
    """Writes the expressions of a function; `names` are the values it knows, `counts` how often
    each is assigned: those assigned more than once are places in memory."""

    def write(self, node):
        """A statement or an expression, by the name of its kind; the value of the latter."""
        write = getattr(self, type(node).__name__, None)
        return self.refuse(node, type(node).__name__) if write is None else write(node)

    def refuse(self, node, what):
        """Say what a nest cannot have, and where it has it."""
        raise NotImplementedError(
            f"{self.function.__qualname__}, line {getattr(node, 'lineno', '?')}: a nest of loops "
            f"cannot have {what}; see `_translate`, or compile it with `compiled`"
        )

    def memory(self, kind):
        """A place for a number, made once however often one comes by."""
        with self.builder.goto_entry_block():
            return self.builder.alloca(kind)

    def Name(self, node):
        if node.id not in self.names:
            known = self.function.__globals__
            return known[node.id] if node.id in known else getattr(builtins, node.id)
        value = self.names[node.id]
        return self.builder.load(value) if self.counts[node.id] > 1 else value

    def either(self, test, yes, no):
        """Write one of two things, or both behind a question."""
        test = self.write(test)
        if isinstance(test, (bool, int)):
            return (yes if test else no)()
        with self.builder.if_else(self.numbers.truth(test)) as (then, otherwise):
            with then:
                yes()
            with otherwise:
                no()
        return None

    def Constant(self, node):
        return node.value

    def Tuple(self, node):
        values = []
        for each in node.elts:
            is_all = isinstance(each, ast.Starred)
            values += self.write(each.value) if is_all else [self.write(each)]
        return tuple(values)

    def Attribute(self, node):
        return getattr(self.write(node.value), node.attr)

    def Subscript(self, node):
        view = self.view(node)
        return self.numbers.load(view) if isinstance(view, Array) and not view.shape else view

    def view(self, node):
        """The part of an array that is named, or of a tuple."""
        value, keys = self.write(node.value), self.keys(node.slice)
        return self.numbers.view(value, keys) if isinstance(value, Array) else value[keys[0]]

    def keys(self, node):
        return [self.write(each) for each in (node.elts if isinstance(node, ast.Tuple) else [node])]

    def Slice(self, node):
        first, end = (each and self.write(each) for each in (node.lower, node.upper))
        return first or 0, end

    def BinOp(self, node):
        a, b = self.write(node.left), self.write(node.right)
        return self.numbers.compute(type(node.op).__name__, a, b)

    def UnaryOp(self, node):
        value, name = self.write(node.operand), type(node.op).__name__
        if name == "Not":
            return self.numbers.compute("Eq", self.numbers.truth(value), 0)
        return self.numbers.compute("Sub", 0, value) if name == "USub" else value

    def Compare(self, node):
        values = [self.write(each) for each in (node.left, *node.comparators)]
        pairs = zip(node.ops, values, values[1:], strict=False)
        found = [self.numbers.compute(type(op).__name__, a, b) for op, a, b in pairs]
        result = found[0]
        for each in found[1:]:
            result = self.builder.and_(self.numbers.truth(result), self.numbers.truth(each))
        return result

    def BoolOp(self, node):
        """a and b: b if a, else a; the other way round for or."""
        result, *others = node.values
        for each in others:
            if isinstance(node.op, ast.And):
                result = ast.IfExp(result, each, result)
            else:
                result = ast.IfExp(result, result, each)
        return self.write(result)

    def IfExp(self, node):
        place, known = self.memory(WHOLE), []

        def keep(part):
            known.append(self.write(part))
            if not isinstance(known[-1], (Array, tuple)):
                self.builder.store(self.numbers.whole(known[-1]), place)

        self.either(node.test, lambda: keep(node.body), lambda: keep(node.orelse))
        return known[0] if len(known) == 1 else self.builder.load(place)

    def Call(self, node):
        function, (values) = self.write(node.func), self.Tuple(ast.Tuple(node.args, ast.Load()))
        known = getattr(self, f"_{getattr(function, '__name__', None)}", None)
        if known is not None:
            return known(*values)
        if hasattr(function, "_fields"):
            return function(*values)
        if hasattr(function, "_defn"):  # an intrinsic of Numba's, of whole numbers
            signature, generate = function._defn(None, *[types.int64] * len(values))
            return generate(self, self.builder, signature, list(map(self.numbers.whole, values)))
        return type(self)(self.numbers, python_of(function), values).run()

    def get_dummy_value(self):
        """What an intrinsic without a result asks its context for."""

    def _min(self, first, *others):
        for each in others:
            first = self.numbers.extreme("Lt", first, each)
        return first

    def _max(self, first, *others):
        for each in others:
            first = self.numbers.extreme("Gt", first, each)
        return first

    def _len(self, array):
        return array.shape[0] if isinstance(array, Array) else len(array)

    def _call(self, address, arguments):
        self.numbers.call(address, arguments)

    def _move(self, source, target, size):
        self.numbers.move(source, target, size)

    def _copy(self, source, target):
        size = self.numbers.multiply(target.shape[0], target.itemsize)
        self.numbers.move(source.data, target.data, size)


def python_of(function):
    """The Python of a function, whoever compiles it."""
    return getattr(function, "py_func", getattr(function, "function", function))
