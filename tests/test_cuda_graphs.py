"""CUDA graphs, against the stand-in for CuPy: by hand, and of captured steps.

The stand-in raises where a graph would hold what it cannot repeat. No GPU takes part.
"""

import numpy as np
import pytest
import test_cuda_streams
from stream_stand_in import WORLD, Misuse, Stream
from training import adam, batches, flat, mlp, scheduler, sgd

import minidp as dp
from minidp import backend as backends
from minidp import nn, optim
from minidp.backend.cuda_graph import Replayed
from minidp.errors import DeviceError
from minidp.graph.gpu_source import asks_host
from minidp.nn import functional as F
from minidp.op import OPS
from minidp.optim.descent import sgd as update

LARGE, gpus = test_cuda_streams.LARGE, test_cuda_streams.gpus
pytestmark = pytest.mark.usefixtures("gpus")


def training_step(optimizer=sgd):
    """A model on a GPU, its inputs, and a step that works in place."""
    model = mlp("float32").to("cuda:0")
    rule, loss = optimizer(model.parameters()), nn.CrossEntropyLoss()
    x = dp.zeros(8, 6, device="cuda:0")
    y = dp.zeros(8, dtype=dp.int64, device="cuda:0")
    kept = {}

    def step():
        rule.zero_grad()
        kept["loss"] = loss(model(x), y)
        kept["loss"].backward()
        rule.step()

    return model, x, y, step, kept


def test_a_graph_replays_a_training_step(gpus):
    data = batches(8, 6, "float32")
    losses = {}
    for how in ("eager", "graph"):
        model, x, y, step, kept = training_step()
        losses[how], graph = [], None
        for number, (rows_of_x, labels) in enumerate(data):
            x.copy_(rows_of_x.to("cuda:0"))
            y.copy_(labels.to("cuda:0"))
            if how == "graph" and number == 2:
                graph = dp.cuda.CUDAGraph()
                before = flat(model.to("cuda:0"))
                with dp.cuda.graph(graph):
                    step()
                assert (flat(model) == before).all()  # noted, not done
            graph.replay() if graph else step()
            losses[how].append(kept["loss"].item())
        losses[how].append(flat(model))
    for graph, eager in zip(losses["graph"], losses["eager"], strict=True):
        np.testing.assert_allclose(graph, eager, 1e-5, 1e-6)  # the graph's products are ours
    assert losses["eager"][0] > losses["eager"][5]


def test_what_a_graph_cannot_do_raises_and_leaves_it(gpus):
    x = dp.ones(3, device="cuda:0")
    graph = dp.cuda.CUDAGraph()
    with pytest.raises(DeviceError, match="replayed after it was captured"):
        graph.replay()
    with pytest.raises(Misuse, match="cannot be waited for"), dp.cuda.graph(graph):
        (x * 2).tolist()
    assert (x * 2).tolist() == [2, 2, 2]
    for size in (3, LARGE):
        with pytest.raises(DeviceError, match="cannot be brought"), dp.cuda.graph(graph):
            dp.ones(size).to("cuda:0")
    with dp.cuda.graph(graph):
        y = x * 3
    assert WORLD.thread.pool is None  # back to the pool that all share
    graph.replay()
    assert y.tolist() == [3, 3, 3]
    with pytest.raises(DeviceError, match="captured once"), dp.cuda.graph(graph):
        pass
    graph.reset()
    with dp.cuda.graph(graph):
        z = x * 4
    graph.replay()
    assert z.tolist() == [4, 4, 4]


def replayed(step):
    """The graphs of a captured step."""
    return step.last.program.graphs


def trained(devices, optimizer, capture):
    """Losses and parameters of twelve steps of a network with dropout, and the captured step."""
    dp.manual_seed(4)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 8), nn.Tanh(),
                          nn.Linear(8, 4)).to(devices)  # fmt: skip
    rule, loss = optimizer(model.parameters()), nn.CrossEntropyLoss()
    schedule = optim.lr_scheduler.StepLR(rule, 3, 0.5)

    def step(x, y):
        rule.zero_grad()
        found = loss(model(x), y)
        found.backward()
        rule.step()
        return found

    run, losses = dp.capture(step, fuse=False) if capture else step, []
    for x, y in batches(8, 12, "float32"):
        losses.append(run(x.to(devices), y.to(devices)))
        schedule.step()
    return np.array([each.item() for each in losses]), flat(model), run


@pytest.mark.parametrize("optimizer", [sgd, adam])
def test_a_captured_step_replays_graphs_and_trains_as_the_eager_one(optimizer):
    eager, graphs = (trained("cuda:0", optimizer, capture) for capture in (False, True))
    for graph, other in zip(graphs[:2], eager[:2], strict=True):  # products are by other kernels
        np.testing.assert_allclose(graph, other, 1e-4, 1e-5)
    found = replayed(graphs[2])
    assert len(found) == 2 and all(each.graph is not None for each in found), graphs[2].graph
    assert "stretch0(" in graphs[2].last.program.text
    assert graphs[2].last.program.nbytes() > 0


def test_without_products_of_matrices_graphs_have_the_eager_bytes():
    def step(x):
        y = F.conv2d(x, weight, padding=1)
        weight.grad = None
        loss = (F.max_pool2d(F.batch_norm(y, None, None, training=True), 2).tanh() ** 2).mean()
        loss.backward()
        return loss

    run, found = dp.capture(step, fuse=False), {}
    for how in (step, run):
        weight = nn.Parameter(dp.tensor(np.cos(np.arange(108.0)).reshape(4, 3, 3, 3)).to("cuda:0"))
        found[how] = []
        for n in range(6):
            x = dp.tensor(np.sin(np.arange(216.0) + n).reshape(2, 3, 6, 6)).to("cuda:0")
            found[how] += [how(x).item(), weight.grad.tolist()]
    assert found[run] == found[step]
    assert [each.reason for each in replayed(run)] == [""] and replayed(run)[0].graph is not None


def test_results_of_a_replay_may_be_kept_and_parameters_may_move():
    weight = dp.nn.Parameter(dp.arange(3.0).to("cuda:0"))
    step = dp.capture(lambda x: ((x * weight).exp() + x).tanh() * 2, fuse=False)
    kept = [step(dp.full((3,), float(n)).to("cuda:0")) for n in range(6)]
    assert replayed(step)[0].graph is not None
    for n, y in enumerate(kept):
        np.testing.assert_allclose(y.tolist(), np.tanh(np.exp(n * np.arange(3.0)) + n) * 2, 1e-6)
    with dp.no_grad():
        weight.array = (weight.detach() * 0).array
    for n in range(5):
        y = step(dp.full((3,), float(n)).to("cuda:0"))
        np.testing.assert_allclose(y.tolist(), np.tanh(np.ones(3) + n) * 2, 1e-6)


def test_gradients_of_a_replay_may_be_kept():
    weight = dp.nn.Parameter(dp.ones(3).to("cuda:0"))

    def step(x):
        weight.grad = None
        ((x * weight).exp() * x).sum().backward()

    run, kept = dp.capture(step, fuse=False), []
    for n in range(6):
        run(dp.full((3,), n / 4).to("cuda:0"))
        kept.append(weight.grad)
    assert replayed(run)[0].graph is not None
    for n, g in enumerate(kept):
        np.testing.assert_allclose(g.tolist(), [(n / 4) ** 2 * np.exp(n / 4)] * 3, 1e-6)


def test_fused_steps_become_graphs_too():
    step = dp.capture(lambda x, w: (((x * 2 + 1).tanh() @ w).relu() - 1).exp().sum(0))
    x, w = dp.randn(4, 5).to("cuda:0"), dp.randn(5, 3).to("cuda:0")
    found = [step(x, w).tolist() for _ in range(6)]
    assert replayed(step)[0].graph is not None
    np.testing.assert_allclose(found, [found[0]] * 6, 1e-5)


def test_what_changes_arrays_in_place_stays_a_list():
    weight, how = dp.ones(3).to("cuda:0"), {"weight_decay": 0, "nesterov": False, "first": False}

    def step(x):
        view = weight[:2]  # a copy of it would not change
        update(view, x, lr=0.5, momentum=0, dampening=0, maximize=False, **how)
        return (weight * x.sum() + 1).exp().log()

    run, expected = dp.capture(step, fuse=False), np.ones(3)
    for n in range(6):
        y = run(dp.full((2,), n / 8).to("cuda:0"))
        expected[:2] -= n / 16
        np.testing.assert_allclose(y.tolist(), expected * n / 4 + 1, 1e-5)
    assert run.replays and replayed(run) == []


def test_bodies_that_bring_numbers_from_the_host_stay_out():
    asking = {name for name, op in OPS.items() if op.own and asks_host(op.body)}
    assert asking >= {"attention", "dropout", "activation", "resample", "binary_cross_entropy"}
    assert not asking & {"add", "tanh", "amax", "matmul", "reshape", "conv2d"}

    def step(x):
        y = dp.nn.functional.interpolate(x, scale_factor=2, mode="bilinear")
        return ((y + 1).exp().log() * 2).sum()

    run = dp.capture(step, fuse=False)
    found = [run(dp.full((1, 1, 3, 3), n / 8).to("cuda:0")).item() for n in range(6)]
    np.testing.assert_allclose(found, [72 * (n / 8 + 1) for n in range(6)], 1e-5)
    assert "resample(" not in run.last.program.text.split("def step")[0] and len(replayed(run)) == 1


def test_where_capture_fails_a_warning_says_why_once_and_the_calls_go_on(gpus):
    def run(x):
        calls.append(gpus.capturing())
        return (x * float((x + 1).sum().item()),)  # the host waits

    calls = []
    with gpus.activate(0):
        x = gpus.xp.ones(3)
        run = gpus.captured(run)
        run(x)
        with pytest.warns(UserWarning, match="cannot become a CUDA graph.*cannot be waited for"):
            assert gpus.get(run(x)[0]).tolist() == [6, 6, 6]
        assert gpus.get(run(x)[0]).tolist() == [6, 6, 6]
    assert calls == [False, True, False, False] and "Misuse" in run.reason
    assert not gpus.capturing() and WORLD.thread.pool is None


def test_an_error_in_a_graph_step_says_where():
    step = dp.capture(lambda x, k: ((x + 1) * 2 - 3).exp().log() @ k, fuse=False)
    x, k = dp.ones(2, 3).to("cuda:0"), dp.ones(3, 2).to("cuda:0")
    for _ in range(4):
        step(x, k)
    program = step.last.program
    with pytest.raises(Exception, match=r".") as caught:
        program([x.array, dp.ones(5, 2).to("cuda:0").array])
    assert any("in the captured step" in note for note in caught.value.__notes__)


def test_two_threads_may_replay_one_step_and_streams_wait_for_each_other(gpus, monkeypatch):
    with gpus.activate(0):
        run = gpus.captured(lambda x: (x * 2 + 1,))
        x = gpus.xp.ones(3)
        for _ in range(3):
            run(x)
        with run._lock:  # another thread is at it
            assert gpus.get(run(x)[0]).tolist() == [3, 3, 3]
        side, ready = gpus.xp.cuda.Stream(non_blocking=True), gpus.xp.cuda.Event()
        ready.record()
        with side:
            side.wait_event(ready)
            kept = run(x)
            run._launched = None
        assert len(kept) == 1
        monkeypatch.setattr(Stream, "wait_event", lambda self, event: None)
        with pytest.raises(Misuse, match="no event was waited for"):
            run(x)


def test_memory_of_graphs_can_be_given_back(gpus):
    with gpus.activate(0):
        run, x = gpus.captured(lambda x: (x * 2 + 1,)), gpus.xp.ones(3)
        assert isinstance(run, Replayed) and run.nbytes() == 0
        for _ in range(3):
            run(x)
        assert run.nbytes() > 0
        run.let_go()
        assert run.nbytes() == 0
        assert gpus.get(run(x)[0]).tolist() == [3, 3, 3] and run.nbytes() > 0


def test_other_backends_give_the_function_itself():
    def run(x):
        return (x,)

    for name in ("cpu", "emu"):
        assert backends.get_backend(name).captured(run) is run
        assert not backends.get_backend(name).captures


@pytest.mark.parametrize("wrong, message", [
    (lambda xp, x: x.tolist(), "cannot be waited for"),
    (lambda xp, x: xp.array([1.0]), "a copy from the host"),
    (lambda xp, x: xp.matmul(x, x), "calling cuBLAS"),
    (lambda xp, x: on_another_stream(xp, x), "another stream than the one that is captured"),
    (lambda xp, x: xp.cuda.get_current_stream().wait_event(x), "an event from outside"),
    (lambda xp, x: with_the_shared_pool(xp, x), "from the pool that all share"),
])  # fmt: skip
def test_the_stand_in_raises_on_misuse(gpus, wrong, message):
    xp = gpus.xp
    with gpus.activate(0):
        x, graph = xp.ones(3), backends.cuda_graph.CudaGraph(xp)
        given = xp.cuda.Event() if "outside" in message else x
        if given is not x:
            given.record()
        with pytest.raises((Misuse, NotImplementedError), match=message):
            graph.begin()
            try:
                wrong(xp, given)
            finally:
                graph.abandon()


def on_another_stream(xp, x):
    with xp.cuda.Stream(non_blocking=True):
        x + x


def with_the_shared_pool(xp, x):
    with xp.cuda.using_allocator(xp.get_default_memory_pool().malloc):
        x + x


def test_a_graph_whose_pool_is_gone_cannot_be_launched(gpus):
    with gpus.activate(0):
        graph, x = backends.cuda_graph.CudaGraph(gpus.xp), gpus.xp.ones(3)
        graph.begin()
        x * 2
        graph.end()
        graph.replay()
        graph.pool = None
        with pytest.raises(Misuse, match="memory of a graph is gone"):
            graph.replay()


def test_replicas_replay_graphs_as_they_train_on_the_cpu():
    found = {}
    for devices in ("cpu:0-1", "cuda:0-1"):
        model = mlp("float32")
        train = scheduler(model, devices=devices, capture=True)
        losses = [float(train(x, y)) for x, y in batches(10, 8, "float32")]
        found[devices] = np.concatenate([losses, flat(model)])
    np.testing.assert_allclose(found["cuda:0-1"], found["cpu:0-1"], 1e-4, 1e-5)
