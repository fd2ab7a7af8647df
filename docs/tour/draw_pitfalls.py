"""Draw what wrong ways of splitting a batch do: ``python docs/tour/draw_pitfalls.py``."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from minidp.data import DataLoader, mnist
from minidp.examples import pitfalls

PICTURE = Path(__file__).parent.parent / "pictures" / "pitfalls.png"
WRONG, RIGHT = "#cc6677", "#4477aa"


def draw_means(axes):
    uneven = ([22, 21, 21], [11, 11, 10], [4, 3, 3], [48, 16])
    found = [100 * pitfalls.means(shares)["gradient off"] for shares in uneven]
    names = [" + ".join(map(str, shares)) for shares in uneven]
    bars = axes.barh(names, found, color=WRONG, height=0.6)
    axes.bar_label(bars, fmt="%.0f %%", padding=3)
    axes.invert_yaxis()
    axes.set(title="mean of means:\nhow far the gradient is off", xlabel="%", xlim=(0, 46))


def draw_batch_norm(axes):
    replicas = (1, 2, 4, 8, 16)
    found = [100 * pitfalls.batch_norm(k)["accuracy"] for k in replicas]
    names = [f"{k} × {pitfalls.BATCH // k}" for k in replicas]
    axes.plot(names, found, "o-", color=WRONG, label="local")
    axes.axhline(found[0], color=RIGHT, label="over all rows")
    axes.set(title="local batch norm:\naccuracy after an epoch", xlabel="replicas × rows",
             ylabel="%", ylim=(50, 100))
    axes.legend(frameon=False, loc="lower left")


def draw_dropout(axes):
    replicas = (1, 4, 8, 16, 32)
    found = [pitfalls.dropout(k)["variance"] for k in replicas]
    axes.plot(list(map(str, replicas)), found, "o-", color=WRONG, label="equal masks")
    axes.axhline(1, color=RIGHT, label="a mask per row")
    axes.set(title="equal dropout masks:\nvariance of the gradient", xlabel="replicas", ylim=(0, 2))
    axes.legend(frameon=False, loc="lower left")


def draw_evaluation(axes):
    model = pitfalls.network()
    loader = DataLoader(mnist("train", "bundled"), pitfalls.BATCH)
    pitfalls.scheduler(model, [16, 16]).run(loader)
    replicas = range(1, 17)
    found = [pitfalls.evaluation(model, 100, k) for k in replicas]
    axes.plot(replicas, [100 * each["padded"] for each in found], "o-", ms=4, color=WRONG,
              label="padded")
    axes.plot(replicas, [100 * each["right"] for each in found], color=RIGHT, label="each row once")
    axes.set(title="padded evaluation of 100 rows:\naccuracy of one and the same model",
             xlabel="replicas", ylabel="%", xticks=[1, 4, 8, 12, 16])
    axes.legend(frameon=False)


def draw(path):
    figure, axes = plt.subplots(1, 4, figsize=(15, 3.6), layout="constrained")
    for part, function in zip(axes, (draw_means, draw_batch_norm, draw_dropout, draw_evaluation)):
        function(part)
        part.title.set_size(11)
        part.spines[["top", "right"]].set_visible(False)
        part.grid(alpha=0.3)
        part.set_axisbelow(True)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    draw(PICTURE)
