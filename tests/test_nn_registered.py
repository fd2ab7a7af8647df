"""What modules register, in what order, and what they refuse to; PyTorch 2.13's answers."""

from collections import OrderedDict

import pytest

import minidp as dp
from minidp import nn, optim
from minidp.errors import DTypeError


def test_a_hook_can_be_put_before_the_others():
    layer, order = nn.Identity(), []

    def note(number):
        return lambda *given: order.append(number)

    layer.register_forward_hook(note(3))
    first = layer.register_forward_hook(note(2), prepend=True)
    layer.register_forward_pre_hook(note(1))
    layer.register_forward_pre_hook(note(0), prepend=True)
    layer(dp.ones(1))
    first.remove()
    layer(dp.ones(1))
    assert order == [0, 1, 2, 3, 0, 1, 3]


def test_backward_hooks_too():
    layer, order = nn.Linear(1, 1), []
    layer.register_full_backward_hook(lambda *given: order.append("second"))
    layer.register_full_backward_hook(lambda *given: order.append("first"), True)
    layer(dp.ones(1, 1, requires_grad=True)).sum().backward()
    assert order == ["first", "second"]


def test_a_hook_with_kwargs_returns_both_or_nothing():
    layer = nn.Identity()
    layer.register_forward_pre_hook(lambda module, args, kwargs: 3, with_kwargs=True)
    with pytest.raises(RuntimeError, match="new_args, new_kwargs"):
        layer(dp.ones(1))


@pytest.mark.parametrize("register", [
    lambda module: module.register_buffer("mean", 3),
    lambda module: module.register_parameter("weight", dp.ones(2)),
    lambda module: module.add_module("part", dp.ones(2)),
    lambda module: module.add_module(3, nn.ReLU()),
])  # fmt: skip
def test_what_is_registered_must_be_of_its_kind(register):
    module = nn.Module()
    before = list(vars(module))
    with pytest.raises(TypeError):
        register(module)
    assert list(vars(module)) == before


def test_a_module_is_put_at_a_path():
    model = nn.Sequential(nn.Sequential(nn.ReLU(), nn.Tanh()))
    model.set_submodule("0.1", nn.ELU())
    assert type(model[0][1]) is nn.ELU and len(model[0]) == 2
    model.set_submodule("0.2", nn.SiLU())
    assert type(model[0][2]) is nn.SiLU
    with pytest.raises(AttributeError, match="no module '3'"):
        model.set_submodule("0.3", nn.ReLU(), strict=True)
    assert len(model[0]) == 3


def test_old_files_do_not_count_batches():
    layer = nn.BatchNorm1d(2)
    given = {name: value for name, value in layer.state_dict().items() if "num" not in name}
    assert layer.load_state_dict(given) == ([], [])
    with pytest.raises(RuntimeError, match="running_var"):
        layer.load_state_dict({"weight": dp.ones(2)})


def test_a_sequential_is_multiplied():
    row = nn.Sequential(nn.ReLU(), nn.Tanh())
    assert [type(each) for each in 2 * row] == [nn.ReLU, nn.Tanh] * 2
    assert len(row * 3) == 6 and len(row) == 2
    row *= 2
    assert len(row) == 4 and row[3] is row[1] and len(list(row.children())) == 2
    with pytest.raises(ValueError, match="factor 0"):
        row * 0


def test_a_parameter_dict_of_a_plain_dict_is_sorted():
    """So are its parameters, and with them the numbers in an optimiser's state."""
    values = {"b": dp.ones(2), "a": dp.zeros(1)}
    assert list(nn.ParameterDict(values)) == ["a", "b"]
    assert list(nn.ParameterDict(OrderedDict(values))) == ["b", "a"]
    assert list(nn.ParameterDict(list(values.items()))) == ["b", "a"]
    assert list(nn.ParameterDict(nn.ParameterDict(OrderedDict(values)))) == ["b", "a"]


def test_a_parameter_dict_is_a_dict():
    held = nn.ParameterDict({"a": dp.ones(2)})
    assert isinstance(held.setdefault("z", dp.zeros(3)), nn.Parameter)
    both = held | {"c": dp.ones(1)}
    assert list(both) == ["a", "z", "c"] and list(held) == ["a", "z"]
    assert both["a"] is held["a"] and list(reversed(both)) == ["c", "z", "a"]
    copy = both.copy()
    assert type(copy) is nn.ParameterDict and copy["c"] is both["c"]
    assert copy.popitem()[0] == "c" and list(copy) == ["a", "z"]
    copy.clear()
    assert not copy and len(both) == 3
    with pytest.raises(KeyError):
        copy.popitem()


@pytest.mark.parametrize("wrong", ["text", 3])
def test_parameter_containers_hold_tensors_alone(wrong):
    with pytest.raises(TypeError, match="not a Parameter"):
        nn.ParameterDict({"x": wrong})
    with pytest.raises(TypeError, match="not a Parameter"):
        nn.ParameterList([dp.ones(1), wrong])


def test_the_largest_norm_has_a_name():
    weight = nn.Parameter(dp.ones(2))
    weight.grad = dp.tensor([3.0, -4.0])
    assert nn.utils.clip_grad_norm_(weight, 2.0, norm_type="inf").item() == 4.0
    assert weight.grad.tolist() == pytest.approx([1.5, -2.0])


def test_one_beta_is_too_few():
    with pytest.raises(TypeError, match="two numbers"):
        optim.Adam([nn.Parameter(dp.ones(1))], betas=(0.9,))


def test_masks_of_integers_are_refused():
    """They were added to the scores, so that 0 and 1 hid nothing."""
    x, mask = dp.ones(2, 1, 4), dp.ones(2, 2).long()
    layer = nn.MultiheadAttention(4, 2)
    with pytest.raises(DTypeError, match="attn_mask of int64"):
        layer(x, x, x, attn_mask=mask)
    with pytest.raises(DTypeError, match="key_padding_mask of uint8"):
        layer(x, x, x, key_padding_mask=dp.zeros(1, 2, dtype=dp.uint8))
    with pytest.raises(DTypeError, match="attn_mask of int64"):
        nn.functional.scaled_dot_product_attention(*[dp.ones(2, 4)] * 3, mask)
