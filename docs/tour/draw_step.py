"""Draw LeNet's training step on two replicas: ``python docs/tour/draw_step.py``."""

from pathlib import Path

import numpy as np

import minidp as dp
from minidp import nn, optim

PICTURE = Path(__file__).parent.parent / "pictures" / "step.svg"


def lenet():
    """LeNet-5 with rectifiers; source: LeCun, Bottou, Bengio and Haffner 1998."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84),
        nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def graph():
    """The captured step of the first replica."""
    model = lenet()
    optimizer = optim.SGD(model.parameters(), lr=0.05)
    train = dp.Scheduler(model, nn.CrossEntropyLoss(), optimizer, devices=2, capture=True)
    train(np.zeros((32, 1, 28, 28), np.float32), np.zeros(32, np.int64))
    return train.replays.captured[0].graph


if __name__ == "__main__":
    graph().draw(PICTURE)
