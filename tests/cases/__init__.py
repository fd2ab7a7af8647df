"""A table of sample inputs: one row per op, in a file per kind of op."""

from cases import (
    activation,
    elementwise,
    images,
    index,
    layout,
    linalg,
    normalize,
    recurrent,
    reduce,
)
from cases.table import EXEMPT, LAYOUTS, ROWS, Row, Sample, differentiable, names, samples

__all__ = ["EXEMPT", "LAYOUTS", "ROWS", "Row", "Sample", "differentiable", "names", "samples"]
