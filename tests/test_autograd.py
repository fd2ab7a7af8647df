"""The engine: recording, walking back, freeing, and the errors that keep results honest."""

import gc
import threading
import tracemalloc
import weakref

import numpy as np
import pytest

from minidp import (
    cat,
    ops,  # gives Tensor its methods
)
from minidp.autograd import enable_grad, grad, is_grad_enabled, no_grad, set_grad_enabled
from minidp.create import tensor
from minidp.errors import DTypeError, GraphError, ShapeError
from minidp.op import OPS, op
from minidp.ops.elementwise import where
from minidp.ops.linalg import linear
from minidp.ops.softmax import cross_entropy
from minidp.tensor import Tensor
from minidp.testing import GradientError, gradcheck, gradgradcheck


def leaf(*values, dtype="float64"):
    return tensor(values[0] if len(values) == 1 else list(values), dtype=dtype, requires_grad=True)


@pytest.fixture
def own_ops():
    """The op registry put back after a test that declares ops."""
    before = dict(OPS)
    yield
    OPS.clear()
    OPS.update(before)


# Depth, memory, cycles


def test_a_chain_of_30000_ops_runs_back_and_is_freed(no_collector):
    x = leaf(1.0)
    y = x
    for _ in range(30_000):
        y = y * 1.0
    middle = weakref.ref(y.node.parents[0].parents[0])
    y.backward()
    assert x.grad.item() == 1.0
    del y
    assert middle() is None


def test_an_intermediate_dies_with_the_loss(no_collector):
    x = leaf(np.ones(10))
    h = x.exp()
    array, node = weakref.ref(h.array), weakref.ref(h.node)
    loss = (h * h).sum()
    del h
    assert array() is not None
    del loss
    assert array() is None and node() is None


def test_backward_frees_what_was_kept_while_the_loss_lives(no_collector):
    x = leaf(np.ones(10))
    h = x.exp()
    array = weakref.ref(h.array)
    loss = (h * h).sum()
    del h
    loss.backward()
    assert array() is None


def test_what_no_rule_names_is_not_kept(no_collector):
    x = leaf(np.ones(10))
    h = x * 2.0
    array = weakref.ref(h.array)
    y = (h + 1.0).sum()
    del h
    assert array() is None and y.requires_grad


def training_step(w, b, x, target):
    loss = cross_entropy(linear(x.tanh(), w, b), target).mean()
    loss.backward()
    with no_grad():
        for p in (w, b):
            p.copy_(p - 0.1 * p.grad)
            p.grad = None


def test_training_leaves_no_cycles_and_no_memory(no_collector):
    rng = np.random.default_rng(0)
    w, b = leaf(rng.standard_normal((4, 500))), leaf(np.zeros(4))
    x, target = tensor(rng.standard_normal((50, 500))), tensor(rng.integers(0, 4, 50))
    training_step(w, b, x, target)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(5):
        training_step(w, b, x, target)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert gc.collect() == 0
    assert grown < 50_000  # bytes; one activation alone is 200,000


def test_second_derivatives_leave_no_cycles(no_collector):
    x = leaf(1.0, 2.0)
    (g,) = grad((x**3).sum(), x, create_graph=True)
    (h,) = grad(g.sum(), x)
    assert h.tolist() == [6, 12]
    gc.collect()
    del g, h
    assert gc.collect() == 0


# Graph shapes


def test_diamonds_add_up():
    x = leaf(3.0)
    a = x * x
    (a * a + a * x).backward()  # x^4 + x^3
    assert x.grad.item() == 4 * 27 + 3 * 9


def test_a_long_ladder_of_diamonds_is_walked_once_each():
    x = leaf(1.0)
    y = x
    for _ in range(60):  # 2^60 paths
        y = (y + y) * 0.5
    y.backward()
    assert x.grad.item() == 1.0


def wide_loss(x):
    parts = [(x * float(i)).sin() for i in range(200)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return (cat(parts[:50]) ** 2).sum() + total.sum()


def test_wide_graphs_give_the_same_bytes_each_time():
    rng = np.random.default_rng(0)
    values = rng.standard_normal(50).astype("float32")
    found = set()
    for _ in range(4):
        x = tensor(values, requires_grad=True)
        wide_loss(x).backward()
        found.add(x.grad.numpy().tobytes())
    assert len(found) == 1


def test_leaf_as_loss_and_constant_branch():
    x = leaf(2.0)
    x.backward()
    assert x.grad.item() == 1.0
    (tensor(3.0) * x.detach() + x).backward()
    assert x.grad.item() == 2.0


def test_outputs_that_depend_on_each_other():
    x = leaf(2.0)
    a = x * x
    b = a * 3.0
    (g,) = grad([b, a], x)
    assert g.item() == 12 + 4


# Broadcasting

PATTERNS = [
    ((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 3), (1, 3)), ((2, 3), (2, 1)), ((2, 3), (1, 1)),
    ((2, 3), ()), ((2, 3), (1,)), ((4, 1, 3), (2, 1)), ((1,), ()), ((), ()), ((1, 1, 1), (2,)),
    ((0, 3), (3,)), ((0, 3), (1, 1)), ((2, 3, 4), (3, 1)),
]  # fmt: skip


@pytest.mark.parametrize("first,second", PATTERNS + [p[::-1] for p in PATTERNS])
def test_broadcasting_is_undone(first, second):
    rng = np.random.default_rng(0)
    a, b = (leaf(rng.standard_normal(s)) for s in (first, second))
    (a * b).sum().backward()
    for x, other in ((a, b), (b, a)):
        full = np.broadcast_to(other.array, np.broadcast_shapes(first, second))
        extra = full.ndim - x.ndim
        expected = full.sum(axis=tuple(range(extra)))
        axes = tuple(i for i, n in enumerate(x.shape) if n == 1)
        np.testing.assert_allclose(x.grad.numpy(), expected.sum(axis=axes, keepdims=True))


# Leaves and their gradients


def test_gradients_accumulate():
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    first = x.grad
    (x * 3.0).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [5, 7])
    np.testing.assert_allclose(first.numpy(), [2, 4])
    x.grad = None
    x.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [1, 1])


def test_a_shared_leaf_gets_one_sum():
    w = leaf(np.eye(2))
    x = tensor([[1.0, 2.0]], dtype="float64")
    (linear(linear(x, w), w)).sum().backward()
    gradcheck(lambda w: linear(linear(x, w), w), [w])
    np.testing.assert_allclose(w.grad.numpy(), [[2, 4], [2, 4]])


ALIASING = {
    "add": lambda a, b: a + b,
    "add itself": lambda a, b: a + a + b,
    "sub": lambda a, b: a - b,
    "reshape": lambda a, b: a.reshape(4) + b.reshape(4),
    "transpose": lambda a, b: a.T + b.T,
    "expand": lambda a, b: a.expand(3, 2, 2) + b,
    "cat": lambda a, b: cat([a, b]),
    "slice": lambda a, b: a[:, ::-1] + b,
    "clone": lambda a, b: a.clone() + b,
    "cast": lambda a, b: a.float().double() + b,
    "where": lambda a, b: where(tensor([True, False]), a, b),
    "product": lambda a, b: a * b,
    "seed": lambda a, b: a + 0.0 * b,
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", ALIASING)
def test_leaf_gradients_are_memory_of_their_own(name, create_graph):
    a, b = leaf(np.ones((2, 2))), leaf(np.full((2, 2), 2.0))
    y = ALIASING[name](a, b)
    seed = tensor(np.ones(y.shape))
    y.backward(seed, create_graph=create_graph)
    arrays = [a.array, b.array, seed.array, a.grad.array, b.grad.array]
    for i, first in enumerate(arrays):
        for second in arrays[:i]:
            assert not np.shares_memory(first, second)
    a.grad.detach().fill_(7.0)  # writable, too
    assert (a.grad.array == 7).all() and (a.array == 1).all()


def test_the_loss_itself_as_leaf_does_not_take_over_the_seed():
    x, seed = leaf(1.0, 2.0), tensor([1.0, 1.0], dtype="float64")
    x.backward(seed)
    assert not np.shares_memory(x.grad.array, seed.array)


def test_retain_grad_keeps_the_gradient_of_a_computed_tensor():
    x = leaf(1.0, 2.0)
    h = x * 2.0
    h.retain_grad()
    k = h + 1.0
    k.retain_grad()
    (k * k).sum().backward()
    np.testing.assert_allclose(h.grad.numpy(), [6, 10])
    assert not np.shares_memory(h.grad.array, k.grad.array)
    with pytest.raises(GraphError):
        tensor(1.0).retain_grad()


# no_grad, retain_graph, freed graphs, changes in place


def test_no_grad_records_nothing_in_this_thread_only():
    x, seen = leaf(1.0), []
    with no_grad():
        thread = threading.Thread(target=lambda: seen.append((x * 2.0).requires_grad))
        thread.start()
        thread.join()
        assert not (x * 2.0).requires_grad and not is_grad_enabled()
        with enable_grad():
            assert (x * 2.0).requires_grad
    with set_grad_enabled(False):
        assert not (x * 2.0).requires_grad
    assert seen == [True] and is_grad_enabled()


def test_one_set_grad_enabled_serves_several_blocks_and_functions():
    off = set_grad_enabled(False)
    for _ in range(2):
        with off, off:
            assert not is_grad_enabled()
        assert is_grad_enabled()
    functions = [off(is_grad_enabled), off(is_grad_enabled)]
    assert [each() for each in functions] == [False, False] and is_grad_enabled()


def test_no_grad_ends_with_an_exception_and_decorates():
    with pytest.raises(ZeroDivisionError), no_grad():
        raise ZeroDivisionError
    assert is_grad_enabled()

    @no_grad()
    def double(x):
        return x * 2.0

    assert not double(leaf(1.0)).requires_grad and not double(leaf(1.0)).requires_grad


def test_a_generator_under_no_grad_is_told_of_errors_and_of_its_end():
    seen = []

    @no_grad()
    def steps():
        try:
            yield "first"
        except ValueError:
            yield is_grad_enabled()
        finally:
            seen.append(is_grad_enabled())

    running = steps()
    assert next(running) == "first" and running.throw(ValueError) is False
    running.close()
    left = steps()
    next(left)
    left.close()
    assert seen == [False, False] and is_grad_enabled()


def test_create_graph_records_also_under_no_grad():
    x = leaf(3.0)
    y = x**3
    with no_grad():
        (g,) = grad(y, x, create_graph=True)
    (h,) = grad(g, x)
    assert h.item() == 18.0


def test_backward_is_not_recorded():
    x = leaf(1.0)
    (x * x).backward()
    assert not x.grad.requires_grad
    x.grad = None
    (x * x).backward(create_graph=True)
    assert x.grad.requires_grad


def test_retain_graph_allows_a_second_backward():
    x = leaf(2.0)
    y = x * x
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.item() == 8.0


def test_second_backward_says_what_was_freed_and_changes_nothing():
    x, z = leaf(2.0), leaf(5.0)
    h = x.exp()
    (h * 2.0).backward()
    before = x.grad.item()
    with pytest.raises(GraphError, match=r"freed.*exp.*retain_graph=True"):
        (z * h + z).backward()
    assert x.grad.item() == before and z.grad is None


CHANGES = {
    "fill_": lambda x: x.fill_(1.0),
    "zero_": lambda x: x.zero_(),
    "copy_": lambda x: x.copy_(tensor([5.0, 6.0])),
    "index": lambda x: x.__setitem__(0, 9.0),
    "detached": lambda x: x.detach().fill_(1.0),
    "view": lambda x: x[1:].fill_(1.0),
    "reshaped": lambda x: x.reshape(2, 1).detach().zero_(),
}


def test_only_rules_on_the_way_to_what_is_asked_for_are_called(own_ops):
    @op("..., ... -> ...", x=lambda g, y: called.append("x") or g,
        w=lambda g, y: called.append("w") or g)  # fmt: skip
    def seen(xp, x, w):
        return x + w

    called, x, w = [], Tensor(np.ones(3)).requires_grad_(), Tensor(np.ones(3)).requires_grad_()
    y = (seen(seen(w * 2, w), x) * w).sum()
    grad(y, x, retain_graph=True)
    assert called == ["w"]  # the outer op's second argument is x
    grad(y, w, retain_graph=True)
    assert called == ["w", "x", "x", "w"]
    y.backward()
    assert sorted(called[4:]) == ["w", "w", "x", "x"] and x.grad is not None


@pytest.mark.parametrize("name", CHANGES)
def test_a_kept_argument_changed_in_place_is_reported(name):
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    with no_grad():
        CHANGES[name](x)
    with pytest.raises(GraphError, match=r"'[ab]' of <mul.*changed in place.*clone"):
        y.backward()
    assert x.grad is None


def test_a_change_in_place_is_found_before_any_gradient_is_added():
    x, z = leaf(1.0, 2.0), leaf(5.0, 6.0)
    y = (x * x).exp().sum() + z.sum()
    with no_grad():
        x.zero_()
    with pytest.raises(GraphError, match="changed in place"):
        y.backward()
    assert x.grad is None and z.grad is None


def test_a_kept_output_changed_in_place_is_reported():
    x = leaf(1.0, 2.0)
    y = x.exp()
    with no_grad():
        y.fill_(0.0)
    with pytest.raises(GraphError, match=r"'y' of <exp"):
        y.sum().backward()


def test_a_change_that_no_rule_needs_is_allowed():
    x = leaf(1.0, 2.0)
    h = x + 1.0
    y = h.sum()
    with no_grad():
        h.fill_(0.0)
        x.zero_()
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), [1, 1])


def test_changing_a_recorded_tensor_in_place_is_refused():
    x = leaf(1.0, 2.0)
    with pytest.raises(GraphError, match=r"fill_: .*leaf.*no_grad"):
        x.fill_(0.0)
    with pytest.raises(GraphError, match=r"indexed assignment.*leaf"):
        x[:1][0] = 1.0


# grad(), backward(inputs=)


def test_grad_leaves_dot_grad_alone_and_reaches_computed_tensors():
    x = leaf(3.0)
    h = x * x
    gx, gh = grad(h * h, [x, h])
    assert (gx.item(), gh.item(), x.grad) == (108.0, 18.0, None)


def test_grad_of_unused_inputs():
    x, unused = leaf(1.0), leaf(1.0)
    with pytest.raises(GraphError, match=r"input 1 .*allow_unused=True"):
        grad(x * 2.0, [x, unused])
    g, none = grad(x * 2.0, [x, unused], allow_unused=True)
    assert g.item() == 2.0 and none is None
    with pytest.raises(GraphError, match="require"):
        grad(x * 2.0, [tensor(1.0)])


def test_grad_with_given_cotangents():
    x = leaf(1.0, 2.0)
    (g,) = grad([x * x, x * 3.0], x, [tensor([1.0, 0.0]), tensor([0.0, 1.0])])
    np.testing.assert_allclose(g.numpy(), [2, 3])
    assert g.dtype == np.float64
    with pytest.raises(ShapeError, match=r"\(3,\).*\(2,\)"):
        grad(x * x, x, tensor([1.0, 2.0, 3.0]))
    with pytest.raises(ShapeError, match="reduce it"):
        (x * x).backward()


@pytest.mark.parametrize("as_list", [True, False])
def test_backward_to_chosen_inputs(as_list):
    x, w = leaf(2.0), leaf(3.0)
    for _ in range(2):
        (x * w).backward(inputs=[w] if as_list else w)
    assert w.grad.item() == 4.0 and x.grad is None


def test_higher_derivatives():
    x = leaf(0.7)
    y, expected = x.sin(), [np.cos, lambda v: -np.sin(v), lambda v: -np.cos(v), np.sin]
    for derivative in expected:
        (y,) = grad(y, x, create_graph=True)
        np.testing.assert_allclose(y.item(), derivative(0.7), rtol=1e-12)


def test_gradient_penalty():
    rng = np.random.default_rng(0)
    w, x = leaf(rng.standard_normal((3, 2))), leaf(rng.standard_normal((4, 2)))

    def penalty(w, x):
        (g,) = grad(linear(x, w).tanh().sum(), x, create_graph=True)
        return ((g * g).sum(1).sqrt() - 1.0) ** 2

    gradcheck(penalty, [w, x])


def test_the_checks_see_a_wrong_rule(own_ops):
    @op("... -> ...", x=lambda g, x: 3.01 * g * x * x)
    def wrong_cube(xp, x):
        return x * x * x

    with pytest.raises(GradientError, match=r"input 1, of shape \(2,\).*differ by"):
        gradcheck(lambda a, b: a + wrong_cube(b), [leaf(1.0, 2.0), leaf(1.0, 2.0)])
    assert not gradcheck(wrong_cube, leaf(1.0, 2.0), raise_exception=False)

    @op("... -> ...", x=lambda g, x: g * (x * x).detach() * 3.0 if isinstance(x, Tensor)
        else g * x * x * 3.0)  # fmt: skip
    def once(xp, x):
        return x * x * x

    assert gradcheck(once, leaf(1.0, 2.0))
    assert not gradgradcheck(once, leaf(1.0, 2.0), raise_exception=False)
    with pytest.raises(DTypeError, match=r"float32.*double"):
        gradcheck(lambda x: x * x, leaf(1.0, dtype="float32"))


# Ops of a user's own


def test_a_hand_made_op(own_ops):
    @op("n, n -> n", a=lambda g, b, y: g * y / (y - b + b), b=lambda g, scale: g * scale)
    def mixed(xp, a, b, *, scale):
        """a + scale b; the first rule is a long way to say g."""
        return a + scale * b

    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    mixed(a, b, scale=2.0).sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), [1, 1])
    np.testing.assert_allclose(b.grad.numpy(), [2, 2])
    assert gradgradcheck(lambda a, b: mixed(a, b, scale=2.0), [a, b])
    with pytest.raises(ShapeError, match=r"mixed\(\(2,\), \(3,\)\)"):
        mixed(a, leaf(1.0, 2.0, 3.0), scale=2.0)
    with pytest.raises(TypeError, match="mixed: expected"):
        mixed(a, b)
    with pytest.raises(TypeError, match="mixed: expected"):
        mixed(a, b, 2.0, 3.0)


def halves(own=None):
    @op("n -> n, n", outputs="low high",
        x=lambda g, high: (g.get(0, 0.0) + (2.0 * g[1] * high if 1 in g else 0.0)))  # fmt: skip
    def pair_of(xp, x):
        return x.copy(), xp.exp(2.0 * x)

    return pair_of


@pytest.mark.parametrize("used", ["low", "high", "both"])
def test_an_op_of_several_outputs_some_unused(own_ops, used):
    pair_of = halves()

    def chosen(x):
        low, high = pair_of(x)
        return {"low": low * low, "high": high * high, "both": low * high}[used]

    x = leaf(0.1, 0.2)
    assert gradcheck(chosen, x) and gradgradcheck(chosen, x)


def test_only_one_output_of_max_pooling_has_a_gradient():
    x = leaf(np.arange(16.0).reshape(1, 1, 4, 4))
    pair = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0), "dilation": (1, 1)}
    y, index = OPS["max_pool2d"](x, **pair, size=(2, 2))
    assert y.requires_grad and not index.requires_grad
    y.sum().backward()
    assert x.grad.numpy().sum() == 4


def test_an_unknown_name_in_a_rule_fails_at_declaration(own_ops):
    with pytest.raises(TypeError, match=r"bad.*'z'.*known are g, x, x_shape, y"):

        @op("... -> ...", x=lambda g, z: g * z)
        def bad(xp, x):
            return x

    with pytest.raises(TypeError, match=r"'w', which is no argument"):

        @op("... -> ...", w=lambda g: g)
        def worse(xp, x):
            return x

    assert "bad" not in OPS and "worse" not in OPS


def test_a_cotangent_of_the_wrong_shape_is_reported(own_ops):
    @op("n -> n", x=lambda g: g[:2])
    def short(xp, x):
        return x * 1.0

    with pytest.raises(ShapeError, match=r"short.*\(2,\).*\(3,\)"):
        short(leaf(1.0, 2.0, 3.0)).sum().backward()


# Dtypes: PyTorch's promotion

F32, F64, I64 = np.float32, np.float64, np.int64
OPERANDS = {
    "float32[2]": lambda: tensor([1.0, 2.0]),
    "float64[2]": lambda: tensor([1.0, 2.0], dtype="double"),
    "int64[2]": lambda: tensor([1, 2]), "float32[]": lambda: tensor(2.0),
    "float64[]": lambda: tensor(2.0, dtype="double"), "int64[]": lambda: tensor(2),
    "bool[2]": lambda: tensor([True, False]), "2": lambda: 2, "2.5": lambda: 2.5,
    "True": lambda: True,
    "np.float64": lambda: np.float64(2.5), "np.float32": lambda: np.float32(2.5),
    "np.int64": lambda: np.int64(2), "array float32": lambda: np.ones(2, F32),
    "array float64": lambda: np.ones(2), "array int64": lambda: np.array([3, 4]),
}  # fmt: skip
PROMOTION = [
    ("float32[2]", "2", F32), ("float32[2]", "2.5", F32), ("float32[2]", "True", F32),
    ("float32[2]", "np.float64", F32), ("float32[2]", "np.float32", F32),
    ("float32[2]", "np.int64", F32), ("float32[2]", "array float32", F32),
    ("float32[2]", "array float64", F64), ("float32[2]", "array int64", F32),
    ("float32[2]", "float64[2]", F64), ("float32[2]", "int64[2]", F32),
    ("float32[2]", "float64[]", F32), ("float32[2]", "int64[]", F32),
    ("float32[2]", "bool[2]", F32),
    ("float64[2]", "float32[]", F64), ("float64[2]", "2.5", F64), ("float64[2]", "np.float32", F64),
    ("int64[2]", "2", I64), ("int64[2]", "2.5", F32), ("int64[2]", "float32[]", F32),
    ("int64[2]", "float64[]", F64), ("int64[2]", "np.float64", F32), ("int64[2]", "bool[2]", I64),
    ("int64[2]", "array float64", F64), ("float32[]", "2.5", F32), ("float32[]", "float64[]", F64),
    ("float32[]", "np.float64", F32), ("int64[]", "2.5", F32), ("int64[]", "float64[]", F64),
    ("float64[]", "2.5", F64), ("bool[2]", "2", I64), ("bool[2]", "2.5", F32),
]  # fmt: skip
OPERATORS = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "/": lambda a, b: a / b, "**": lambda a, b: a**b, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
}  # fmt: skip


def plain(x):
    return x.array if isinstance(x, Tensor) else x


@pytest.mark.parametrize("symbol", OPERATORS)
@pytest.mark.parametrize("left,right,dtype", PROMOTION)
def test_promotion(left, right, dtype, symbol):
    compute = OPERATORS[symbol]
    for first, second in ((left, right), (right, left)):
        a, b = OPERANDS[first](), OPERANDS[second]()
        y = compute(a, b)
        expected = bool if symbol in ("<", "<=", ">", ">=", "==", "!=") else dtype
        expected = F32 if symbol == "/" and dtype is I64 else expected
        assert type(y) is Tensor
        assert y.dtype == expected, (first, second, y.dtype)
        with np.errstate(divide="ignore"):
            wanted = compute(plain(a), plain(b))
        np.testing.assert_allclose(y.array, wanted, rtol=1e-6)


@pytest.mark.parametrize("other", [np.ones((2, 2)), np.ones(2)], ids=["matrix", "vector"])
def test_matrix_product_with_arrays_on_either_side(other):
    x = leaf([[1.0, 2.0], [3.0, 4.0]])
    for y, expected in ((x @ other, x.array @ other), (other @ x, other @ x.array)):
        assert type(y) is Tensor and y.requires_grad
        np.testing.assert_allclose(y.array, expected)


def test_a_cotangent_comes_back_in_the_dtype_of_its_argument():
    a, b = leaf(1.0, 2.0, dtype="float32"), leaf(3.0, 4.0)
    y = a * b
    assert y.dtype == F64
    y.sum().backward()
    assert (a.grad.dtype, b.grad.dtype) == (F32, F64)


def test_integers_have_no_gradient():
    with pytest.raises(DTypeError, match=r"int64.*float"):
        tensor([1, 2], requires_grad=True)
    x = leaf(1.0, 2.0)
    assert not x.long().requires_grad and not (x > 0).requires_grad
    assert not x.argmax().requires_grad
    assert where(x > 1.5, 1.0, 0.0).dtype == F32
    with pytest.raises(GraphError, match=r"backward.*no_grad"):
        x.long().sum().backward()


def test_float32_network_stays_float32():
    rng = np.random.default_rng(0)
    w = tensor(rng.standard_normal((3, 4)).astype(F32), requires_grad=True)
    x = tensor(rng.standard_normal((5, 4)).astype(F32))
    loss = cross_entropy(2 * linear(x, w).tanh() / 3.0, tensor(np.arange(5) % 3)).mean() + 0.1 * (
        w.norm() ** 2
    )
    assert loss.dtype == F32
    loss.backward(create_graph=True)
    assert w.grad.dtype == F32
    (w.grad**2).mean().backward()
    assert w.grad.dtype == F32


@pytest.mark.parametrize("shape", [(), (1,), (3,)])
def test_scalars_run_through_every_rule(shape):
    x = leaf(np.full(shape, 0.5))
    functions = [lambda x: x.relu(), lambda x: x.abs(), lambda x: x.clamp(0.0, 1.0),
                 lambda x: x[...],
                 lambda x: x.reshape(-1)[0] * 2 * 3, lambda x: x.amax(), lambda x: x.norm(),
                 lambda x: x.float().double(), lambda x: cat([x.reshape(-1)[:1] * 2]),
                 lambda x: 2**x, lambda x: x**2, lambda x: x.max(), lambda x: 1 / x]  # fmt: skip
    for function in functions:
        y = function(x)
        (g,) = grad(y, x, tensor(np.ones(y.shape)))
        assert g.shape == shape and isinstance(g.array, np.ndarray)


def test_errors_that_are_no_matter_of_shapes_keep_their_words():
    with pytest.raises(ValueError, match=r"pow\(\(2,\), \(\)\): .*negative integer") as caught:
        tensor([1, 2]) ** -1
    assert not isinstance(caught.value, ShapeError)
    for value in ([1.0, 2.0], "a"):
        with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \+: 'Tensor'"):
            leaf(1.0, 2.0) + value
        with pytest.raises(DTypeError, match="add: expected tensors, arrays or numbers"):
            ops.elementwise.add(leaf(1.0, 2.0), value)


def test_dispatch_survives_odd_calls():
    x = leaf(1.0, 2.0)
    for call in (lambda: ops.elementwise.add(x), lambda: ops.elementwise.add(x, x, x),
                 lambda: x.relu(5), lambda: ops.elementwise.relu(x, spam=1)):  # fmt: skip
        with pytest.raises(TypeError, match="expected"):
            call()
    with pytest.raises(DTypeError, match="cross_entropy: expected integers"):
        cross_entropy(leaf(np.ones((2, 3))), tensor([0, 1]))
        cross_entropy(leaf(np.ones((2, 3))), tensor([0.0, 1.0]))
