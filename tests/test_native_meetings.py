"""Replicas that meet in the midst of native steps, and running statistics that follow there: the
bytes of eager steps, and each step as a whole or not at all."""

import importlib
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_capture import batches, images
from training import everything

import minidp as dp
from minidp import nn, optim
from minidp.graph.program import native_calls
from minidp.nn import functional as F
from minidp.testing import inject

if native_calls() is None:
    pytest.skip("compiled functions are switched off", allow_module_level=True)


class Twice(nn.Module):
    """One layer of normalisation in two places."""

    def __init__(self, **options):
        super().__init__()
        self.norm, self.conv = nn.BatchNorm2d(4, **options), nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x):
        return self.norm(self.conv(self.norm(x)))


class ByFunction(nn.Module):
    """Running statistics that are no layer's, of which only one may be there."""

    def __init__(self, *names):
        super().__init__()
        for name in ("mean", "var"):
            self.register_buffer(name, dp.ones(4) if name in names else None)

    def forward(self, x):
        return F.batch_norm(x, self.mean, self.var, training=True, momentum=0.3)


class Reading(nn.Module):
    """A layer that looks at its running statistics while it trains."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x):
        return self.norm(x) + self.norm.running_mean.reshape(1, 4, 1, 1)


def weighted(scores, targets):
    """A mean whose divisor is known once all replicas have added up theirs."""
    weight = (targets > 1).float() + 0.5
    return dp.mean(F.cross_entropy(scores, targets, reduction="none"), weight)


LAYERS = {
    "shared": lambda: nn.BatchNorm2d(4),
    "local": lambda: nn.BatchNorm2d(4, sync=False),
    "no affine": lambda: nn.BatchNorm2d(4, momentum=0.5, affine=False),
    "double": lambda: nn.BatchNorm2d(4, dtype=dp.float32).double(),
    "nothing follows": lambda: nn.BatchNorm2d(4, track_running_stats=False),
    "twice": Twice,
    "function": lambda: ByFunction("mean", "var"),
    "mean alone": lambda: ByFunction("mean"),
    "instances": lambda: nn.InstanceNorm2d(4, track_running_stats=True),
    "several": lambda: nn.Sequential(nn.BatchNorm2d(4, sync=False), nn.BatchNorm2d(4),
                                     nn.BatchNorm2d(4, sync=False, momentum=0.9)),
}  # fmt: skip
IN_PYTHON = {
    "plain averages": lambda: nn.BatchNorm2d(4, momentum=None),
    "local and twice": lambda: Twice(sync=False),
    "read": Reading,
}


def outcome(layer, steps=30, size=7, change=None, loss=None, data=None, **options):
    """All that two passes leave behind, and how many steps of the second were native."""
    dp.manual_seed(0)
    model = images(layer())
    if layer is LAYERS["double"]:
        model = model.double()
    optimizer = optim.SGD(model.parameters(), 0.05, momentum=0.9)
    train = dp.Scheduler(model, loss or nn.CrossEntropyLoss(), optimizer, **options)
    made = batches("images", steps, (size,))
    if layer is LAYERS["double"]:
        made = [(x.astype("float64"), y) for x, y in made]
    losses = [train.run(made)]
    if change is not None:
        change(model[1])
    losses.append(train.run(made))
    return (everything(train), str(losses)), train.progress.native


@pytest.fixture(params=[True, False], ids=["apart", "together"])
def apart(request, monkeypatch):
    """Whether two replicas of a small model update a copy each."""
    if not request.param:
        module = importlib.import_module("minidp.parallel.native_copies")
        monkeypatch.setattr(module, "NEAR", 0)


@pytest.mark.parametrize("replicas", [1, 2, 3])
@pytest.mark.parametrize("layer", LAYERS)
def test_statistics_follow_natively(layer, replicas):
    options = {"layer": LAYERS[layer], "devices": replicas}
    found, native = outcome(**options, capture=True)
    assert found == outcome(**options)[0] and native >= 28


@pytest.mark.parametrize("layer", ["shared", "local", "several"])
@pytest.mark.parametrize("options", [
    {"workload": [3, 1]}, {"nan": "raise"}, {"bucket_kib": 0.1}, {"loss": weighted},
], ids=" ".join)  # fmt: skip
def test_in_several_kinds_of_run(layer, options, apart):
    options = {"layer": LAYERS[layer], "devices": 2, **options}
    found, native = outcome(**options, capture=True)
    assert found == outcome(**options)[0] and native >= 28


@pytest.mark.parametrize("layer", IN_PYTHON)
def test_what_is_not_known_beforehand_stays_python(layer):
    options = {"layer": IN_PYTHON[layer], "devices": 2}
    found, native = outcome(**options, capture=True)
    assert found == outcome(**options)[0] and native == 0


@pytest.mark.parametrize("replicas", [2, 3])
def test_sums_in_the_midst_of_a_step_need_no_layer(replicas):
    options = {"layer": nn.Identity, "devices": replicas, "loss": weighted}
    found, native = outcome(**options, capture=True)
    assert found == outcome(**options)[0] and native >= 28


def renewed(layer):
    layer.running_mean = dp.full((4,), 0.25)


@pytest.mark.parametrize("change", [
    lambda layer: setattr(layer, "momentum", 0.7), renewed, lambda layer: layer.eval(),
    lambda layer: layer.reset_running_stats(), lambda layer: setattr(layer, "momentum", None),
    lambda layer: layer.load_state_dict({k: v + 1 for k, v in layer.state_dict().items()}),
], ids=["momentum", "array", "eval", "reset", "averages", "loaded"])  # fmt: skip
@pytest.mark.parametrize("layer", ["shared", "local"])
def test_what_changes_between_passes_is_seen(layer, change):
    options = {"layer": LAYERS[layer], "devices": 2, "change": change}
    assert outcome(**options, capture=True)[0] == outcome(**options)[0]


@pytest.mark.parametrize("layer", ["shared", "local"])
@pytest.mark.parametrize("replicas", [1, 2, 3])
@pytest.mark.parametrize("row", [0, -1])
def test_a_step_that_fails_in_its_midst_leaves_no_trace(layer, replicas, row, apart):
    def run(capture):
        dp.manual_seed(0)
        model = images(LAYERS[layer]())
        optimizer = optim.SGD(model.parameters(), 0.05, momentum=0.9)
        train = dp.Scheduler(model, nn.CrossEntropyLoss(), optimizer, devices=replicas,
                             capture=capture)  # fmt: skip
        data = batches("images", 30, (7,))
        wrong = np.array(data[23][1])
        wrong[row] = 99
        with pytest.raises(ValueError, match="class 99"):
            train.run([*data[:23], (data[23][0], wrong), *data[24:]])
        state, steps, native = everything(train), train.progress.steps, train.progress.native
        train.run(data)
        return state[:2], steps, everything(train)[:2], native > 0

    *found, native = run(True)
    assert found == list(run(False)[:3]) and native and found[1] == 23


def fed(rows=5, steps=40):
    return batches("rows", steps, (rows,))


@pytest.mark.parametrize("replicas", [2, 3])
@pytest.mark.parametrize("before", ["accumulated", "failed"])
def test_all_replicas_record_again_in_the_same_step(before, replicas):
    """Also if some have run more steps than others, or the same rows in another kind of step."""
    dp.manual_seed(0)
    model = nn.Linear(6, 5)
    train = dp.Scheduler(model, nn.CrossEntropyLoss(reduction="sum"),
                         optim.SGD(model.parameters(), 0.01), devices=replicas, capture=True,
                         workload=[1, 3, 1][:replicas])  # fmt: skip
    if before == "accumulated":
        train.run(fed(steps=1), accumulate=2)
    else:
        train.run(fed(steps=10))
        fault = inject("raise", replica=1, step=12, at="forward")
        with fault, pytest.raises(Exception, match="step 12"):
            train.run(fed(steps=10))
    train.run(fed())
    assert train.progress.native > 30


NORMS = st.sampled_from([
    nn.BatchNorm1d, partial(nn.BatchNorm1d, sync=False), partial(nn.BatchNorm1d, momentum=0.5),
    partial(nn.BatchNorm1d, affine=False, sync=False), nn.LayerNorm, partial(nn.Dropout, 0.3),
])  # fmt: skip


@pytest.mark.slow
@settings(max_examples=150, deadline=None, print_blob=True)
@given(st.lists(st.tuples(NORMS, st.integers(2, 9)), min_size=1, max_size=4), st.integers(1, 4),
       st.integers(5, 12), st.sampled_from([None, "raise"]), st.booleans(), st.data())  # fmt: skip
def test_any_layers_between_replicas(blocks, replicas, rows, nan, is_weighted, data):
    """Models of any layers that meet or follow, split in any way: the bytes of eager steps."""
    workload = data.draw(st.lists(st.integers(1, 3), min_size=replicas, max_size=replicas))
    if rows * min(workload) < 2 * sum(workload):
        workload = [1] * replicas
    options = {"devices": replicas, "workload": workload, "nan": nan}
    loss = weighted if is_weighted else nn.CrossEntropyLoss()

    def run(capture):
        dp.manual_seed(0)
        widths = [6, *[width for _, width in blocks]]
        triples = [(nn.Linear(before, width), made(norm, width), nn.Tanh())
                   for (norm, width), before in zip(blocks, widths)]  # fmt: skip
        model = nn.Sequential(*sum(triples, ()), nn.Linear(widths[-1], 5))
        optimizer = optim.Adam(model.parameters(), 0.01)
        train = dp.Scheduler(model, loss, optimizer, capture=capture, **options)
        losses = [train.run(batches("rows", 20, (max(rows, 2 * replicas),))) for _ in range(2)]
        return everything(train), losses, train.progress.native

    (*found, native), (*expected, _) = run(True), run(False)
    assert found == expected and native >= 18


def made(norm, width):
    return norm() if getattr(norm, "func", None) is nn.Dropout else norm(width)
