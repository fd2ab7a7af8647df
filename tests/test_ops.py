"""Properties that hold for every op, tested on the samples of `cases.py`."""

import ast
import inspect
from contextlib import suppress

import numpy as np
import pytest
from cases import LAYOUTS, ROWS, Sample, differentiable, names, samples

from minidp import ops
from minidp.autograd import grad
from minidp.backend import get_backend
from minidp.errors import MinidpError, ShapeError
from minidp.op import OPS
from minidp.shapes import Line, check
from minidp.tensor import Tensor
from minidp.testing import gradcheck, gradgradcheck

RULED = [name for name in names() if OPS[name].rules]
PAIRS = [*("add", "sub", "mul", "div", "pow", "maximum", "minimum"),
         *("eq", "ne", "lt", "le", "gt", "ge")]  # fmt: skip


def test_every_op_has_a_row():
    assert sorted(names()) == sorted(ROWS)


def several(result):
    return list(result) if isinstance(result, tuple) else [result]


def real(x):
    return isinstance(x, np.ndarray) and x.dtype.kind == "f"


def cast(sample, dtype):
    """The sample with its real arrays in ``dtype``."""
    constants = dict(sample.constants)
    if "dtype" in constants:
        constants["dtype"] = np.dtype(dtype)
    return Sample([a.astype(dtype) if real(a) else a for a in sample.arrays], constants)


def body(name, sample):
    with np.errstate(all="ignore"):
        return several(OPS[name].body(np, *sample.arrays, **sample.constants))


def compute(name, sample):
    constants = {**OPS[name].defaults, **sample.constants}
    return several(OPS[name].compute(list(sample.arrays), constants))


def leaves(name, sample):
    """The arrays, NumPy's or a GPU's, as Tensors, those that have a rule with requires_grad."""
    wanted = differentiable(name, sample)
    return [Tensor(a, i in wanted) if hasattr(a, "strides") else a
            for i, a in enumerate(sample.arrays)]  # fmt: skip


def call(name, sample):
    """The op as a function of Tensors that gives its real outputs."""
    return lambda *inputs: OPS[name](*inputs, **sample.constants)


def close(actual, expected, rtol):
    """Equal up to ``rtol`` of the largest expected value; shape, and dtype if not real, alike."""
    assert np.shape(actual) == np.shape(expected)
    actual, expected = np.asarray(actual), np.asarray(expected)
    if expected.dtype.kind != "f":
        np.testing.assert_array_equal(actual, expected)
        return
    finite = np.abs(expected[np.isfinite(expected)])
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=rtol * max(finite, default=1))


# (a) The shape line


@pytest.mark.parametrize("name", names())
def test_outputs_bind_to_the_shape_line(name):
    op = OPS[name]
    for sample in samples(name):
        found = compute(name, sample)
        shapes = [None if a is None else np.shape(a) for a in [*sample.arrays, *found]]
        if op.line.elementwise and len(op.line.inputs) > 1 and ROWS[name].broadcasts:
            assert shapes[-1] == np.broadcast_shapes(*shapes[:-1])
        letters = [t for t in (*op.line.inputs, *op.line.outputs) if t.axes != ("...",)]
        if letters:
            check(name, Line(op.line.text, (*op.line.inputs, *op.line.outputs), ()), shapes)
        for term, array in zip(op.line.outputs, found, strict=True):
            assert np.asarray(array).dtype.kind in {"b": "b", "i": "iu"}.get(term.kind, "fb")


def misfits(name):
    """Calls that break the op's shape line, and those that its row lists."""
    yield from ROWS[name].wrong
    op, sample = OPS[name], samples(name)[0]
    if op.line.elementwise and len(op.line.inputs) > 1 and ROWS[name].broadcasts:
        first, second = np.zeros((2, 3)), np.zeros((2, 4))
        yield Sample([first, second, *[second] * (len(op.line.inputs) - 2)], sample.constants)
    letters = [axis for term in op.line.inputs for axis in term.axes if axis != "..."]
    for i, term in enumerate(op.line.inputs):
        named = [axis for axis in term.axes if axis != "..."]
        if named and sample.arrays[i] is not None:
            yield replaced(sample, i, np.zeros((), sample.arrays[i].dtype))
        for axis in named:
            if letters.count(axis) > 1:
                place = term.axes.index(axis)
                place -= len(term.axes) if term.broadcasts and term.axes[0] == "..." else 0
                doubled = np.concatenate([sample.arrays[i]] * 2, axis=place)
                yield replaced(sample, i, doubled)


def replaced(sample, i, array):
    arrays = list(sample.arrays)
    arrays[i] = array
    return Sample(arrays, sample.constants)


@pytest.mark.parametrize("name", names())
def test_wrong_shapes_are_refused(name):
    for wrong in misfits(name):
        shapes = [np.shape(a) for a in wrong.arrays if a is not None]
        with pytest.raises(ShapeError) as caught:
            OPS[name](*map(as_tensor, wrong.arrays), **wrong.constants)
            pytest.fail(f"{name}{shapes} {wrong.constants} was accepted")
        assert name.removesuffix("_relu") in str(caught.value), (name, shapes)


def as_tensor(a):
    return Tensor(a) if isinstance(a, np.ndarray) else a


# (b) Kernels against bodies, on every backend that can run here


def backends():
    found = []
    for name in ("cpu", "emu", "cuda"):
        with suppress(ImportError, MinidpError):
            found += [name] if get_backend(name).usable() and get_backend(name).count() else []
    return found


def kernels():
    known = set(names())
    return [(b, n) for b in backends() for n in get_backend(b).kernel_names() if n in known]


def put(backend, a):
    return get_backend(backend).put(a, 0) if isinstance(a, np.ndarray) else a


def run_kernel(backend, name, sample):
    arrays = [put(backend, a) for a in sample.arrays]
    constants = {**OPS[name].defaults, **sample.constants}
    found = get_backend(backend).kernel(name)(*arrays, **constants)
    if found is NotImplemented:
        return None
    for x in several(found):
        assert not any(np.shares_memory(x, a) for a in arrays if isinstance(a, np.ndarray)), name
    return [get_backend(backend).get(x) for x in several(found)]


def laid_out(sample, layout):
    arrays = [layout(a) if isinstance(a, np.ndarray) else a for a in sample.arrays]
    return Sample(arrays, sample.constants)


def whole(sample):
    """Whether a kernel can be called on the sample: the first of what it is given is an array."""
    return all(a is None or isinstance(a, np.ndarray) for a in sample.arrays[:1])


@pytest.mark.parametrize("dtype,rtol", [("float32", 1e-5), ("float64", 1e-12)])
@pytest.mark.parametrize("backend,name", kernels())
def test_kernel_equals_body(backend, name, dtype, rtol, monkeypatch):
    if backend == "emu" and name in ("matmul", "linear"):  # they serve CUDA graphs alone
        monkeypatch.setattr("minidp.kernels.cuda.runtime.Gpu.capturing", True)
    served = 0
    for sample in filter(whole, samples(name)):
        expected = body(name, cast(sample, "float64"))
        own = body(name, cast(sample, dtype))
        for layout in LAYOUTS.values():
            found = run_kernel(backend, name, laid_out(cast(sample, dtype), layout))
            served += found is not None
            for actual, wide, x in zip(found or (), expected, own, strict=found is not None):
                close(actual, wide, rtol)
                assert actual.dtype == x.dtype
    assert served, f"{name} on {backend} declined every sample in {dtype}"


@pytest.mark.parametrize("name", names())
def test_layouts_of_inputs_do_not_change_results(name):
    for sample in samples(name):
        expected = body(name, sample)
        for layout in LAYOUTS.values():
            found = compute(name, laid_out(sample, layout))
            for actual, wanted in zip(found, expected, strict=True):
                close(actual, wanted, 1e-12)


GPUS = [name for name in backends() if name != "cpu"]


@pytest.mark.skipif(not GPUS, reason="no g++: nothing plays the GPU")
@pytest.mark.parametrize("name", [name for name in names() if name != "to_device"])
@pytest.mark.parametrize("gpu", GPUS)
def test_results_and_derivatives_on_a_gpu(gpu, name):
    """Bodies and rules keep to the device they were given, and compute there what they do here."""
    backend = get_backend(gpu)
    for sample in samples(name):
        there = Sample([put(gpu, a) for a in sample.arrays], placed(sample.constants, gpu))
        for actual, expected in zip(compute(name, there), body(name, sample), strict=True):
            assert isinstance(actual, backend.array_types), type(actual)
            close(backend.get(actual), expected, 1e-12)
        if differentiable(name, sample):
            here, moved = (first_derivatives(name, s, False)[2] for s in (sample, there))
            for a, b in zip(here, moved, strict=True):
                assert str(b.device) == f"{gpu}:0"
                close(b.numpy(), a.numpy(), 1e-12)


def placed(constants, gpu):
    """The constants with index arrays on the GPU."""
    key = constants.get("key")
    if isinstance(key, tuple):
        return {**constants, "key": tuple(put(gpu, part) for part in key)}
    return {**constants, "key": put(gpu, key)} if isinstance(key, np.ndarray) else constants


# (c), (d) Derivatives against differences


@pytest.mark.parametrize("name", RULED)
def test_first_derivative(name):
    for sample in samples(name):
        if sample.smooth and differentiable(name, sample):
            gradcheck(call(name, sample), leaves(name, sample), directions=2)


@pytest.mark.parametrize("name", RULED)
def test_second_derivative(name):
    for sample in samples(name):
        if sample.smooth and differentiable(name, sample):
            gradgradcheck(call(name, sample), leaves(name, sample), directions=1)


def first_derivatives(name, sample, create_graph):
    inputs = leaves(name, sample)
    outputs = real_outputs(OPS[name](*inputs, **sample.constants))
    rng = np.random.default_rng(3)
    seeds = [Tensor(rng.standard_normal(y.shape).astype(y.dtype)).to(y.device) for y in outputs]
    starts = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
    return outputs, starts, grad(outputs, starts, seeds, create_graph=create_graph)


def real_outputs(result):
    return [y for y in several(result) if y.requires_grad]


@pytest.mark.parametrize("name", RULED)
def test_create_graph_changes_no_derivative(name):
    for sample in samples(name):
        if differentiable(name, sample):
            plain = first_derivatives(name, sample, False)[2]
            recorded = first_derivatives(name, sample, True)[2]
            for a, b in zip(plain, recorded, strict=True):
                close(b.detach().numpy(), a.numpy(), 1e-14)


# (e) float32 stays float32


@pytest.mark.parametrize("name", RULED)
def test_float32_stays_float32(name):
    for sample in samples(name):
        sample = cast(sample, "float32")
        if not differentiable(name, sample):
            continue
        outputs, starts, first = first_derivatives(name, sample, True)
        assert {x.dtype for x in (*outputs, *first)} == {np.dtype("float32")}
        assert [g.shape for g in first] == [x.shape for x in starts]
        ends = [g for g in first if g.requires_grad]
        seeds = [Tensor(np.ones(g.shape, "float32")) for g in ends]
        second = grad(ends, starts, seeds, allow_unused=True) if ends else ()
        assert {g.dtype for g in second if g is not None} <= {np.dtype("float32")}


@pytest.mark.parametrize("number", [2, 1.5, True, np.float64(1.5), np.int64(2)], ids=repr)
@pytest.mark.parametrize("name", PAIRS)
def test_numbers_do_not_widen(name, number):
    for shape in ((3,), ()):
        for order in (1, -1):
            x = Tensor(np.full(shape, 0.7, "float32"), True)
            y = OPS[name](*(x, number)[::order])
            assert y.dtype == (bool if OPS[name].line.outputs[0].kind == "b" else np.float32)
            if y.requires_grad:
                y.backward(Tensor(np.ones(shape, "float32")), create_graph=True)
                assert x.grad.dtype == np.float32


# (f) Inputs are left as they were


@pytest.mark.parametrize("name", names())
def test_inputs_are_not_modified(name):
    for sample in samples(name):
        before = [a.copy() if isinstance(a, np.ndarray) else a for a in sample.arrays]
        if differentiable(name, sample):
            first_derivatives(name, sample, False)
            first_derivatives(name, sample, True)
        else:
            compute(name, sample)
        for a, b in zip(sample.arrays, before, strict=True):
            np.testing.assert_array_equal(a, b)


# (h) What bodies use exists in CuPy


def array_module_uses(tree):
    """(dotted name, keywords, line) of every ``xp.name`` and call ``xp.name(key=...)`` below."""
    calls = {id(n.func): n for n in ast.walk(tree) if isinstance(n, ast.Call)}
    for node in ast.walk(tree):
        path, base = [], node
        while isinstance(base, ast.Attribute):
            path.insert(0, base.attr)
            base = base.value
        if path and isinstance(base, ast.Name) and base.id == "xp":
            found = calls.get(id(node))
            yield path, [k.arg for k in found.keywords] if found else []


def accepts(function, keyword):
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # a ufunc, or compiled
        return keyword in ("out", "dtype", "casting") or keyword in (function.__doc__ or "")
    kinds = {p.kind for p in parameters.values()}
    return keyword in parameters or inspect.Parameter.VAR_KEYWORD in kinds


def bodies_and_helpers():
    """Every function of minidp/ops and minidp/random that takes ``xp``."""
    from minidp import random

    modules = [random, *(getattr(ops, name) for name in ops.__all__)]
    for module in modules:
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.FunctionDef) and "xp" in [a.arg for a in node.args.args]:
                yield f"{module.__name__.split('.')[-1]}.{node.name}", node


FUNCTIONS = dict(bodies_and_helpers())
READ = {name.split(".")[1] for name in FUNCTIONS}
ROWS_OF_TABLES = [name for name in names() if OPS[name].body.__name__ not in READ]
"""Ops that are rows of a table of one function each, see `elementary` in minidp/ops."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_cupy_has_what_bodies_use(name):
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    for path, keywords in array_module_uses(FUNCTIONS[name]):
        found = cupy
        for part in path:
            assert hasattr(found, part), f"{name} uses xp.{'.'.join(path)}, which CuPy lacks"
            found = getattr(found, part)
        for keyword in keywords:
            assert accepts(found, keyword), f"{name}: cupy.{'.'.join(path)} has no {keyword}="


class Called:
    """Stands for the array module, and notes what a body asks of it."""

    def __init__(self):
        self.names = []

    def __getattr__(self, name):
        self.names.append(name)
        return lambda *arrays: arrays[0]


def asked(name):
    """What the body of a row asks of the array module, which must be one function."""
    xp, op = Called(), OPS[name]
    integers = op.line.outputs[0].kind == "i"
    op.body(xp, *[np.ones(2, int if integers else float)] * len(op.arguments))
    (found,) = xp.names
    return found


@pytest.mark.parametrize("name", ROWS_OF_TABLES)
def test_rows_of_tables_are_one_function_that_numpy_and_cupy_have(name):
    assert isinstance(getattr(np, asked(name)), np.ufunc)
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    assert hasattr(cupy, asked(name))


def test_every_body_is_read():
    """No op's body escapes the tests above by being declared elsewhere or under another name."""
    kinds = {OPS[name].body.__qualname__.split(".")[0] for name in ROWS_OF_TABLES}
    assert kinds == {"elementary", "rounding", "comparison", "bitwise"}
