"""Modules: registration, state, printing, containers, hooks."""

import copy
import pickle

import numpy as np
import pytest

import minidp as dp
from minidp import nn


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.scale = nn.Parameter(dp.ones(4))
        self.second = nn.Linear(4, 2)
        self.register_buffer("offset", dp.zeros(2))
        self.register_buffer("scratch", dp.zeros(1), persistent=False)

    def forward(self, x):
        return self.second(self.first(x).relu() * self.scale) + self.offset


def test_parameters_come_own_first_then_children_in_order():
    names = [name for name, _ in Small().named_parameters()]
    assert names == ["scale", "first.weight", "first.bias", "second.weight", "second.bias"]
    assert [name for name, _ in Small().named_buffers()] == ["offset", "scratch"]
    paths = [path for path, _ in Small().named_modules(prefix="net")]
    assert paths == ["net", "net.first", "net.second"]
    assert list(Small().state_dict()) == [
        "scale", "offset", "first.weight", "first.bias", "second.weight", "second.bias",
    ]  # fmt: skip


def test_tied_parameters_are_listed_once_and_saved_under_both_names():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    assert [name for name, _ in model.named_parameters()] == ["0.weight", "0.bias", "1.bias"]
    assert len(list(model.named_parameters(remove_duplicate=False))) == 4
    assert "1.weight" in model.state_dict()
    twin = copy.deepcopy(model)
    assert twin[1].weight is twin[0].weight is not model[0].weight
    twin = pickle.loads(pickle.dumps(model))
    assert twin[1].weight is twin[0].weight and isinstance(twin[0].weight, nn.Parameter)
    assert twin[0].weight.requires_grad


def test_shared_modules_are_listed_once():
    layer = nn.Linear(2, 2)
    model = nn.Sequential(layer, nn.ReLU(), layer)
    assert len(list(model.modules())) == 3 and len(list(model.parameters())) == 2
    assert len(model.state_dict()) == 4
    assert len(list(model.children())) == 2


def test_assignment_registers_replaces_and_protects():
    model = Small()
    model.scale = None
    assert "scale" not in dict(model.named_parameters())
    model.scale = nn.Parameter(dp.zeros(4))
    assert next(iter(dict(model.named_parameters()))) == "scale"
    with pytest.raises(TypeError, match="parameter 'scale'"):
        model.scale = dp.zeros(4)
    with pytest.raises(TypeError, match="module 'first'"):
        model.first = dp.relu
    model.offset = dp.ones(2)
    assert isinstance(model.offset, nn.Buffer) and "offset" in model.state_dict()
    with pytest.raises(TypeError, match="'offset'"):
        model.offset = 3.0
    model.plain = dp.ones(2)
    assert "plain" not in model.state_dict() and not isinstance(model.plain, nn.Buffer)
    del model.offset
    model.offset = dp.ones(2)
    assert "offset" not in model.state_dict()


def test_a_buffer_registered_as_none_can_be_filled_later():
    model = nn.Module()
    model.register_buffer("late", None)
    assert list(model.state_dict()) == []
    model.late = dp.ones(3)
    assert list(model.state_dict()) == ["late"]
    model.direct = nn.Buffer(dp.ones(1))
    assert list(model.state_dict()) == ["late", "direct"]


def test_registering_before_init_or_under_a_bad_name_is_refused():
    class Early(nn.Module):
        def __init__(self):
            self.weight = nn.Parameter(dp.ones(1))

    with pytest.raises(AttributeError, match=r"super\(\).__init__\(\)"):
        Early()
    model = nn.Module()
    for name in ("", "a.b", "forward"):
        with pytest.raises(KeyError):
            model.add_module(name, nn.ReLU())
        with pytest.raises(KeyError):
            model.register_buffer(name, dp.ones(1))
    with pytest.raises(TypeError):
        model.add_module("x", 3)
    with pytest.raises(NotImplementedError, match="forward"):
        model(1)


def test_modes_gradients_and_apply_reach_every_module():
    model = Small()
    assert model.eval() is model and not any(m.training for m in model.modules())
    assert all(m.training for m in model.train().modules())
    model(dp.ones(2, 3)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    model.zero_grad(set_to_none=False)
    assert all(not p.grad.numpy().any() for p in model.parameters())
    model.zero_grad()
    assert all(p.grad is None for p in model.parameters())
    model.requires_grad_(False)
    assert not any(p.requires_grad for p in model.parameters())
    seen = []
    assert model.apply(seen.append) is model
    assert seen == [model.first, model.second, model]


def test_to_changes_parameters_in_place():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    before = list(model.parameters())
    model(dp.ones(3, 2) * dp.rand(3, 2)).sum().backward()
    model.double()
    assert all(a is b for a, b in zip(before, model.parameters(), strict=True))
    assert all(p.dtype == p.grad.dtype == np.float64 for p in model.parameters())
    assert model[1].running_mean.dtype == np.float64
    assert model[1].num_batches_tracked.dtype == np.int64
    y = model(dp.rand(3, 2, dtype="float64"))
    model.zero_grad()
    y.sum().backward()
    assert before[0].grad.dtype == np.float64
    assert next(model.half().parameters()).dtype == np.float16
    assert next(model.to("float32").parameters()).dtype == np.float32
    with pytest.raises(TypeError, match="floating"):
        model.to("int64")


def test_load_state_dict_copies_in_place_and_bumps_versions():
    source, model = Small(), Small()
    weight, memory, version = model.first.weight, model.first.weight.array, model.scale.version[0]
    keys = model.load_state_dict({k: v.numpy() for k, v in source.state_dict().items()})
    assert keys.missing_keys == [] and keys.unexpected_keys == []
    assert model.first.weight is weight and weight.array is memory
    assert model.scale.version[0] > version
    np.testing.assert_array_equal(memory, source.first.weight.array)
    assert memory is not source.first.weight.array


def test_load_state_dict_lists_everything_wrong_and_changes_nothing():
    model = Small()
    before = {k: v.numpy().copy() for k, v in model.state_dict().items()}
    given = {k: v + 1 for k, v in model.state_dict().items()}
    del given["first.bias"], given["offset"]
    given.update(extra=dp.ones(1), scale=dp.ones(5), **{"second.bias": "text"})
    with pytest.raises(RuntimeError) as caught:
        model.load_state_dict(given)
    text = str(caught.value)
    assert isinstance(caught.value, (nn.StateDictError, ValueError))
    for part in ('"offset", "first.bias"', '"extra"', "scale: shape (5,)", "(4,)", "second.bias"):
        assert part in text
    with pytest.raises(nn.StateDictError, match="size mismatch for scale") as caught:
        model.load_state_dict(given, strict=False)
    assert "Missing" not in str(caught.value)
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), before[name])
    del given["scale"], given["second.bias"]
    keys = model.load_state_dict(given, strict=False)
    assert keys.unexpected_keys == ["extra"]
    assert keys.missing_keys == ["scale", "offset", "first.bias", "second.bias"]
    np.testing.assert_array_equal(model.first.weight.array, before["first.weight"] + 1)


def test_printing_is_pytorchs():
    model = nn.Sequential(nn.Conv2d(1, 2, 3, padding="same", bias=False), nn.Sequential(nn.ReLU()))
    assert repr(model) == (
        "Sequential(\n  (0): Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1), padding=same, "
        "bias=False)\n  (1): Sequential(\n    (0): ReLU()\n  )\n)"
    )
    assert repr(nn.Linear(2, 3)) == "Linear(in_features=2, out_features=3, bias=True)"
    assert repr(nn.CrossEntropyLoss()) == "CrossEntropyLoss()"
    assert repr(nn.MaxPool2d(2)) == (
        "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)"
    )
    assert repr(nn.BatchNorm2d(3)) == (
        "BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)"
    )


def test_sequential_is_a_list_and_runs_in_order():
    a, b, c = nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)
    model = nn.Sequential(a, b, c)
    assert len(model) == 3 and model[-1] is c and list(model) == [a, b, c]
    assert list(model[:2].state_dict()) == ["0.weight", "0.bias"] and model[:2][0] is a
    model.append(nn.Tanh()).insert(0, nn.Identity())
    assert type(model[0]) is nn.Identity and [n for n, _ in model.named_children()] == [*"01234"]
    del model[0]
    assert type(model.pop()) is nn.Tanh and list(model) == [a, b, c]
    x = dp.ones(4, 2)
    np.testing.assert_array_equal(model(x).detach().numpy(), c(a(x).relu()).detach().numpy())
    model[1] = nn.Identity()
    np.testing.assert_array_equal(model(x).detach().numpy(), c(a(x)).detach().numpy())
    named = nn.Sequential({"in": a, "out": c})
    assert list(named.state_dict()) == ["in.weight", "in.bias", "out.weight", "out.bias"]
    with pytest.raises(IndexError):
        model[3]


def test_module_list_and_dict_register():
    rows = nn.ModuleList([nn.Linear(1, 1)]).extend([nn.ReLU(), nn.Linear(1, 2)])
    assert list(rows.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert [type(m) for m in rows[1:]] == [nn.ReLU, nn.Linear]
    table = nn.ModuleDict({"a": nn.Linear(1, 1)})
    table["b"] = nn.ReLU()
    assert list(table) == ["a", "b"] and "a" in table and len(table) == 2
    assert list(table.state_dict()) == ["a.weight", "a.bias"]
    table.pop("a")
    assert list(table.keys()) == ["b"]
    with pytest.raises(KeyError):
        table["a"]
    with pytest.raises(KeyError):
        table["keys"] = nn.ReLU()


def test_forward_hooks_see_and_replace_the_output():
    layer, seen = nn.Identity(), []
    watch = layer.register_forward_hook(lambda module, args, y: seen.append((module, args, y)))
    double = layer.register_forward_hook(lambda module, args, y: y * 2)
    assert layer(3) == 6 and seen == [(layer, (3,), 3)]
    watch.remove()
    double.remove()
    assert layer(3) == 3 and len(seen) == 1


def test_hooks_before_forward_and_with_keywords():
    class Scaled(nn.Module):
        def forward(self, x, factor=1):
            return x * factor

    layer, seen = Scaled(), []
    first = layer.register_forward_pre_hook(lambda module, args: args[0] + 1)
    assert layer(3) == 4 and layer(3, factor=2) == 8
    first.remove()
    layer.register_forward_pre_hook(lambda m, args, kw: (args, {"factor": 5}), with_kwargs=True)
    layer.register_forward_hook(lambda m, args, kw, y: seen.append((args, kw, y)), with_kwargs=True)
    assert layer(3, factor=2) == 15 and seen == [((3,), {"factor": 5}, 15)]
    assert copy.deepcopy(layer)(1) == 5


def test_full_backward_hooks_see_both_ends_of_a_module_and_may_change_one():
    layer, seen = nn.Linear(2, 1, bias=False), []
    with dp.no_grad():
        layer.weight.copy_([[3.0, 4.0]])
    watch = layer.register_full_backward_hook(lambda module, gi, go: seen.append((gi, go)))
    x = dp.tensor([[1.0, 2.0]], requires_grad=True)
    (layer(x) * 2 + x.sum()).sum().backward()
    ((inner,), (outer,)) = seen[0]
    assert inner.tolist() == [[6, 8]] and outer.tolist() == [[2]]
    assert x.grad.tolist() == [[7, 9]] and layer.weight.grad.tolist() == [[2, 4]]
    layer(x.detach()).sum().backward()
    assert seen[1][0] == (None,) and seen[1][1][0].tolist() == [[1]]
    watch.remove()
    layer.register_full_backward_hook(lambda module, gi, go: (gi[0] * 10,))
    x.grad = None
    layer(x).sum().backward()
    assert x.grad.tolist() == [[30, 40]]


def test_things_are_found_by_their_dotted_names():
    model = nn.Sequential(Small(), nn.ReLU())
    assert model.get_parameter("0.first.weight") is model[0].first.weight
    assert model.get_buffer("0.offset") is model[0].offset
    assert model.get_submodule("0.second") is model[0].second and model.get_submodule("") is model
    for call, path, message in (
        (model.get_parameter, "0.offset", "Small has no parameter 'offset'"),
        (model.get_buffer, "0.scale", "Small has no buffer 'scale'"),
        (model.get_submodule, "0.third", "Small has no module 'third'"),
    ):
        with pytest.raises(AttributeError, match=message):
            call(path)


def test_loading_by_assignment_takes_dtypes_over():
    model, given = Small(), {k: v.double() for k, v in Small().state_dict().items()}
    weight = model.first.weight
    assert model.load_state_dict(given, assign=True).missing_keys == []
    assert model.first.weight is weight and weight.dtype == np.float64 and weight.requires_grad
    assert weight.array is given["first.weight"].array


def test_parameter_containers():
    rows = nn.ParameterList([dp.ones(3), nn.Parameter(dp.zeros(2, 2))]).append(dp.ones(1))
    assert [name for name, _ in rows.named_parameters()] == ["0", "1", "2"] and len(rows) == 3
    assert all(isinstance(p, nn.Parameter) for p in rows) and rows[-1] is list(rows)[2]
    assert repr(rows[:1]) == (
        "ParameterList(\n  (0): Parameter containing: [float32 of size 3]\n)"
    )
    table = nn.ParameterDict({"a": dp.ones(2)})
    table["b"] = nn.Parameter(dp.ones(1))
    assert list(table.state_dict()) == ["a", "b"] and table.get("c") is None
    assert table.pop("a").shape == (2,) and list(table) == ["b"]
    twin = pickle.loads(pickle.dumps(nn.ModuleDict({"list": rows, "table": table})))
    assert list(twin.state_dict()) == ["list.0", "list.1", "list.2", "table.b"]
    assert twin["list"] != rows and len({twin, table}) == 2


def test_lists_print_equal_neighbours_once_and_can_be_added():
    rows = nn.ModuleList([nn.ReLU(), nn.ReLU()]) + [nn.Tanh()]
    assert repr(rows) == "ModuleList(\n  (0-1): 2 x ReLU()\n  (2): Tanh()\n)"
    rows += [nn.ReLU()]
    assert type(rows) is nn.ModuleList and len(rows) == 4
    assert len(nn.Sequential(nn.ReLU()) + nn.Sequential(nn.Tanh())) == 2


def test_a_model_dies_without_the_collector(no_collector):
    """Modules, hooks and graphs hold no reference cycles."""
    import weakref

    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3))
    loss = nn.CrossEntropyLoss()(model(dp.ones(2, 1, 6, 6)), dp.tensor([1, 2]))
    loss.backward()
    dead = [weakref.ref(model), weakref.ref(model[0].weight), weakref.ref(loss)]
    del model, loss
    assert [each() for each in dead] == [None, None, None]
