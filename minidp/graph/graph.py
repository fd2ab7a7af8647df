"""A Graph is a captured step: forward, backward and update as one straight line of ops.

It prints as a program, and ``minidp.graph.program`` makes one of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minidp.graph.line import ARGUMENT, COMPUTED, GRADIENT, STATE, Key, Line, Value, agree, source
from minidp.graph.simplify import merged, needed
from minidp.graph.tape import Tape
from minidp.tensor import Tensor

if TYPE_CHECKING:
    from minidp.graph.tools.cost import Cost
    from minidp.graph.tools.memory import Memory

class Graph:
    """The lines of a step, its arguments, and the values it returns.

    What no result, gradient or lasting change depends on is left out, and equal lines are one.
    """

    def __init__(self, tape: Tape, results: Sequence[Tensor]) -> None:
        self.arguments, self.shared = tape.arguments, tape.shared
        self.modules, self.present, self.reads = tape.modules, tape.present, tape.reads
        self.copies, self.state = tape.copies, tape.state()
        self.keys = [Key(number, source(draw)) for number, draw in enumerate(tape.draws)]
        returned = [tape.value(tensor.array) for tensor in results]
        for line in tape.lines:
            line.text = line.text if line.node is None else tape.title(line.node)
        lines, self.results = merged(tape.lines, returned)
        self.lines = needed(lines, self.results)
        for value in tape.values:
            if value.kind != STATE:
                value.array = None
        computed = [output for line in self.lines for output in line.outputs]
        for number, value in enumerate(dict.fromkeys(computed)):
            value.number = number
        self.seconds: dict[Line, float] = {}

    def outside(self) -> list[Value]:
        """The values that no line computes, in the order of their first use."""
        met = [value for line in self.lines for value in line.values()]
        return [v for v in dict.fromkeys([*met, *self.results]) if v.kind != COMPUTED]

    def gradients(self) -> list[Value]:
        """The gradients that are there when the step begins, and used."""
        return [value for value in self.outside() if value.kind == GRADIENT]

    def copied(self) -> list[Value]:
        """The constants that the step changes or gives away: they must be made anew each time."""
        touched = [v for line in self.lines if line.lasting for v in line.values()]
        roots = dict.fromkeys(v.root for v in [*touched, *self.results])
        return [value for value in roots if value.made]

    def last_uses(self) -> list[list[Value]]:
        """For each line, the values, but those that live on, that no later line needs."""
        seen: dict[Value, None] = dict.fromkeys(self.results)
        result: list[list[Value]] = []
        for line in reversed(self.lines):
            dead = [v for v in dict.fromkeys([*line.values(), *line.outputs])
                    if v.kind != STATE and v not in seen]  # fmt: skip
            seen |= dict.fromkeys(dead)
            result.append(dead)
        return result[::-1]

    def difference(self, other: Graph) -> str | None:
        """What keeps two recordings of a step from being the same; None when they are.

        Arrays from outside that are other objects must hold the same values: they are constants.
        """
        for mine, its in zip(self.lines, other.lines, strict=False):
            if mine.op is not its.op or not agree(
                mine.parts(), its.parts(), _alike
            ):
                return _unlike(mine, its)
        if self.keys != other.keys:
            return f"{len(self.keys)} random draws in one run, {len(other.keys)} in the next"
        if len(self.lines) != len(other.lines):
            return f"{len(self.lines)} ops in one run, {len(other.lines)} in the next"
        if agree(self.results, other.results, _alike):
            return None
        return "it returned other arrays from outside, or results in another order"

    def __repr__(self) -> str:
        return (f"Graph({len(self.lines)} line(s), {len(self.arguments)} argument(s), "
                f"{len(self.results)} result(s); print(graph) shows them)")  # fmt: skip

    def __str__(self) -> str:
        from minidp.graph.tools import text

        return text.program(self)

    def fused(self) -> Graph:
        """The graph that is replayed: rectifiers in layers, element-wise lines in groups."""
        from minidp.graph.folding import folded
        from minidp.graph.fusion import fused

        return fused(folded(self))

    def cost(self) -> Cost:
        """Operations and bytes of each line, and milliseconds after ``profile``; ``print`` it."""
        from minidp.graph.tools import cost

        return cost.cost(self)

    def profile(self, *arguments: Any, repeats: int = 5, effects: bool = False) -> Cost:
        """Run the lines one by one, measure each (the median of ``repeats``), tell the costs.

        Without ``arguments`` (the step's Tensors or arrays) with made-up ones. Only ops are run:
        nothing is updated, no gradient set, no reduction started, no random number used up.
        With ``effects`` all lines are run: these are real steps then.
        """
        from minidp.graph.tools import profile

        self.seconds = profile.seconds(self, arguments, repeats, effects)
        return self.cost()

    def memory(self, *arguments: Any) -> Memory:
        """The memory that the step needs at least, and what a replay takes (on the CPU), measured
        without effects as in ``profile``; ``print`` it."""
        from minidp.graph.tools import memory

        return memory.memory(self, arguments)

    def draw(self, path: str | PathLike[str]) -> None:
        """Write an SVG: forward at the left, backward at the right going up, buckets coloured."""
        Path(path).write_text(self._repr_svg_(), encoding="utf-8")

    def _repr_svg_(self) -> str:
        from minidp.graph.tools import picture

        return picture.svg(self)


def _unlike(a: Line, b: Line) -> str:
    """In what two lines differ."""
    if a.op is not None and a.op is b.op and a.op.name == "function":
        return f"{a.outputs[0]} is computed by a dp.autograd.Function, whose Python is no op"
    if str(a) != str(b):
        return f"{a} in one run, {b} in the next"
    pairs = [(x, y) for x, y in zip(a.values(), b.values(), strict=True) if not _alike(x, y)]
    if not pairs:
        return f"{a} gave {a.type()} in one run, {b.type()} in the next"
    what = f"{pairs[0][0]} ({pairs[0][0].type()})"
    return (f"in {a} the array from outside {what} is another in each run: give it as an argument, "
            "or write into one that stays, as copy_() does")  # fmt: skip


def _alike(a: Value, b: Value) -> bool:
    """Whether two values mean the same in both recordings."""
    same = (a.kind, a.shape, a.dtype, a.node) == (b.kind, b.shape, b.dtype, b.node)
    if a.kind in (ARGUMENT, COMPUTED):
        return same and a.number == b.number
    return same and (a.kind == GRADIENT or a.array is b.array or _same_constant(a, b))


def _same_constant(a: Value, b: Value) -> bool:
    b.made = a.first is not None and a.first == b.first
    return b.made
