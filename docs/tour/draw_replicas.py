"""Draw a step of the example's network, as two replicas ran it: ``draw_replicas.py``.

Run it as ``python docs/tour/draw_replicas.py``, in a quiet moment: the picture is of a real run.
"""

import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(DOCS.parent / "tests"))

from browser import Browser, find  # noqa: E402

import minidp as dp  # noqa: E402
from minidp import nn, optim  # noqa: E402
from minidp.data import DataLoader, mnist  # noqa: E402
from minidp.examples.mnist import cnn  # noqa: E402
from minidp.parallel.timeline import analyse, write_page  # noqa: E402

PICTURE = DOCS / "pictures" / "replicas.png"
BUCKETS = (64, 256)
"""KiB; three buckets show more than two."""


def record():
    """An epoch of the bundled digits, after one to warm up."""
    dp.manual_seed(0)
    model = cnn()
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    train = dp.Scheduler(model, nn.CrossEntropyLoss(), optimizer, devices=2, bucket_kib=BUCKETS)
    loader = DataLoader(mnist("train", "bundled"), 128, shuffle=True)
    train.run(loader)
    with train.record() as recording:
        train.run(loader)
    return recording


def fastest(recording):
    """The step that others on the machine disturbed least."""
    return min(analyse(recording)[1:-1], key=lambda step: step.ended - step.began).number


def draw(path, recording):
    """The lanes of that step, and the legend."""
    with tempfile.TemporaryDirectory() as folder, Browser(find()) as browser:
        write_page(recording, Path(folder, "page.html"))
        browser.open(Path(folder, "page.html"), width=1200, height=700)
        browser.run(f"(e => {{ e.value = '{fastest(recording)}'; "
                    "e.dispatchEvent(new Event('change')) })(document.querySelector('select'))")
        browser.frame()
        top, end = browser.run("[document.getElementById('ruler').getBoundingClientRect().top, "
                               "document.getElementById('legend').getBoundingClientRect().bottom]")
        clip = {"x": 0, "y": top - 8, "width": 1200, "height": end - top + 24, "scale": 1}
        path.write_bytes(browser.picture(clip=clip))


if __name__ == "__main__":
    draw(PICTURE, record())
