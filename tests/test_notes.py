"""What a line does, noted as calls that can be repeated without Python; and memory for them."""

import numpy as np
import pytest
from cases import names, samples

from minidp.backend import CPU
from minidp.graph.line import COMPUTED, Line, Value
from minidp.graph.noted import computed
from minidp.graph.program import native_calls
from minidp.op import OPS

native = native_calls()
if native is None:
    pytest.skip("compiled functions are switched off", allow_module_level=True)


def noted(function, *arrays):
    """The results and notes of ``function(xp, *arrays)``; whether the notes are believed."""
    traced = [native.origin(a) if isinstance(a, np.ndarray) else a for a in arrays]
    results, notes = native.note(function, traced)
    good = native.verified(notes, traced, results, lambda *given: function(np, *given))
    return results, notes, good


def rows(*shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


FUNCTIONS = {
    "product": lambda xp, x: xp.matmul(x, x.T),
    "many products": lambda xp, x: xp.matmul(x[None] * xp.ones((3, 1, 1), x.dtype), x.T),
    "in place": lambda xp, x: xp.add(y := x * 2, 1, out=y),
    "strides": lambda xp, x: xp.exp(x[::-1, ::2]).T,
    "broadcast": lambda xp, x: xp.broadcast_to(x[:, None], (5, 4, 7)) - x[:, None, :1],
    "sum of all": lambda xp, x: xp.sum(x),
    "sums": lambda xp, x: x.sum(axis=0) + x[:, :7].sum(axis=1, keepdims=True),
    "extremes": lambda xp, x: x.max(axis=1, keepdims=True) - x.min(axis=0),
    "choice": lambda xp, x: xp.where(x > 0, x, xp.zeros((), x.dtype)),
    "other dtypes": lambda xp, x: (x > 0).astype(x.dtype) + (x.astype("int64") % 3),
    "joined": lambda xp, x: xp.concatenate([x, x[:2] * 2], axis=0),
    "stacked": lambda xp, x: xp.stack([x[0], x[1]], axis=-1),
    "copied": lambda xp, x: xp.array(x.T, order="C", copy=True),
    "another shape": lambda xp, x: xp.reshape(x.T, (5, 7)),
    "a part": lambda xp, x: placed(xp.zeros((9, 7), x.dtype), x),
    "a question": lambda xp, x: x * 2 if bool(xp.any(x > 100)) else x * 3,
    "places": lambda xp, x: x[xp.asarray([0, -1])] * 1,
    "places found": lambda xp, x: x[(x[:, 0] > 0).astype("int64"), 1:],
    "places apart": lambda xp, x: x[None, :, :, None][0, xp.asarray([[0], [2]]), :, [0]],
    "along an axis": lambda xp, x: xp.take_along_axis(x, (x < 0).astype("int64"), axis=1),
    "taken": lambda xp, x: xp.take(x, (x[0] > 0).astype("int32"), axis=-1),
    "surrounded": lambda xp, x: xp.pad(x, ((1, 0), (2, 3)), constant_values=0.5),
    "triangle": lambda xp, x: xp.tril(x),
    "views": lambda xp, x: xp.moveaxis(x[None], 0, -1),
}


def marked(y, at):
    y[at] = 0
    return y


def placed(y, x):
    y[2:7] = x
    return y


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_numpy_does_is_noted(name, dtype):
    _, notes, good = noted(FUNCTIONS[name], rows(5, 7, dtype=dtype))
    assert notes.problem is None and good


REFUSED = {
    "a value": lambda xp, x: x * float(np.asarray(x).flat[0]),
    "an order": lambda xp, x: xp.argsort(x, axis=0) * 1,
    "a place": lambda xp, x: xp.argmax(x, axis=0),
    "a place of all": lambda xp, x: x.argmax(),
    "a number of NumPy's": lambda xp, x: x * x.argmin(),
    "a product of vectors": lambda xp, x: xp.dot(x[0], x[0]) * 1,
    "a running sum": lambda xp, x: xp.cumsum(x, axis=0) * 1,
    "a mask": lambda xp, x: x[x > 0] * 1,
    "places that are set": lambda xp, x: marked(x * 1, x[:, 0].argsort()),
    "what is read": lambda xp, x: x * len(x.tolist()),
    "a piece outside": lambda xp, x: x + np.array(x)[0],
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_notes_is_refused(name):
    assert not any(noted(REFUSED[name], rows(5, 7, seed=seed))[2] for seed in range(30))


def test_every_op_is_noted_truly_or_not_at_all():
    """On the samples of `cases`; those that stay Python are few, and known."""
    python = {}
    for name in names():
        op = OPS[name]
        for sample in samples(name) if not (op.exchanges or op.writes) else ():
            found = _of_sample(op, sample)
            python[name] = python.get(name, 0) + (not found)
    whole = [name for name in python if not python[name]]
    assert len(whole) > 100, sorted(set(python) - set(whole))
    assert {"linear", "relu", "softmax", "dropout", "conv2d", "max_pool2d", "batch_norm"} <= {
        *whole, *(name for name in python if python[name] < len(samples(name)))
    }  # fmt: skip


def _of_sample(op, sample):
    arrays = [a.astype("float32") if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a
              for a in sample.arrays]  # fmt: skip
    values = {i: Value(i, a.shape, a.dtype, COMPUTED)
              for i, a in enumerate(arrays) if isinstance(a, np.ndarray)}  # fmt: skip
    given = tuple(values.get(i, a) for i, a in enumerate(arrays))
    inputs, constants = op.bind(given, dict(sample.constants))
    function = computed(Line(op, [*inputs], constants, []), [*values.values()])
    with np.errstate(all="ignore"):
        return noted(function, *[arrays[i] for i in values])[2]


def test_results_are_those_of_the_notes_and_errors_are_not_hidden():
    x = rows(4, 3)
    results, notes, good = noted(lambda xp, x: xp.tanh(x) * 2, x)
    assert good and results[0].tobytes() == (np.tanh(x) * 2).tobytes()
    assert [note.text for note in notes.taken] == ["tanh", "multiply"]
    assert noted(lambda xp, x: 1 / 0, x)[1].problem.startswith("ZeroDivisionError")


@pytest.mark.parametrize("holds", [True, False])
def test_constants_that_were_not_read_are_kept(holds):
    """A condition that holds everywhere (nowhere) tells nothing of what is taken elsewhere."""
    where, condition = CPU.kernel("where"), np.full((3, 7), holds)
    for choice in (lambda xp, c, x: where(c, x, -1.75), lambda xp, c, x: where(c, -1.75, x)):
        _, notes, good = noted(choice, condition, rows(3, 7))
        met = [origin for note in notes.taken for _, origin, _ in note.slots]
        number = [each for each in met if each.shape == (1,)]
        assert good and len(number) == 1 and id(number[0]) in notes.fixed


def test_a_copy_of_an_argument_is_no_constant():
    """Not even where all its values are equal, so that they are the same in any order."""
    for x in (np.zeros(6, "f4"), np.full(6, 3.0), np.ones(6, bool), rows(6)):
        assert not noted(lambda xp, x: xp.add(x, native.plain(x).copy()), x)[2]
        assert noted(lambda xp, x: xp.add(x, x), x)[2]


@pytest.mark.parametrize("seed", range(20))
def test_places_do_not_overlap(seed):
    rng = np.random.default_rng(seed)
    spans = [(a, a + int(rng.integers(0, 6)), int(rng.integers(1, 5000)))
             for a in rng.integers(0, 40, 60).tolist()]  # fmt: skip
    offsets, total = native.placed(spans)
    padded = [(a, b, -(-size // 64) * 64) for a, b, size in spans]
    for i, (a, b, size) in enumerate(padded):
        assert offsets[i] % 64 == 0 and offsets[i] + size <= total
        for j, (c, d, other) in enumerate(padded[:i]):
            apart = offsets[i] + size <= offsets[j] or offsets[j] + other <= offsets[i]
            assert apart or b < c or d < a
    bound = max(sum(s for a, b, s in padded if a <= t <= b) for t in range(50))
    assert bound <= total <= 1.5 * bound
