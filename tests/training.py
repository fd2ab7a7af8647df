"""Small models, data and comparisons for the tests of data parallelism."""

import threading

import numpy as np

import minidp as dp
from minidp import Tensor, nn, optim

FEATURES, CLASSES = 6, 4


def batches(rows, count, dtype="float64", seed=1):
    """``count`` batches of random rows."""
    random = np.random.default_rng(seed)
    return [
        (
            Tensor(random.standard_normal((rows, FEATURES)).astype(dtype)),
            Tensor(random.integers(0, CLASSES, rows)),
        )
        for _ in range(count)
    ]


def mlp(dtype="float64", width=9, *more):
    """A model with the same weights at each call."""
    dp.manual_seed(7)
    layers = [nn.Linear(FEATURES, width), nn.ReLU(), *more, nn.Linear(width, CLASSES)]
    return nn.Sequential(*layers).to(np.dtype(dtype))


def sgd(parameters):
    return optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01)


def adam(parameters):
    return optim.Adam(parameters, lr=0.01)


def scheduler(model, loss=None, optimizer=sgd, **options):
    made = optimizer(model.parameters()) if callable(optimizer) else optimizer
    return dp.Scheduler(model, loss or nn.CrossEntropyLoss(), made, **options)


def flat(model):
    """All parameters and buffers as one array."""
    tensors = [*model.parameters(), *(model.buffers() if hasattr(model, "buffers") else ())]
    return np.concatenate([np.ravel(t.detach().numpy()) for t in tensors])


def gradient(model):
    return np.concatenate([np.ravel(p.grad.numpy()) for p in model.parameters()])


def distance(a, b):
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def everything(train):
    """The bytes of all that a step may change."""
    model, optimizer = train.model, train.optimizer
    state = [
        (name, np.asarray(value.detach().numpy() if hasattr(value, "detach") else value).tobytes())
        for p in model.parameters()
        for name, value in sorted(optimizer.state.get(p, {}).items())
    ]
    grads = [p.grad if p.grad is None else p.grad.numpy().tobytes() for p in model.parameters()]
    state += [(name, buffer.numpy().tobytes()) for name, buffer in model.named_buffers()]
    return flat(model).tobytes(), state, grads, dp.random.default_generator.get_state()


def replica_threads():
    return [t.name for t in threading.enumerate() if t.name.startswith("minidp replica")]
