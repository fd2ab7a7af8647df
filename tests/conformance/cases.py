"""The single-node cases that the package ``onnx`` carries, as arrays and attributes."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

TYPES = ("FLOAT16", "FLOAT", "DOUBLE", "INT32", "INT64", "UINT8", "BOOL")
DTYPES = {1: "float32", 2: "uint8", 6: "int32", 7: "int64", 9: "bool", 10: "float16", 11: "float64"}
"""ONNX's numbers of element types, as they stand in attributes, and their names here."""


@dataclass(frozen=True, eq=False)
class Case:
    """One node with its inputs, its attributes and the outputs that are right.

    An input or an output that the node leaves out is None.
    """

    name: str
    operator: str
    opset: int
    attributes: dict[str, Any]
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    rtol: float
    atol: float


@cache
def cases() -> tuple[Case, ...]:
    """All cases of one node whose inputs and outputs are tensors of the dtypes above."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the reference divides by zero on purpose
        from onnx.backend.test.loader import load_model_tests

        found = load_model_tests(kind="node")
    return tuple(_case(test) for test in found if _wanted(test))


def _wanted(test: Any) -> bool:
    from onnx import TensorProto

    graph = test.model.graph
    types = [value.type for value in [*graph.input, *graph.output]]
    return (
        len(graph.node) == 1
        and "_expanded" not in test.name
        and all(type.WhichOneof("value") == "tensor_type" for type in types)
        and all(TensorProto.DataType.Name(t.tensor_type.elem_type) in TYPES for t in types)
    )


def _case(test: Any) -> Case:
    from onnx import helper

    (node,) = test.model.graph.node
    ((inputs, outputs),) = test.data_sets
    return Case(
        name=test.name.removeprefix("test_"),
        operator=node.op_type,
        opset=max(o.version for o in test.model.opset_import if o.domain == node.domain),
        attributes={a.name: _plain(helper.get_attribute_value(a)) for a in node.attribute},
        inputs=_spread(node.input, inputs),
        outputs=_spread(node.output, outputs),
        rtol=test.rtol,
        atol=test.atol,
    )


def _spread(names: Any, given: Any) -> tuple[Any, ...]:
    """The arrays at the places that have a name, None at the others."""
    arrays = iter(given)
    return tuple(_plain(next(arrays)) if name else None for name in names)


def _plain(value: Any) -> Any:
    """Text for bytes, an array for a tensor of the format; other values as they are."""
    from onnx import TensorProto, numpy_helper

    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value
