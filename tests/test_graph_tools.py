"""A captured step can be read, counted, measured and drawn; none of that changes anything."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

import minidp as dp
from minidp import nn, optim
from minidp.errors import GraphError
from minidp.graph.tools import flops, picture
from minidp.op import OPS

SVG = "{http://www.w3.org/2000/svg}"


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84),
        nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def normed():
    return nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Dropout(0.2), nn.Linear(1176, 10),
    )  # fmt: skip


def vgg():
    """Two stages of two convolutions with batch norm."""
    layers = []
    for before, after in ((1, 8), (8, 8), (0, 0), (8, 16), (16, 16), (0, 0)):
        layers += (
            [nn.MaxPool2d(2)]
            if not before
            else [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]
        )
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 10))


def batch(rows=8):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((rows, 1, 28, 28)).astype("float32")
    return dp.tensor(x), dp.tensor(rng.integers(0, 10, rows))


def of_scheduler(make, replicas=2, steps=3):
    """The graph of a replica's step."""
    dp.manual_seed(0)
    model = make()
    train = dp.Scheduler(model, nn.CrossEntropyLoss(), optim.SGD(model.parameters(), lr=0.1),
                         devices=replicas, capture=True)  # fmt: skip
    x, y = batch()
    for _ in range(steps):
        train(x.numpy(), y.numpy())
    assert train.replays.captured[0].replays
    return train.replays.captured[0].graph


def of_step(make, steps=3, rows=8):
    """The graph of a whole step with its update, and the model."""
    dp.manual_seed(0)
    model = make()
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    @dp.capture
    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(steps):
        step(*batch(rows))
    return step.graph, model


# As text


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("make", [lenet, normed])
def test_the_program_is_readable(make, replicas):
    text = str(of_scheduler(make, replicas))
    assert max(map(len, text.splitlines())) <= 120
    assert "object at" not in text and "slice(" not in text and "stride=(1" not in text


def test_it_tells_types_modules_memory_and_buckets():
    text = str(of_scheduler(lenet)).splitlines()
    line = next(line.split() for line in text if "= conv2d(" in line)
    shown = "v5 = conv2d(x0, 0.weight, 0.bias, padding=2) float32[4, 6, 28, 28] 0 75.3 kB"
    assert line == shown.split()
    assert any(line.split()[-2:] == ["frees", "v5"] for line in text if "= relu(v5)" in line)
    assert any(line.split()[-1] == "view" for line in text if "= permute(" in line)
    starts = [i for i, line in enumerate(text) if "all-reduce starts" in line]
    assert [text[i].split()[:2] for i in starts] == [["bucket", "0:"], ["bucket", "1:"]]
    assert any("bucket 0: pack v" in line for line in text[: starts[0]])
    assert any("conv2d_weight" in line for line in text[starts[0] :])  # it begins before the end


def test_pieces_of_python_are_named():
    graph, _ = of_step(normed)
    text = str(graph)
    assert "when accepted: statistics follow" in text and "SGD: update" in text
    assert "gradient of 0.weight = v" in text and "# update" in text
    assert "v8[:1]" in str(of_scheduler(normed)) or "[:-1]" in str(of_scheduler(normed))
    changed = dp.capture(lambda x: x.add_(1.0))
    changed(dp.ones(3))
    assert "x0[...] = v0" in str(changed.graph) and "in place" in str(changed.graph)


def test_backward_lines_know_the_module_of_their_forward():
    for graph in (of_scheduler(lenet), of_step(lenet)[0]):
        by_op = {line.op.name: line.path for line in graph.lines if line.op is not None}
        assert by_op["conv2d_input"] == "3" and by_op["conv2d_weight"] == "0"


# Costs


def test_flops_by_hand():
    def count(op, *inputs, result, **constants):
        return flops.flops(op, inputs, [result], constants)

    assert count("matmul", (5, 2, 3), (5, 3, 4), result=(5, 2, 4)) == 5 * 2 * 4 * 2 * 3
    assert count("linear", (7, 3), (4, 3), (4,), result=(7, 4)) == 28 * 7
    assert count("linear", (7, 3), (4, 3), None, result=(7, 4)) == 28 * 6
    image, weights, result = (2, 4, 8, 8), (6, 2, 3, 3), (2, 6, 6, 6)  # two groups
    ahead = count("conv2d", image, weights, None, result=result)
    assert ahead == 2 * (2 * 6 * 36) * (2 * 9)
    assert count("conv2d_input", result, weights, result=image) == ahead
    assert count("conv2d_weight", result, image, result=weights) == ahead
    assert count("sum", (3, 5), result=(3,)) == 15
    assert count("add", (3, 1), (5,), result=(3, 5)) == 15
    assert count("exp", (4,), result=(4,)) == 40 and count("reshape", (4,), result=(2, 2)) == 0
    assert count("max_pool2d", (1, 1, 4, 4), result=(1, 1, 2, 2), kernel=(2, 2)) == 16
    assert count("cholesky", (2, 3, 3), result=(2, 3, 3)) == 18


def test_the_tables_of_flops_name_ops():
    named = {*flops.STILL, *flops.MATRIX, *flops.PER_RESULT, *flops.PER_ARGUMENT}
    assert named <= set(OPS)


def test_costs_add_up():
    graph, model = of_step(lenet)
    cost = graph.cost()
    assert len(cost.rows) == len(graph.lines)
    for what in ("op", "module", "phase"):
        sums = cost.by(what)
        for number in ("calls", "flops", "bytes"):
            assert sum(getattr(s, number) for s in sums) == getattr(cost.total, number)
    layers = {row.path: row.flops for row in nn.summary(model, (8, 1, 28, 28)).rows}
    ahead = {row.module: row.flops for row in cost.rows if row.phase == "forward"}
    assert all(ahead[name] == layers[name] for name in ("0", "3", "7", "9", "11"))
    assert [s.name for s in cost.by("phase")] == ["forward", "backward", "update"]
    by_op = {row.op: row for row in cost.rows}
    assert by_op["permute"].bytes == 0 and by_op["permute"].flops == 0
    relu = next(row for row in cost.rows if row.op == "relu")
    assert relu.bytes == 2 * 4 * 8 * 6 * 28 * 28 and relu.ms is None
    assert "share" not in str(cost) and "conv2d_weight" in str(cost)


def state(model):
    tensors = [*model.parameters(), *model.buffers(), *(p.grad for p in model.parameters())]
    draws = list(dp.default_generator.get_state().values())
    return [*(t.detach().numpy().copy() for t in tensors), draws]


def test_measuring_changes_nothing():
    graph, model = of_step(normed)
    before = state(model)
    cost = graph.profile(*batch(), repeats=2)
    graph.profile(repeats=1)
    graph.memory(*batch())
    for old, new in zip(before, state(model), strict=True):
        np.testing.assert_array_equal(old, new)
    assert all((row.ms is None) == (row.op in ("update", "gradient", "when accepted"))
               for row in cost.rows)  # fmt: skip
    assert cost.total.ms > 0 and "share" in str(cost) and str(graph.cost()).count("100.0 %") == 3


def test_profiling_with_effects_takes_steps():
    graph, model = of_step(lenet)
    before = model[0].weight.detach().numpy().copy()
    cost = graph.profile(*batch(), repeats=1, effects=True)
    assert not np.array_equal(before, model[0].weight.detach().numpy())
    assert next(row for row in cost.rows if row.op == "update").ms > 0


def test_a_replicas_step_can_be_profiled_outside_of_it():
    graph = of_scheduler(normed)
    assert graph.profile(repeats=1).total.ms > 0
    assert graph.memory().ratio < 1.5


def test_on_emulated_devices():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    train = dp.Scheduler(model, nn.CrossEntropyLoss(), optim.SGD(model.parameters(), lr=0.1),
                         devices="emu:0-1", capture=True)  # fmt: skip
    for _ in range(3):
        train(np.ones((8, 4), np.float32), np.zeros(8, np.int64))
    graph = train.replays.captured[1].graph
    assert graph.profile(repeats=1).total.ms > 0
    assert graph.memory().peak is None and "on the CPU only" in str(graph.memory())


def test_a_fused_graph_costs_no_more():
    graph, _ = of_step(normed)
    fused = graph.fused()
    assert 0 < fused.cost().total.calls <= graph.cost().total.calls
    assert 0.9 < fused.cost().total.flops / graph.cost().total.flops <= 1  # rectifiers are folded
    assert fused.profile(repeats=1).total.ms > 0 and fused.memory().peak > 0
    assert max(map(len, str(fused).splitlines())) <= 120 and "<svg" in fused._repr_svg_()


def test_wrong_arguments_are_refused():
    graph, _ = of_step(lenet)
    with pytest.raises(GraphError, match=r"the step takes \(x0: float32\[8, 1, 28, 28\]"):
        graph.profile(dp.ones(3), dp.ones(3))


# Memory


def test_the_lower_bound_by_hand():
    step = dp.capture(lambda x: ((x * 2).reshape(10, 100) + 1).exp().sum(1))
    step(dp.ones(1000))
    memory = step.graph.memory(dp.ones(1000))
    assert memory.bound == 2 * 4000  # the view is no third; x itself is apart
    assert memory.place == "v2 = add(v1, 1)"
    assert 1 <= memory.ratio < 1.5 and "lower bound 8.0 kB" in str(memory)


@pytest.mark.parametrize("make", [lenet, normed, vgg])
def test_a_replay_takes_little_more_than_its_values_need(make):
    graph, _ = of_step(make, rows=64)  # kernels work in memory that is as large for one image
    memory = graph.memory(*batch(64))
    print(memory)
    assert memory.bound <= memory.peak <= 1.1 * memory.bound


# The picture


def test_the_picture_shows_the_step(tmp_path):
    graph = of_scheduler(lenet)
    graph.draw(tmp_path / "step.svg")
    text = (tmp_path / "step.svg").read_text(encoding="utf-8")
    assert text == graph._repr_svg_() == picture.svg(graph)
    names = [each.text for each in ElementTree.fromstring(text).iter(SVG + "text")]
    assert {"relu", "conv2d weight, bias", "bucket 0: pack", "bucket 1: all-reduce starts",
            "returned", "CrossEntropyLoss", "11"} <= set(names)  # fmt: skip
    assert picture.COLOURS[0] in text and picture.COLOURS[1] in text


@pytest.mark.parametrize("make", [lenet, normed])
def test_nothing_lies_over_anything(make):
    graph, _ = of_step(make)
    graph.profile(repeats=1)
    drawing = picture.Drawing(graph)
    places = [(spot.column, spot.row) for spot in drawing.spots.values()]
    assert len(set(places)) == len(places) == sum(line.node is None for line in graph.lines)
    rows = [(line.phase == "forward", drawing.spots[line].row)
            for line in graph.lines if line.node is None]  # fmt: skip
    ahead, back = ([row for first, row in rows if first is way] for way in (True, False))
    assert ahead == sorted(ahead) and max(ahead) >= 10 and back[-1] == min(back)
    assert "orange" in graph._repr_svg_() and "grad 0.weight" in graph._repr_svg_()


def test_names_of_gradients_are_whole_and_inside():
    model = nn.Sequential(nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)), nn.Flatten(),
                          nn.Linear(4 * 26 * 26, 3))  # fmt: skip

    @dp.capture
    def step(x, y):
        model.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()

    for _ in range(2):
        step(dp.randn(2, 1, 28, 28), dp.tensor([0, 1]))
    for graph in (step.graph, step.graph.fused()):
        root = ElementTree.fromstring(graph._repr_svg_())
        found = {each.text: float(each.get("x")) for each in root.iter(SVG + "text")
                 if (each.text or "").startswith("grad ")}  # fmt: skip
        assert any("0.1.weight, bias" in name for name in found), found
        assert all(x + 6.6 * len(name) < float(root.get("width")) for name, x in found.items())


# What a captured step in a replica must not keep from the launch it was recorded in


@pytest.mark.parametrize("capture", [False, True])
def test_launches_after_the_recording_go_on_as_without_it(capture, results={}):  # noqa: B006
    dp.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 40), nn.ReLU(), nn.Dropout(0.3), nn.Linear(40, 5))
    train = dp.Scheduler(model, nn.CrossEntropyLoss(), optim.SGD(model.parameters(), lr=0.05),
                         devices=2, capture=capture)  # fmt: skip
    rng = np.random.default_rng(0)
    data = [(rng.standard_normal((8, 6)).astype("float32"), rng.integers(0, 5, 8))] * 4
    results[capture] = [loss for _ in range(4) for loss in train.run(data)]
    assert not capture or train.replays.captured[0].replays
    assert results[capture] == results[False]
