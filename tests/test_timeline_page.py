"""The timeline's page: one file, and what it does in a real browser."""

import json
import re

import pytest
from browser import Browser, find
from recordings import lenet

from minidp.errors import CheckpointError
from minidp.parallel.events import Event, Recording
from minidp.parallel.timeline import analyse, page, write_page
from minidp.parallel.timeline.intervals import length

CHROMIUM = find()
needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium: apt-get install chromium, or playwright install chromium"
)


def data_of(text):
    return json.loads(re.search(r'id="recording">(.*?)</script>', text, re.DOTALL).group(1))


def test_the_page_is_one_file_without_the_network(tmp_path):
    write_page(lenet(2, 2), tmp_path / "out.html")
    assert [path.name for path in tmp_path.iterdir()] == ["out.html"]
    text = (tmp_path / "out.html").read_text()
    assert "{{" not in text and not re.search(r"https?:|<link|\bsrc=|@import|url\(", text)
    with pytest.raises(CheckpointError):
        write_page(lenet(2, 2), tmp_path)


def test_its_data_is_the_recording():
    recording = lenet(3, 2)
    data = data_of(page(recording))
    columns, start = data["events"], min(e.began for e in recording.events)
    found = [
        Event(rank, step, data["kinds"][kind], data["names"][name], start + began,
              start + began + lasts, size, data["details"][detail])
        for rank, step, kind, name, began, lasts, size, detail in zip(
            *(columns[c] for c in ("replica", "step", "kind", "name", "began", "length", "size",
                                   "detail")), strict=True)
    ]  # fmt: skip
    assert sorted(found) == sorted(recording.events)
    for step, made in zip(analyse(recording), data["steps"], strict=True):
        assert made["path"][0][3] == step.path[0].began - start
        assert [lane["uncovered"] for lane in made["lanes"]] == [
            length(lane.exposed) for lane in step.lanes
        ]


EVIL = "</script><script>document.title='owned'</script><!--"


def test_names_cannot_break_out_of_the_page():
    recording = Recording([Event(0, 1, "forward", EVIL, 0, 9)], ["cpu:0"], {"model": EVIL})
    text = page(recording)
    assert text.count("<script") == 2 and "<!--" not in text
    assert data_of(text)["names"] == [EVIL]


def test_a_placeholder_in_a_name_stays_a_name():
    recording = Recording([Event(0, 1, "forward", "{{script}}", 0, 9)], ["cpu:0"],
                          {"model": "{{data}}"})  # fmt: skip
    text = page(recording)
    assert data_of(text)["names"] == ["{{script}}"] and text.count("Timeline: {{data}}") == 2


@pytest.fixture(scope="module")
def browser():
    try:
        found = Browser(CHROMIUM, patience=200)
    except (RuntimeError, OSError) as error:
        pytest.skip(f"{CHROMIUM} does not start here: {error}")
    with found:
        yield found


@pytest.fixture
def opened(browser, tmp_path):
    """A function that shows a recording; at the end, the page must have had no complaint."""

    def show(recording, **options):
        write_page(recording, tmp_path / "page.html")
        browser.errors.clear()
        browser.open(tmp_path / "page.html", **options)
        return browser

    yield show
    assert browser.errors == []


def text(browser, selector):
    return browser.run(f"document.querySelector('{selector}').innerText")


def ruler(browser):
    """The pixels of the ruler: they change when the view does."""
    return browser.run("document.getElementById('ruler').toDataURL()")


def colours(browser, selector="#lanes"):
    """Every colour that covers at least 20 pixels of a canvas, as #rrggbb."""
    script = """(() => { const c = document.querySelector('%s'), seen = {};
    const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
    for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255) {
      const k = '#' + [d[i], d[i+1], d[i+2]].map(v => v.toString(16).padStart(2, '0')).join('');
      seen[k] = (seen[k] || 0) + 1; }
    return Object.keys(seen).filter(k => seen[k] >= 20); })()"""
    return set(browser.run(script % selector))


def place(browser, selector="#lanes"):
    """Left, top, width, height of an element on the screen."""
    script = "(({x, y, width, height}) => [x, y, width, height])(document.querySelector('%s')"
    return browser.run(script % selector + ".getBoundingClientRect())")


LIGHT = {"forward": "#4477aa", "backward": "#8855aa", "update": "#228833", "reduce": "#117788",
         "exposed": "#c8324b", "path": "#222222"}  # fmt: skip
DARK = {"forward": "#6ea3d8", "backward": "#b48bd6", "update": "#5dbb6c", "reduce": "#43aebf",
        "exposed": "#ff6b81", "path": "#e8e8e3"}  # fmt: skip


@needs_browser
@pytest.mark.parametrize("dark", [False, True])
def test_everything_is_drawn_in_light_and_dark(opened, dark):
    browser = opened(lenet(4, 5, slow=2), dark=dark)
    expected = DARK if dark else LIGHT
    assert set(expected.values()) <= colours(browser)
    assert not {expected["exposed"]} <= colours(browser, "#ruler")
    paper = browser.run("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(22, 24, 27)" if dark else "rgb(252, 252, 250)")


@needs_browser
def test_path_and_exposure_can_be_hidden(opened):
    browser = opened(lenet(3, 3, slow=1))
    for name, colour in (("path", LIGHT["path"]), ("exposed", LIGHT["exposed"])):
        browser.run(f"document.getElementById('show-{name}').click()")
        browser.frame()
        if name == "exposed":
            assert colour not in colours(browser)
    before = colours(browser)
    browser.run("document.getElementById('show-exposed').click()")
    browser.frame()
    assert colours(browser) - before == {LIGHT["exposed"]}


@needs_browser
def test_the_tables_say_what_the_analysis_says(opened):
    recording = lenet(4, 5, slow=2)
    browser = opened(recording)
    found = browser.run("""[...document.querySelectorAll('#shares tbody tr')].map(
        row => [...row.cells].map(cell => cell.textContent))""")
    busy = [lane.busy for lane in analyse(recording)[2].lanes]
    assert [row[2] for row in found] == [f"{100 * share:.0f} %" for share in busy]
    assert [row[-1] for row in found] == ["no", "no", "yes", "no"]
    browser.run("document.getElementById('all').click()")
    assert "5 of 5" in text(browser, "#shares")
    assert "backward 3" in text(browser, "#path") and "bucket 0" in text(browser, "#waits")
    assert "model LeNet · batch 256" in text(browser, "#about")
    assert "exposed communication" in text(browser, "#numbers")


@needs_browser
def test_steps_are_chosen_by_list_buttons_keys_and_overview(opened):
    browser = opened(lenet(2, 4))
    chosen = "document.getElementById('step').value"
    assert browser.run(chosen) == "3"
    browser.run("document.getElementById('later').click()")
    assert browser.run(chosen) == "4" and browser.run("document.getElementById('later').disabled")
    browser.run("document.getElementById('lanes').focus()")
    for key, value in (("p", "3"), ("a", ""), ("n", "1")):
        browser.key(key)
        assert browser.run(chosen) == value
    left, top, *_ = place(browser, "#overview")
    browser.click(left + 70, top + 30)  # a bar is 60 wide
    assert browser.run(chosen) == "2"
    before, select = text(browser, "#shares"), "document.getElementById('step')"
    browser.run(f"{select}.value = '3'; {select}.dispatchEvent(new Event('change'))")
    assert text(browser, "#shares") != before


@needs_browser
def test_one_slow_step_does_not_hide_the_length_of_others(opened):
    ms, began, events = 1_000_000, 0, []
    for step, lasts in enumerate([1, 1, 1, 1, 100], 1):
        events.append(Event(0, step, "forward", "", began * ms, (began + lasts) * ms))
        began += lasts
    browser = opened(Recording(events, ["cpu:0"], {"model": "M"}))
    column = "overview.getContext('2d').getImageData(x, 0, 1, 42).data"
    opaque = "filter((value, i) => i % 4 === 3 && value > 0).length"
    usual, slow = browser.run(f"[10, 250].map(x => {column}.{opaque})")
    assert usual >= 8 and 30 < slow < 40, "the slow one has a gap"


@needs_browser
def test_zoom_and_pan_by_mouse_keys_and_touch(opened):
    browser = opened(lenet(2, 3))
    left, top, width, height = place(browser)
    x, y = left + width / 2, top + height / 2
    browser.run("document.getElementById('lanes').focus()")
    states = [ruler(browser)]

    def changed():
        states.append(ruler(browser))
        return states[-1] != states[-2]

    browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-120, modifiers=2)
    assert changed(), "Ctrl and the wheel zoom"
    browser.mouse("mousePressed", x, y, button="left", clickCount=1)
    browser.mouse("mouseMoved", x - 90, y, button="left", buttons=1)
    browser.mouse("mouseReleased", x - 90, y, button="left", clickCount=1)
    assert changed(), "dragging pans"
    for key in ("ArrowLeft", "+", "-", "0"):
        browser.key(key)
        assert changed(), key
    assert states[-1] == states[0], "0 fits the step again"
    browser.touch("touchStart", (x - 50, y), (x + 50, y))
    browser.touch("touchMove", (x - 150, y), (x + 150, y))
    browser.touch("touchEnd")
    assert changed(), "two fingers zoom"
    browser.run("document.getElementById('fit').click()")
    browser.frame()
    assert changed() and states[-1] == states[0]
    browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=60)
    assert not changed(), "the wheel alone scrolls the page"


@needs_browser
def test_details_show_under_the_mouse_and_by_keys(opened):
    browser = opened(Recording(
        [Event(0, 1, "forward", "3", 0, 2_000_000, 0, "Conv2d"),
         Event(0, 1, "ready", "bucket 0", 1_000_000, 1_000_000, 4096),
         Event(0, 1, "wait", "loss", 2_000_000, 4_000_000)], ["cpu:0"],
    ))  # fmt: skip
    left, top, width, _ = place(browser)
    middle = left + 132 + (width - 140) * 1.06 / 4.12  # the fitted step has a margin of 1.5 %
    browser.mouse("mouseMoved", middle, top + 8 + 9)
    tip = text(browser, "#tip")
    for part in ("forward 3", "0 on cpu:0", "2 ms", "50 %", "Conv2d"):
        assert part in tip
    browser.mouse("mouseMoved", middle, top + 8 + 19 + 9)
    assert "ready bucket 0" in text(browser, "#tip") and "4 KiB" in text(browser, "#tip")
    browser.mouse("mouseMoved", left + 10, top + 10)
    assert browser.run("document.getElementById('tip').hidden")
    browser.run("document.getElementById('lanes').focus()")
    told = []
    for _ in range(3):
        browser.key(".")
        told.append(text(browser, "#said"))
    assert told == ["forward 3, 2 ms, step 1, replica 0", "ready bucket 0, step 1, replica 0",
                    "wait loss, 2 ms, step 1, replica 0"]  # fmt: skip
    browser.key(",")
    assert text(browser, "#said") == told[1]
    before = ruler(browser)
    browser.key("Enter")
    assert ruler(browser) != before


@needs_browser
def test_it_fits_a_narrow_screen_and_every_control_has_a_name(opened):
    browser = opened(lenet(2, 3), width=380, height=700)
    assert browser.run("document.documentElement.scrollWidth") <= 380
    nameless = """[...document.querySelectorAll('button, select, input, canvas[tabindex]')].filter(
        e => !(e.ariaLabel || e.textContent.trim() || (e.labels && e.labels.length))).length"""
    assert browser.run(nameless) == 0
    assert browser.run("document.querySelectorAll('#shares th[scope=row]').length") == 2


@needs_browser
@pytest.mark.parametrize("recording", [
    Recording(), Recording([], ["cpu:0"]), lenet(1, 1),
    Recording([Event(0, 1, "load", "", 5, 5)], ["cpu:0", "cpu:1"]),
    Recording([Event(0, 1, "forward", EVIL, 0, 9)], ["cpu:0"], {"model": EVIL}),
    Recording([Event(0, 1, "unheard of", "x", 0, 9)], ["emu:0"]),
], ids=["nothing", "no events", "one replica", "no time", "evil", "unknown kind"])  # fmt: skip
def test_odd_recordings_are_shown_without_complaint(opened, recording):
    browser = opened(recording)
    assert browser.run("document.title").startswith("Timeline: ")
    if not recording.events:
        assert text(browser, "#said") == "Nothing was recorded."


@needs_browser
def test_sixteen_replicas_and_many_steps_stay_fluid(opened):
    """50,000 events, all of them in view. A frame may take 0.4 s on a busy machine without a GPU;
    it takes 0.05 s on an idle one."""
    recording = lenet(16, 80)
    assert len(recording.events) > 49_000
    browser = opened(recording)
    milliseconds = browser.run("""(async () => {
      const lanes = document.getElementById('lanes'), times = [];
      document.getElementById('all').click();
      for (let i = 0; i < 9; i++) {
        const begin = performance.now();
        lanes.dispatchEvent(new KeyboardEvent('keydown', { key: i % 2 ? '-' : '+' }));
        await new Promise(requestAnimationFrame);
        await new Promise(requestAnimationFrame);
        times.push(performance.now() - begin);
      }
      return times.sort((a, b) => a - b)[4];
    })()""")
    assert milliseconds < 400
