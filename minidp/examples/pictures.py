"""The picture of a finished run: curves, some digits with their predictions, the confusions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import minidp as dp
from minidp.data import DataLoader
from minidp.types import Array

COLOURS = {"train": "#4477aa", "test": "#cc6677", "right": "#228833", "wrong": "#ee3377"}
COLUMNS, ROWS = 10, 4


def predictions(model: Any, train: Any, dataset: Any) -> Array:
    """The class that the model gives each picture."""
    model.eval()
    found = []
    with dp.no_grad():
        device = next(model.parameters()).device
        for x, _ in DataLoader(dataset, 250, prefetch=0):
            found.append(model(x.to(device)).argmax(1).cpu().numpy())
    model.train()
    return np.concatenate(found)


def draw(path: Path, model: Any, train: Any, dataset: Any, history: list[dict[str, float]]) -> None:
    """Write one PNG with four parts."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    guesses = predictions(model, train, dataset)
    figure = plt.figure(figsize=(13, 8), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=(1, 1.1))
    losses, accuracy, confusion = top.subplots(1, 3, width_ratios=(1.2, 1.2, 1))
    draw_curves(losses, accuracy, history)
    draw_confusion(confusion, dataset, guesses)
    draw_digits(bottom, dataset, guesses)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_curves(losses: Any, accuracy: Any, history: list[dict[str, float]]) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

    epochs = range(1, len(history) + 1)
    for name, key in (("train", "loss"), ("test", "test_loss")):
        losses.plot(epochs, [h[key] for h in history], "o-", ms=4, color=COLOURS[name], label=name)
    losses.set(title="mean loss", xlabel="epoch", yscale="log" if len(history) > 1 else "linear")
    if len(history) > 1:  # numbers written out: 0.2, 0.5, 1
        losses.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        losses.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        losses.yaxis.set_minor_formatter(NullFormatter())
    losses.legend(frameon=False)
    values = [100 * h["accuracy"] for h in history]
    accuracy.plot(epochs, values, "o-", ms=4, color=COLOURS["test"])
    accuracy.set(title=f"test accuracy: {values[-1]:.1f} % at the end", xlabel="epoch", ylabel="%")
    for axes in (losses, accuracy):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.3)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def draw_confusion(axes: Any, dataset: Any, guesses: Array) -> None:
    count = len(dataset.classes)
    table = np.zeros((count, count), int)
    np.add.at(table, (dataset.labels, guesses), 1)
    wrong = table - np.diag(np.diag(table))
    axes.imshow(wrong, cmap="Reds", vmin=0, vmax=max(1, wrong.max()))
    for i, j in np.ndindex(count, count):
        if table[i, j]:
            colour = "0.6" if i == j else "white" if wrong[i, j] > wrong.max() / 2 else "black"
            axes.text(j, i, table[i, j], ha="center", va="center", fontsize=7, color=colour)
    axes.set(title="confusions (test digits)", xlabel="prediction", ylabel="class")
    axes.set_xticks(range(count))
    axes.set_yticks(range(count))


def draw_digits(figure: Any, dataset: Any, guesses: Array) -> None:
    """Some pictures: every wrong one that fits in half the places, then right ones."""
    wrong = np.flatnonzero(guesses != dataset.labels)[: COLUMNS * ROWS // 2]
    right = np.flatnonzero(guesses == dataset.labels)[: COLUMNS * ROWS - len(wrong)]
    grid = figure.subplots(ROWS, COLUMNS)
    for axes in grid.flat:
        axes.axis("off")
    for axes, index in zip(grid.flat, [*right, *wrong], strict=False):
        hit = guesses[index] == dataset.labels[index]
        axes.imshow(dataset.images[index], cmap="gray_r")
        text = f"{guesses[index]}" if hit else f"{guesses[index]} (is {dataset.labels[index]})"
        axes.set_title(text, fontsize=9, color=COLOURS["right" if hit else "wrong"], pad=2)
    total = np.sum(guesses != dataset.labels)
    title = f"{len(right)} right predictions, {len(wrong)} of {total} wrong ones"
    figure.suptitle(title, fontsize=10)
