"""Draw the timeline's page, in a headless Chromium: ``python docs/tour/draw_timeline.py``."""

import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(DOCS.parent / "tests"))

from browser import Browser, find  # noqa: E402
from recordings import lenet  # noqa: E402

from minidp.parallel.timeline import write_page  # noqa: E402

PICTURE = DOCS / "pictures" / "timeline.png"


def draw(path, recording):
    """The page from the top to the legend."""
    with tempfile.TemporaryDirectory() as folder, Browser(find()) as browser:
        write_page(recording, Path(folder, "page.html"))
        browser.open(Path(folder, "page.html"), width=1200, height=700)
        legend = browser.run("document.getElementById('legend').getBoundingClientRect().bottom")
        clip = {"x": 0, "y": 0, "width": 1200, "height": legend + 16, "scale": 1}
        path.write_bytes(browser.picture(clip=clip))


if __name__ == "__main__":
    draw(PICTURE, lenet(3, 9, slow=1))
