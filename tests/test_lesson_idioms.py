"""Small things that lessons written for PyTorch lean on."""

import io

import numpy as np
import pytest

import minidp as dp
from minidp import nn

FILLS = ["normal_", "uniform_", "zeros_", "ones_", "trunc_normal_", "eye_", "orthogonal_",
         "xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_"]  # fmt: skip


@pytest.mark.parametrize("name", FILLS)
def test_init_fills_the_array_of_a_parameter(name):
    layer = nn.Linear(4, 6)
    memory = layer.weight.array
    layer.weight.data.fill_(7)
    getattr(nn.init, name)(layer.weight.data)
    assert layer.weight.array is memory and (memory != 7).all()
    assert layer.weight.requires_grad and layer.weight.node.op is None


def test_init_with_arguments_fills_the_array_of_a_parameter():
    layer = nn.Linear(5, 10)
    nn.init.constant_(layer.bias.data, 3)
    nn.init.sparse_(layer.weight.data, 0.25)
    assert layer.bias.tolist() == [3.0] * 10
    assert ((layer.weight == 0).sum(0) == 3).all()


@pytest.mark.parametrize("silent", [dp.no_grad, dp.no_grad(), dp.inference_mode,
                                    dp.inference_mode()])  # fmt: skip
def test_decorators_with_and_without_parentheses(silent):
    x = dp.ones(2, requires_grad=True)

    @silent
    def twice(x, times=2):
        return x * times

    assert not twice(x).requires_grad and twice(x, times=3).tolist() == [3.0, 3.0]
    assert twice.__name__ == "twice" and (x * 2).requires_grad


def test_inference_mode_and_back():
    x = dp.ones(2, requires_grad=True)
    with dp.inference_mode():
        assert not (x * 2).requires_grad
        with dp.inference_mode(False):
            assert (x * 2).requires_grad

        @dp.enable_grad
        def twice(x):
            return x * 2

        assert twice(x).requires_grad
    with dp.inference_mode(mode=False):
        assert (x * 2).requires_grad
    assert np.array_equal(x.data, [1, 1])


# Old constructors


def test_constructors_by_kind():
    assert dp.FloatTensor([1, 2]).dtype == dp.float32 and dp.LongTensor([[3]]).tolist() == [[3]]
    assert dp.LongTensor(np.array([1, 2], dtype=np.int32)).dtype == dp.int64
    assert dp.DoubleTensor(2, 3).shape == (2, 3) and dp.BoolTensor([1, 0]).tolist() == [True, False]
    assert dp.FloatTensor().shape == (0,) and dp.FloatTensor(2).fill_(1).tolist() == [1, 1]
    x = dp.arange(2)
    assert x.type(dp.FloatTensor).dtype == dp.float32 == np.dtype("float32")
    assert x.float().type(dp.LongTensor).tolist() == [0, 1]


def test_constructor_of_tensors():
    assert dp.Tensor([1, 2]).dtype == dp.float32 and dp.Tensor(2, 3, 4).shape == (2, 3, 4)
    assert dp.Tensor(np.arange(2)).dtype == dp.int64
    assert dp.Tensor([1, 2], True).requires_grad and not dp.Tensor(2, 3).requires_grad


def test_new():
    x = dp.ones(2, 3, dtype=dp.float64)
    assert x.new(4, 1).shape == (4, 1) and x.new(x.size()).zero_().tolist() == [[0] * 3] * 2
    assert x.new([1, 2]).tolist() == [1, 2] and x.new([1]).dtype == x.new().dtype == dp.float64


def test_variables():
    from minidp.autograd import Variable

    x = dp.ones(2)
    leaf = Variable(x, requires_grad=True)
    (leaf * leaf).sum().backward()
    assert leaf.grad.tolist() == [2, 2] and leaf.array is x.array and not Variable(x).requires_grad


# Paths and switches


def test_paths():
    import minidp.utils.data as data
    from minidp.nn.parameter import Parameter
    from minidp.optim.lr_scheduler import LRScheduler, _LRScheduler
    from minidp.utils.checkpoint import checkpoint

    assert dp.utils.data is data and data.DataLoader is dp.data.DataLoader
    assert checkpoint is dp.checkpoint and Parameter is nn.Parameter
    assert LRScheduler is _LRScheduler


def test_switches():
    dp.backends.cudnn.deterministic, dp.backends.cudnn.benchmark = True, False
    dp.use_deterministic_algorithms(True)
    assert not dp.backends.mps.is_available()
    dp.cuda.empty_cache()
    dp.cuda.synchronize()
    assert dp.ones(1, 2).size() == dp.Size([1, 2]) and isinstance(dp.ones(2).shape, dp.Size)


def test_state_of_the_generator():
    dp.cuda.manual_seed_all(3)
    assert dp.initial_seed() == 3
    state = dp.get_rng_state()
    first = dp.rand(2)
    dp.set_rng_state(state)
    assert dp.equal(first, dp.rand(2))


def test_print_options():
    x = dp.tensor([0.12345, 2000.0])
    dp.set_printoptions(precision=2, sci_mode=False)
    assert repr(x) == "tensor([   0.12, 2000.00])"
    dp.set_printoptions(sci_mode=True)
    assert repr(x) == "tensor([1.23e-01, 2.00e+03])"
    dp.set_printoptions(threshold=5, edgeitems=1, linewidth=40)
    assert repr(dp.arange(6)) == "tensor([0,  ..., 5])"
    dp.set_printoptions(profile="default")
    assert repr(x) == "tensor([1.2345e-01, 2.0000e+03])"


# Small functions


def test_shapes_in_place():
    x = dp.arange(6).reshape(2, 3).clone()
    assert x.t_() is x and x.shape == (3, 2) and x.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert x.unsqueeze_(0).shape == (1, 3, 2) and x.transpose_(0, 2).shape == (2, 3, 1)
    assert x.squeeze_(2).tolist() == [[0, 1, 2], [3, 4, 5]]
    w = dp.ones(2, requires_grad=True)
    with pytest.raises(dp.errors.GraphError, match=r"x = x\.unsqueeze"):
        w.unsqueeze_(0)


def test_covariances():
    x = dp.tensor([[1.0, 2.0, 4.0], [3.0, 1.0, 2.0]])
    assert dp.allclose(dp.cov(x), dp.tensor([[7 / 3, -0.5], [-0.5, 1.0]]))
    assert dp.allclose(x.cov(correction=0), dp.tensor([[14 / 9, -1 / 3], [-1 / 3, 2 / 3]]))
    assert dp.equal(dp.cov(x.long()), dp.cov(x)) and dp.cov(x.long()).dtype == dp.float32
    assert dp.cov(x[0]).shape == () and dp.corrcoef(x[0]).item() == 1
    r = -0.5 / (7 / 3) ** 0.5
    assert dp.allclose(dp.corrcoef(x), dp.tensor([[1.0, r], [r, 1.0]]))
    assert dp.dist(x[0], x[1]).item() == 3.0 and x[0].dist(x[1], 1).item() == 5.0


def test_trapezoids():
    y = dp.tensor([[1.0, 2.0, 4.0], [3.0, 1.0, 2.0]])
    assert dp.trapezoid(y).tolist() == [4.5, 3.5] and dp.trapz(y, dx=2).tolist() == [9, 7]
    assert dp.trapezoid(y, dp.tensor([0.0, 1.0, 3.0])).tolist() == [7.5, 5.0]
    assert dp.trapezoid(y, dp.tensor([1.0, 4.0]), dim=0).tolist() == [6.0, 4.5, 9.0]


def test_gradients_with_only_inputs():
    x = dp.tensor(3.0, requires_grad=True)
    assert dp.grad(x * x, x, dp.ones_like(x), True, True, True, False)[0].item() == 6
    assert dp.tensor([0.0, 1.0]).multinomial(1).tolist() == [1]


def test_own_optimiser_with_state():
    class Momentum(dp.optim.Optimizer):
        def step(self):
            for p in self.param_groups[0]["params"]:
                state = self.state[p]
                state["step"] = state.get("step", 0) + 1
                p.data -= state["step"] * p.grad

    w = nn.Parameter(dp.zeros(1))
    optimizer = Momentum([w], {})
    w.sum().backward()
    optimizer.step()
    optimizer.step()
    assert w.item() == -3


def test_checkpoints_in_open_files(tmp_path):
    layer, memory = nn.Linear(2, 1), io.BytesIO()
    dp.save(layer.state_dict(), memory)
    memory.seek(0)
    assert str(layer.load_state_dict(dp.load(memory))) == "<All keys matched successfully>"
    with open(tmp_path / "x", "wb") as file:
        dp.save({"epoch": 3}, f=file)
    assert dp.load(f=tmp_path / "x") == {"epoch": 3}


def test_hooks_on_an_output_run_before_its_module_s():
    layer, seen = nn.Linear(2, 1, bias=False), []
    layer.register_full_backward_hook(lambda module, of_input, of_output: seen.append(of_output))
    y = layer(dp.ones(1, 2, requires_grad=True))
    y.register_hook(lambda gradient: gradient * 2)
    y.sum().backward()
    assert seen[0][0].tolist() == [[2.0]] and layer.weight.grad.tolist() == [[2.0, 2.0]]


def test_triangular_systems():
    a, b = dp.tensor([[2.0, 5.0], [3.0, 4.0]]), dp.tensor([[2.0], [11.0]])
    assert dp.linalg.solve_triangular(a, b, upper=False).tolist() == [[1.0], [2.0]]
    assert dp.linalg.solve_triangular(a, b, upper=False, unitriangular=True).tolist() == [[2], [5]]
    right = dp.linalg.solve_triangular(a, b.T, upper=True, left=False)
    assert right.tolist() == [[1.0, 1.5]]
    lower = dp.tensor([[2.0, 0.0], [1.0, 2.0]])
    x = dp.tensor([[1.0], [2.0]])
    for factor, upper in ((lower, False), (lower.T, True)):
        assert (lower @ lower.T @ x).cholesky_solve(factor, upper).tolist() == x.tolist()


def test_fans_by_pytorch_s_name():
    assert nn.init._calculate_fan_in_and_fan_out(dp.ones(4, 3, 2)) == (6, 8)
