"""Four wrong ways to split a batch, and what each does to a model, in numbers.

    python -m minidp.examples.pitfalls

The wrong ways are played through by hand; the right answers are ``dp.Scheduler``'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import minidp as dp
from minidp import nn, optim
from minidp.data import DataLoader, Subset, mnist
from minidp.examples import command_line as cl
from minidp.types import Array

BATCH = 32
LOSS = nn.CrossEntropyLoss()


def network(*layers: nn.Module) -> nn.Module:
    """A small network for digits, the same at each call; ``layers`` come after its first one."""
    dp.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 32), *layers, nn.ReLU(), nn.Linear(32, 10))


def scheduler(model: nn.Module, shares: Sequence[int]) -> dp.Scheduler:
    """The right way: a replica for each share of so many rows."""
    return dp.Scheduler(model, LOSS, optim.SGD(model.parameters(), 0.1), len(shares), shares)


def naive(model: nn.Module, x: dp.Tensor, y: dp.Tensor, shares: Sequence[int]) -> Array:
    """The wrong way: each replica's own mean loss, with the same random numbers, averaged over
    replicas. Returns the gradient."""
    model.zero_grad()
    random = dp.default_generator.get_state()
    for stop, count in zip(np.cumsum(shares), shares):
        dp.default_generator.set_state(random)
        rows = slice(int(stop) - count, int(stop))
        (LOSS(model(x[rows]), y[rows]) / len(shares)).backward()
    return gradient(model)


def gradient(model: Any) -> Array:
    return np.concatenate([p.grad.numpy().ravel() for p in model.parameters()])


def distance(found: Array, right: Array) -> float:
    """How far a gradient is off, as a share of the right one's length."""
    return float(np.linalg.norm(found - right) / np.linalg.norm(right))


def means(shares: Sequence[int]) -> dict[str, float]:
    """Mean of means: a row of a small share counts more. As many ``rows`` of equal weight would be
    as noisy: 1 / (sum of squared weights)."""
    x, y = mnist("train", "bundled")[: sum(shares)]
    right = network()
    scheduler(right, shares)(x, y)
    off = distance(naive(network(), x, y, shares), gradient(right))
    return {"gradient off": off, "rows": len(shares) ** 2 / sum(1 / n for n in shares)}


def batch_norm(replicas: int) -> dict[str, float]:
    """Local batch norm: each replica normalises by its few rows. One epoch in batches of 32."""
    loader = DataLoader(mnist("train", "bundled"), BATCH, shuffle=True, seed=0)
    wrong, right = network(nn.BatchNorm1d(32)), network(nn.BatchNorm1d(32))
    optimizer, off = optim.SGD(wrong.parameters(), lr=0.1), []
    for number, (x, y) in enumerate(loader):
        found = naive(wrong, x, y, [BATCH // replicas] * replicas)
        if number % 20 == 0:  # compare with the right step from the same place
            right.load_state_dict(wrong.state_dict())
            scheduler(right, [BATCH // 2] * 2)(x, y)
            off.append(distance(found, gradient(right)))
        optimizer.step()
    return {"gradient off": float(np.mean(off)), "accuracy": evaluation(wrong)["right"]}


def dropout(replicas: int, draws: int = 40) -> dict[str, float]:
    """Equal masks: the noise of dropout does not average out over replicas. Batches of 32."""
    x, y = mnist("train", "bundled")[:BATCH]
    shares, noise = [BATCH // replicas] * replicas, []
    for cuts in ([BATCH], shares):
        model = network(nn.Dropout(0.5))  # which also begins the random numbers again
        gradients = [naive(model, x, y, cuts) for _ in range(draws)]
        noise.append(float(np.var(gradients, axis=0).sum()))
    return {"masks": shares[0], "variance": noise[1] / noise[0]}


def evaluation(model: nn.Module, rows: int = 1000, replicas: int = 2) -> dict[str, float]:
    """Padding: the first rows fill up the last batches of 32, and count twice."""
    held_out, whole = mnist("test", "bundled"), BATCH * replicas
    x, y = held_out[np.arange(-(-rows // whole) * whole) % rows]
    hits = (model.eval()(x).argmax(1) == y).numpy()
    exact = scheduler(model.train(), [BATCH] * replicas)
    right = exact.evaluate(DataLoader(Subset(held_out, range(rows)), whole))["accuracy"]
    return {"right": right, "padded": float(hits.mean())}


def show(title: str, table: dict[str, dict[str, float]]) -> None:
    print(title)
    for name, found in table.items():
        print(f"  {name:13}", ", ".join(f"{what} {value:.3g}" for what, value in found.items()))


def main(arguments: list[str] | None = None) -> None:
    """Print what each does."""
    cl.Parser(prog="python -m minidp.examples.pitfalls", description=__doc__).parse_args(arguments)
    uneven = ([22, 21, 21], [11, 11, 10], [4, 3, 3], [48, 16], [31, 1])
    show("mean of means, rows split unevenly", {"+".join(map(str, n)): means(n) for n in uneven})
    show("local batch norm", {f"{k} replica(s)": batch_norm(k) for k in (1, 2, 8, 16)})
    show("equal dropout masks", {f"{k} replica(s)": dropout(k) for k in (4, 16, 32)})
    model = network()
    scheduler(model, [16, 16]).run(DataLoader(mnist("train", "bundled"), BATCH))
    show("padded evaluation", {f"{k} replica(s)": evaluation(model, 100, k) for k in (1, 3, 5, 16)})


if __name__ == "__main__":
    cl.run(main)
