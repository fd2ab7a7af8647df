"""Random runs: whatever the split, a scheduler trains as one replica does, to 1e-10 in float64; and
for equal numbers of replicas on different devices to the last bit, in float32."""

from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from training import CLASSES, FEATURES, distance, everything, flat

import minidp as dp
from minidp import Tensor, nn, optim
from minidp.nn import functional as F
from minidp.parallel.split import counts
from minidp.testing import inject

WEIGHT = np.array([1.0, 3.0, 0.5, 2.0])


class Net(nn.Module):
    """A small model, of which parts may be shared, left out, or look at the whole batch."""

    def __init__(self, width, batch_norm, dropout, tied, unused):
        super().__init__()
        # a bias before batch norm has no gradient but rounding, which Adam would divide by itself
        self.first = nn.Linear(FEATURES, width, bias=not batch_norm)
        self.norm = nn.BatchNorm1d(width) if batch_norm else nn.LayerNorm(width)
        self.drop = nn.Dropout(dropout)
        self.middle = nn.Linear(width, width)
        self.again = self.middle if tied else nn.Linear(width, width)
        self.last = nn.Linear(width, CLASSES)
        self.spare = nn.Linear(2, 2) if unused else None

    def forward(self, x):
        x = self.drop(self.norm(self.first(x)).tanh())
        return self.last(self.again(self.middle(x).sigmoid()).tanh())


def own_terms(outputs, targets):
    """Terms with different denominators, one of them a function of a mean."""
    table = dp.tensor(WEIGHT).to(outputs.dtype).reshape(-1, 1)
    weight = F.embedding(targets, table).squeeze(1) * (targets != 3)
    entropy = F.cross_entropy(outputs, targets, reduction="none")
    squares = dp.mean(outputs**2, dp.ones_like(outputs))
    return dp.mean(entropy * weight, weight + 0.1) + (squares + 0.1).sqrt() + outputs.abs().mean()


def weighted(dtype):
    return nn.CrossEntropyLoss(dp.tensor(WEIGHT.astype(dtype)), ignore_index=2)


LOSSES = {
    "cross entropy": lambda dtype: nn.CrossEntropyLoss(),
    "weighted, ignoring": weighted,
    "smoothed": lambda dtype: nn.CrossEntropyLoss(label_smoothing=0.2),
    "sum": lambda dtype: nn.CrossEntropyLoss(reduction="sum"),
    "own terms": lambda dtype: own_terms,
}
OPTIMIZERS = {
    "sgd": lambda p: optim.SGD(p, 0.02, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adamw": lambda p: optim.AdamW(p, 0.01),
    "adagrad": lambda p: optim.Adagrad(p, 0.02),
}
MODELS = st.tuples(st.sampled_from([5, 9, 150]), st.booleans(), st.sampled_from([0.0, 0.4]),
                   st.booleans(), st.booleans())  # fmt: skip
LAYOUTS = st.fixed_dictionaries(
    {"devices": st.integers(1, 4), "store": st.sampled_from(["local", "device"])},
    optional={"replicas": st.integers(1, 5), "bucket_kib": st.sampled_from([1, 8])},
)
CHOICES = {"model": MODELS, "loss": st.sampled_from(sorted(LOSSES)),
           "optimizer": st.sampled_from(sorted(OPTIMIZERS)), "clip": st.sampled_from([None, 0.3]),
           "capture": st.booleans(), "scale": st.sampled_from([None, 64.0])}  # fmt: skip


class Runs(RuleBasedStateMachine):
    """Two schedulers that are given the same steps."""

    dtype: str
    runs: tuple[dp.Scheduler, dp.Scheduler]

    def start(self, layouts, model, loss, optimizer, clip, capture, scale):
        self.batch_norm, self.loss = model[1], loss
        self.random = np.random.default_rng(5)
        made = []
        for layout in layouts:
            dp.manual_seed(11)
            net = Net(*model).to(np.dtype(self.dtype))
            more = {"nan": "skip", "clip_norm": clip, "capture": capture, "unused": "ignore",
                    "loss_scale": scale}  # fmt: skip
            chosen = OPTIMIZERS[optimizer](net.parameters())
            made.append(dp.Scheduler(net, LOSSES[loss](self.dtype), chosen, **more, **layout))
        self.runs = tuple(made)

    def both(self, act):
        """What each of the two gives, from the same random state."""
        state, found = dp.default_generator.get_state(), []
        for run in self.runs:
            dp.default_generator.set_state(state)
            found.append(act(run))
        return found

    def batch(self, rows, bad=False):
        x = self.random.standard_normal((rows, FEATURES)).astype(self.dtype)
        if bad:
            x[self.random.integers(rows)] = np.nan
        return Tensor(x), Tensor(self.random.integers(0, CLASSES, rows))

    @rule(rows=st.integers(2, 14), steps=st.integers(1, 3), accumulate=st.integers(1, 4),
          same=st.booleans())  # fmt: skip
    def train(self, rows, steps, accumulate, same):
        accumulate = 1 if self.batch_norm else accumulate
        data = [self.batch(rows) for _ in range(1 if same else steps)]
        data = data * steps if same else data
        self.compare(self.both(lambda run: run.run(data, accumulate=accumulate)[0]))

    @rule(rows=st.integers(4, 7), bad=st.sampled_from([None, 9, 20]))
    def train_long(self, rows, bad):
        data = [self.batch(rows, i == bad) for i in range(24)]
        self.compare(self.both(lambda run: run.run(data)[0]))
        self.compare(self.both(lambda run: run.progress.skipped))

    @rule(rows=st.integers(2, 14))
    def freeze_between_steps(self, rows):
        data = [self.batch(rows) for _ in range(3)]
        before = [p.requires_grad for p in self.runs[0].model.first.parameters()]

        def freeze(run, progress):
            run.model.first.requires_grad_(all(before) and progress.steps < 2)

        self.compare(self.both(lambda run: run.run(data, on_step=partial(freeze, run))[0]))

    @rule(rows=st.integers(2, 14))
    def skip(self, rows):
        x, y = self.batch(rows, bad=True)
        self.both(lambda run: run(x, y))
        assert [run.progress.skipped for run in self.runs] == [1, 1]

    @rule(rows=st.integers(1, 14))
    def evaluate(self, rows):
        data = [self.batch(rows), self.batch(3)]
        self.compare(self.both(lambda run: run.evaluate(data)["loss"]))

    @rule(frozen=st.booleans())
    def freeze(self, frozen):
        for run in self.runs:
            run.model.first.requires_grad_(not frozen)

    @rule(rate=st.sampled_from([0.001, 0.03]))
    def slow_down(self, rate):
        for run in self.runs:
            for group in run.optimizer.param_groups:
                group["lr"] = rate

    @rule(rows=st.integers(4, 14), at=st.sampled_from(["loader", "forward", "bucket", "update"]),
          seed=st.integers(0, 9))  # fmt: skip
    def fail(self, rows, at, seed):
        x, y = self.batch(rows)
        step = dp.default_generator.step + 1
        for run in self.runs:
            ranks = [rank for rank, n in enumerate(counts(rows, run.weights)) if n]
            fault = {"replica": ranks[seed % len(ranks)], "step": step, "at": at}
            before = everything(run)
            with (
                inject("raise", error=OSError("planned"), **fault),
                pytest.raises(OSError, match="planned"),
            ):
                run(x, y)
            assert everything(run) == before

    def compare(self, found):
        raise NotImplementedError


class Exact(Runs):
    """Any split against one replica, in float64."""

    dtype = "float64"

    @initialize(layout=LAYOUTS, workload=st.tuples(*[st.integers(0, 5)] * 4), **CHOICES)
    def begin(self, layout, workload, **choices):
        workload = workload[: layout["devices"]]
        if sum(workload) and "replicas" not in layout:
            layout = {**layout, "workload": workload}
        self.start([layout, {"devices": 1}], **choices)

    def compare(self, found):
        ours, alone = found
        assert ours == pytest.approx(alone, rel=1e-9, abs=1e-10, nan_ok=True)

    @invariant()
    def equal(self):
        if hasattr(self, "runs"):
            assert distance(flat(self.runs[0].model), flat(self.runs[1].model)) < 1e-10


class Bytes(Runs):
    """The same replicas on different devices, in float32."""

    dtype = "float32"

    @initialize(one=LAYOUTS, other=LAYOUTS, replicas=st.integers(1, 5), **CHOICES)
    def begin(self, one, other, replicas, **choices):
        kib = one.get("bucket_kib", 64)
        layouts = [{**each, "replicas": replicas, "bucket_kib": kib} for each in (one, other)]
        self.start(layouts, **choices)

    def compare(self, found):
        assert np.array_equal(*found, equal_nan=True)

    @invariant()
    def equal(self):
        if hasattr(self, "runs"):
            assert everything(self.runs[0])[0] == everything(self.runs[1])[0]


CHECKS = [HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large]
PHASES = Phase.reuse, Phase.generate, Phase.shrink  # without explanations, which take minutes
QUICK = settings(max_examples=12, stateful_step_count=6, deadline=None, phases=PHASES,
                 suppress_health_check=CHECKS)  # fmt: skip
FULL = settings(QUICK, max_examples=1000)


class TestExact(Exact.TestCase):
    settings = QUICK


class TestBytes(Bytes.TestCase):
    settings = QUICK


@pytest.mark.slow
@pytest.mark.timeout(1500)  # a thousand cases take three to nine minutes
class TestLongExact(Exact.TestCase):
    settings = FULL


@pytest.mark.slow
@pytest.mark.timeout(1500)  # a thousand cases take three to nine minutes
class TestLongBytes(Bytes.TestCase):
    settings = FULL
