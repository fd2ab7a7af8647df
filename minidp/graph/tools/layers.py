"""The table of a model's layers, which ``nn.summary`` makes."""

from __future__ import annotations

from dataclasses import dataclass

from minidp.printing import table
from minidp.types import Shape


@dataclass(frozen=True)
class Row:
    """One call of one layer. ``flops`` counts a multiplication and an addition as two."""

    path: str
    kind: str
    shape: Shape | None
    parameters: int
    flops: int


@dataclass(frozen=True)
class Summary:
    """The table; ``print`` it. Parameters are counted once, however often their layer is called."""

    rows: tuple[Row, ...]
    parameters: int
    trainable: int
    flops: int

    def __str__(self) -> str:
        body = [(r.path, r.kind, "-" if r.shape is None else str(r.shape), f"{r.parameters:,}",
                 f"{r.flops:,}") for r in self.rows]  # fmt: skip
        cells = [("layer", "type", "output shape", "parameters", "flops"), *body,
                 ("total", "", "", f"{self.parameters:,}", f"{self.flops:,}")]  # fmt: skip
        note = f"{self.trainable:,} of {self.parameters:,} parameters are trained"
        return f"{table(cells, left=3)}\n{note}"

    __repr__ = __str__
