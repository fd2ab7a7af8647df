"""Train a small network on handwritten digits, on as many devices as one likes.

    python -m minidp.examples.mnist                        # all cores
    python -m minidp.examples.mnist --devices cpu:0-1 --workload 3,1
    python -m minidp.examples.mnist --gpus 0,1 --kv-store device
    python -m minidp.examples.mnist --devices emu:0-1      # CUDA kernels, executed on the CPU
    python -m minidp.examples.mnist --devices 2 --timeline out.html
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import minidp as dp
from minidp import nn, optim
from minidp.data import DataLoader, mnist
from minidp.examples import checkpoints, watching
from minidp.examples import command_line as cl
from minidp.parallel.launch import STORES


def cnn() -> nn.Module:
    """Two convolutions and two linear layers, after LeNet (LeCun et al. 1998)."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def mlp() -> nn.Module:
    """Three linear layers."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
        nn.Linear(128, 10),
    )  # fmt: skip


MODELS = {"cnn": cnn, "mlp": mlp}
DECAY = 0.7
"""What the learning rate is multiplied by after each epoch."""


def make_optimizer(name: str, model: nn.Module, lr: float | None) -> optim.Optimizer:
    """SGD with momentum or Adam, with a learning rate that suits these models."""
    if name == "adam":
        return optim.Adam(model.parameters(), lr=1e-3 if lr is None else lr)
    return optim.SGD(model.parameters(), lr=0.05 if lr is None else lr, momentum=0.9)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = cl.Parser(prog="python -m minidp.examples.mnist", description=__doc__)
    options.add_argument("--model", choices=MODELS, default="cnn", help="the network (cnn)")
    options.add_argument("--devices", help="cpu (the default), 2, cpu:0-1, cuda:0,cuda:2, emu:0-1")
    options.add_argument("--gpus", help="0,2 is --devices cuda:0,cuda:2")
    options.add_argument("--workload", type=cl.numbers, help="3,1: weights of the devices")
    options.add_argument("--replicas", type=cl.positive(int), help="if not as many as devices")
    options.add_argument("--kv-store", type=watching.store, default="local", help=", ".join(STORES))
    options.add_argument("--accumulate", type=cl.positive(int), default=1, help="parts a share (1)")
    options.add_argument("--capture", action="store_true", help="replay steps that repeat")
    options.add_argument("--verify", action="store_true", help="compare a step with one replica")
    options.add_argument("--epochs", type=cl.positive(int), help="default: 24,000 rows, 30 at most")
    options.add_argument("--batch-size", type=cl.positive(int), default=64, help="rows a step (64)")
    options.add_argument("--lr", type=cl.positive(float),
                         help=f"0.05, of adam 0.001; times {DECAY} after each epoch")  # fmt: skip
    options.add_argument("--optimizer", choices=["sgd", "adam"], default="sgd", help="(sgd)")
    options.add_argument("--seed", type=int, default=0, help="of weights and order (0)")
    options.add_argument("--dataset", choices=["mnist", "fashion"], default="mnist", help="(mnist)")
    options.add_argument("--data", metavar="DIR", help="a folder with the idx files")
    options.add_argument("--rows", type=cl.positive(int), help="train on the first rows only")
    checkpoints.add_options(options)
    watching.add_options(options)
    options.add_argument("--plot", metavar="FILE.png", type=Path, help="draw curves and digits")
    options.add_argument("--json", action="store_true", help="print one last line of JSON")
    return options


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Train, test, and report; returns what ``--json`` prints."""
    options = parser().parse_args(arguments)
    watching.check_files(options)
    dp.manual_seed(options.seed)
    model = MODELS[options.model]()
    optimizer = make_optimizer(options.optimizer, model, options.lr)
    train = dp.Scheduler(
        model, nn.CrossEntropyLoss(), optimizer, cl.devices(options), options.workload,
        options.kv_store, replicas=options.replicas, nan="raise",
        accumulate=options.accumulate, capture=options.capture, verify=options.verify,
    )  # fmt: skip
    digits, held_out = (mnist(split, options.data, dataset=options.dataset) for split in
                        ("train", "test"))  # fmt: skip
    rows = cl.first_rows(digits, options.rows)
    options.epochs = options.epochs or min(max(1, round(24_000 / len(rows))), 30)
    loader = DataLoader(rows, options.batch_size, shuffle=True, seed=options.seed)
    tests = DataLoader(held_out, 250)
    history = checkpoints.resume(options.resume, options.model, model, optimizer, loader)
    cl.introduce(train, model, digits, rows, held_out)
    done = len(history)
    if done >= options.epochs:
        print(f"nothing to train: the checkpoint has {done} epoch(s); give more --epochs")
    for epoch in range(done, options.epochs):
        with (
            cl.ProgressBar(epoch, options.epochs, len(rows), train) as bar,
            watching.Steps(options, train, len(loader), epoch == done, bar.say) as steps,
        ):
            loss = train.run(loader, watch=bar.show, on_step=steps.watch, log=options.log)[0]
        for group in optimizer.param_groups:
            group["lr"] *= DECAY
        result = train.evaluate(tests)
        history.append({**result, "loss": loss, "test_loss": result["loss"], **bar.speed()})
        cl.epoch_line(epoch, options.epochs, history[-1])
        checkpoints.save(options, model, optimizer, loader, history)
    return cl.finish(options, train, model, digits.origin, held_out, history)


if __name__ == "__main__":
    cl.run(main)
