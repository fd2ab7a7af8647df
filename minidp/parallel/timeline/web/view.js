// Moving about: mouse, wheel, touch, keyboard, and the buttons.
const SHORTEST = 200; // nanoseconds across the page
let waitingFrame = 0;

function redraw() {
  if (waitingFrame) return;
  waitingFrame = requestAnimationFrame(() => { waitingFrame = 0; draw(); drawOverview(); });
}

function look(began, ended) {
  const room = 0.04 * whole.ended + 0.04 * (ended - began);
  const length = Math.min(Math.max(ended - began, SHORTEST), whole.ended + 2 * room);
  const start = Math.min(Math.max(began, whole.began - room), whole.ended + room - length);
  view.began = start;
  view.ended = start + length;
  redraw();
}

function zoom(factor, around = (view.began + view.ended) / 2) {
  look(around - (around - view.began) * factor, around + (view.ended - around) * factor);
}
function pan(pixels) {
  const step = pixels / plotWidth() * (view.ended - view.began);
  look(view.began + step, view.ended + step);
}
function fit() {
  const chosen = steps.find((step) => step.number === view.step);
  const { began, ended } = chosen || whole;
  const margin = 0.015 * (ended - began);
  look(began - margin, ended + margin);
}

function choose(number) {
  view.step = number;
  view.event = null;
  fit();
  showPanels();
}
function otherStep(by) {
  const at = steps.findIndex((step) => step.number === view.step);
  const next = at < 0 ? (by > 0 ? 0 : steps.length - 1) : at + by;
  if (steps[next]) choose(steps[next].number);
}

// The event under a point of the canvas, or null.
function hit(x, y) {
  if (x < gutter) return null;
  const lane = lanes.find((each) => y >= each.top && y < each.bottom);
  const row = lane && lane.rows.find((each) => y >= each.top && y < each.top + ROW);
  if (!row) return null;
  if (row.band === "buckets") {
    const near = firstAfter(lane.ready, toTime(x - 6), endOfEvent);
    const mark = lane.ready[near];
    if (mark !== undefined && toX(columns.began[mark]) < x + 6) return mark;
  }
  const slack = toTime(x + 1) - toTime(x);
  const found = row.events[firstAfter(row.events, toTime(x) - slack, endOfEvent)];
  return found !== undefined && columns.began[found] <= toTime(x) + slack ? found : null;
}

function zoomTo(index) {
  const { began, ended } = eventAt(index);
  const margin = Math.max(0.3 * (ended - began), 500);
  look(began - margin, ended + margin);
}

// To the event before or after the chosen one in the lane; the first visible one to begin with.
function walk(by) {
  const list = lanes[view.lane].events;
  let at = view.event === null ? -1 : list.indexOf(view.event);
  const chosen = steps.find((step) => step.number === view.step);
  const start = Math.max(view.began, chosen ? chosen.began : whole.began);
  at = at < 0 ? firstAfter(list, start - 0.5, (i) => columns.began[i]) : at + by;
  if (list[at] === undefined) return;
  view.event = list[at];
  const event = eventAt(view.event);
  if (event.ended > view.ended || event.began < view.began) {
    const half = (view.ended - view.began) / 2;
    look(event.began - half, event.began + half);
  }
  say(describe(event));
  redraw();
}

const keys = {
  ArrowLeft: () => pan(-80), ArrowRight: () => pan(80),
  "+": () => zoom(0.7), "=": () => zoom(0.7), "-": () => zoom(1 / 0.7),
  ArrowUp: () => changeLane(-1), ArrowDown: () => changeLane(1),
  ".": () => walk(1), ",": () => walk(-1),
  Enter: () => view.event !== null && zoomTo(view.event),
  0: fit, Home: fit, n: () => otherStep(1), p: () => otherStep(-1), a: () => choose(null),
  Escape: () => { view.event = null; say(""); redraw(); },
};
function changeLane(by) {
  view.lane = Math.min(Math.max(view.lane + by, 0), lanes.length - 1);
  view.event = null;
  say(`replica ${view.lane} on ${lanes[view.lane].device}`);
  redraw();
}

function listen() {
  lanesCanvas.addEventListener("keydown", (input) => {
    if (!keys[input.key] || input.ctrlKey || input.metaKey || input.altKey) return;
    input.preventDefault();
    hideTip();
    keys[input.key]();
  });
  for (const name of ["focus", "blur"]) lanesCanvas.addEventListener(name, redraw);
  lanesCanvas.addEventListener("wheel", (input) => {
    const sideways = input.shiftKey && !input.deltaX ? input.deltaY : input.deltaX;
    if (input.ctrlKey || input.metaKey) {
      zoom(Math.exp(Math.min(Math.max(input.deltaY, -60), 60) * 0.006), toTime(input.offsetX));
    } else if (Math.abs(sideways) > Math.abs(input.shiftKey ? 0 : input.deltaY)) pan(sideways);
    else return;
    input.preventDefault();
  }, { passive: false });
  lanesCanvas.addEventListener("dblclick", (input) => {
    const found = hit(input.offsetX, input.offsetY);
    if (found !== null) zoomTo(found); else zoom(0.4, toTime(input.offsetX));
  });
  listenToPointers();
  const press = (id, action) => document.getElementById(id).addEventListener("click", action);
  press("in", () => zoom(0.6));
  press("out", () => zoom(1 / 0.6));
  press("fit", fit);
  press("all", () => choose(null));
  press("earlier", () => otherStep(-1));
  press("later", () => otherStep(1));
  for (const name of ["path", "exposed"]) {
    document.getElementById(`show-${name}`).addEventListener("change", (input) => {
      show[name] = input.target.checked;
      redraw();
    });
  }
  new ResizeObserver(redraw).observe(lanesCanvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readColours();
    redraw();
    showPanels();
  });
}

// One pointer pans and points, two zoom.
function listenToPointers() {
  const down = new Map();
  let moved = 0;
  const middle = () => [...down.values()].reduce((sum, x) => sum + x, 0) / down.size;
  const spread = () => { const [a, b] = [...down.values()]; return Math.max(Math.abs(a - b), 10); };
  lanesCanvas.addEventListener("pointerdown", (input) => {
    down.set(input.pointerId, input.offsetX);
    lanesCanvas.setPointerCapture(input.pointerId);
    lanesCanvas.classList.add("dragging");
    moved = 0;
  });
  lanesCanvas.addEventListener("pointermove", (input) => {
    if (!down.has(input.pointerId)) {
      point(input);
      return;
    }
    const [before, wide] = [middle(), down.size === 2 ? spread() : 0];
    down.set(input.pointerId, input.offsetX);
    moved += Math.abs(middle() - before);
    if (moved > 3 || wide) hideTip();
    pan(before - middle());
    if (wide) zoom(wide / spread(), toTime(middle()));
  });
  const release = (input) => {
    down.delete(input.pointerId);
    lanesCanvas.classList.toggle("dragging", down.size > 0);
    if (input.type === "pointerup" && moved <= 3) pick(input);
  };
  lanesCanvas.addEventListener("pointerup", release);
  lanesCanvas.addEventListener("pointercancel", release);
  lanesCanvas.addEventListener("pointerleave", hideTip);
}

function pick(input) {
  view.event = hit(input.offsetX, input.offsetY);
  const lane = lanes.find((each) => input.offsetY >= each.top && input.offsetY < each.bottom);
  if (lane) view.lane = lane.replica;
  say(view.event === null ? "" : describe(eventAt(view.event)));
  if (input.pointerType === "touch") point(input);
  redraw();
}
