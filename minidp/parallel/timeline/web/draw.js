// Drawing. Positions are CSS pixels; a canvas has as many pixels as the screen has there.
const ROW = 19, STRIP = 7, TOP = 8, GAP = 8, CHARACTER = 6.7;
const view = { began: 0, ended: 1, step: null, lane: 0, event: null };
const show = { path: true, exposed: true };
const lanesCanvas = document.getElementById("lanes");
const rulerCanvas = document.getElementById("ruler");
let gutter = 132, colours = {}, hatches = {};

function readColours() {
  const style = getComputedStyle(document.documentElement);
  colours = {};
  for (const sheet of document.styleSheets) {
    for (const rule of sheet.cssRules) {
      if (rule.selectorText !== ":root") continue;
      for (const name of rule.style) {
        if (name.startsWith("--")) colours[name] = style.getPropertyValue(name).trim();
      }
    }
  }
  hatches = {};
}

// A pattern of slanted lines, so that waiting and exposure are told apart without colour too.
function hatch(pen, name) {
  if (!hatches[name]) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const ink = tile.getContext("2d");
    ink.strokeStyle = colours[name];
    ink.lineWidth = 2;
    for (const x of [-6, 0, 6]) { ink.moveTo(x - 1, 7); ink.lineTo(x + 7, -1); }
    ink.stroke();
    hatches[name] = pen.createPattern(tile, "repeat");
  }
  return hatches[name];
}

function prepare(canvas, height) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  canvas.style.height = `${height}px`;
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.textBaseline = "middle";
  pen.font = `11px ${colours["--mono"]}`;
  return pen;
}

// The top of each lane and of each of its rows.
function layOut() {
  let y = 0;
  for (const lane of lanes) {
    lane.top = y;
    y += TOP;
    for (const row of lane.rows) { row.top = y; y += ROW; }
    lane.strip = y + 2;
    y += STRIP + GAP;
    lane.bottom = y = Math.max(y, lane.top + 3 * ROW);
  }
  return y;
}

const plotWidth = () => Math.max(1, lanesCanvas.clientWidth - gutter - 8);
const toX = (at) => gutter + (at - view.began) / (view.ended - view.began) * plotWidth();
const toTime = (x) => view.began + (x - gutter) / plotWidth() * (view.ended - view.began);

function draw() {
  const width = lanesCanvas.clientWidth;
  gutter = width < 600 ? 74 : 132;
  const height = layOut();
  const pen = prepare(lanesCanvas, height);
  const steady = steps.find((step) => step.number === view.step);
  pen.save();
  pen.beginPath();
  pen.rect(gutter, 0, width - gutter, height);
  pen.clip();
  if (steady) shadeOutside(pen, steady, height, width);
  if (show.path) drawPathGround(pen);
  for (const lane of lanes) drawLane(pen, lane);
  if (show.path) drawPath(pen);
  drawStepLines(pen, height);
  drawChosen(pen);
  pen.restore();
  for (const lane of lanes) drawGutter(pen, lane, width);
  drawRuler();
}

function shadeOutside(pen, step, height, width) {
  pen.fillStyle = colours["--panel"];
  const [left, right] = [toX(step.began), toX(step.ended)];
  if (left > gutter) pen.fillRect(gutter, 0, left - gutter, height);
  if (right < width) pen.fillRect(right, 0, width - right, height);
}

function drawLane(pen, lane) {
  for (const row of lane.rows) drawRow(pen, row);
  drawReady(pen, lane);
  if (show.exposed) drawExposed(pen, lane);
}

// Bars narrower than a pixel that follow one another within it are drawn once.
function drawRow(pen, row) {
  const scale = plotWidth() / (view.ended - view.began), most = gutter + plotWidth() + 12;
  let drawn = -1;
  for (let k = firstAfter(row.events, view.began, endOfEvent); k < row.events.length; k++) {
    const i = row.events[k], began = columns.began[i];
    if (began > view.ended) break;
    const right = gutter + (began + columns.length[i] - view.began) * scale;
    if (right < drawn + 1) continue;
    const left = Math.max(gutter + (began - view.began) * scale, gutter - 2);
    drawn = Math.min(Math.max(right, left + 0.7), most);
    if (right - left > 3) drawBar(pen, eventAt(i), left, drawn, row.top);
    else drawThin(pen, i, left, drawn, row.top);
  }
}

function drawThin(pen, i, left, right, top) {
  pen.globalAlpha = names[columns.name[i]] === "" ? 0.45 : 1;
  pen.fillStyle = colours[colourOf({ kind: kinds[columns.kind[i]], name: names[columns.name[i]] })];
  pen.fillRect(left, top + 1, right - left, ROW - 3);
  pen.globalAlpha = 1;
}

function drawBar(pen, event, left, right, top) {
  const width = Math.max(right - left - (right - left > 3 ? 1 : 0), 0.7);
  const waiting = bandOf[event.kind] === "waiting";
  const colour = colours[colourOf(event)] || colours["--forward"];
  pen.globalAlpha = event.name === "" && !waiting ? 0.45 : waiting ? 0.28 : 1;
  pen.fillStyle = colour;
  pen.fillRect(left, top + 1, width, ROW - 3);
  pen.globalAlpha = 1;
  if (event.kind === "wait" && width > 2) {
    pen.fillStyle = hatch(pen, "--wait");
    pen.fillRect(left, top + 1, width, ROW - 3);
  }
  const room = Math.floor((width - 6) / CHARACTER);
  if (room < 1) return;
  const text = label(event, room);
  if (!text) return;
  if (waiting) {
    pen.fillStyle = colours["--paper"];
    pen.globalAlpha = 0.75;
    pen.fillRect(left + 2, top + 2, text.length * CHARACTER + 4, ROW - 5);
    pen.globalAlpha = 1;
  }
  pen.fillStyle = event.name === "" || waiting ? colours["--ink"] : colours["--on-bar"];
  pen.fillText(text, left + 4, top + ROW / 2);
}

function label(event, room) {
  const name = event.name || event.kind;
  const long = event.kind === "update" || event.kind === "load" || event.kind === "wait"
    ? `${event.kind} ${event.name}`.trim() : event.detail ? `${name} ${event.detail}` : name;
  const text = long.length <= room ? long : name;
  if (text.length <= room) return text;
  return room >= 3 ? `${text.slice(0, room - 1)}…` : "";
}

function drawGutter(pen, lane, width) {
  pen.fillStyle = colours["--line"];
  pen.fillRect(0, lane.bottom - 1, width, 1);
  pen.fillRect(gutter - 1, lane.top, 1, lane.bottom - lane.top);
  const narrow = gutter < 100;
  if (lane.replica === view.lane && document.activeElement === lanesCanvas) {
    pen.fillStyle = colours["--focus"];
    pen.fillRect(0, lane.top, 3, lane.bottom - lane.top);
  }
  pen.fillStyle = colours["--ink"];
  pen.font = `bold 12px ${colours["--mono"]}`;
  pen.fillText(narrow ? `${lane.replica}` : `replica ${lane.replica}`, 8, lane.top + TOP + ROW / 2);
  pen.font = `11px ${colours["--mono"]}`;
  pen.fillStyle = colours["--faint"];
  pen.fillText(lane.device, 8, lane.top + TOP + ROW * 1.5);
  if (narrow) return;
  pen.textAlign = "right";
  for (const band of ["buckets", "waiting"]) {
    const row = lane.rows.find((each) => each.band === band);
    if (row && row.top > lane.top + 2 * ROW) pen.fillText(band, gutter - 8, row.top + ROW / 2);
  }
  pen.textAlign = "left";
}

// Times count from the beginning of the chosen step, or of the recording.
function drawRuler() {
  const pen = prepare(rulerCanvas, 24);
  const chosen = steps.find((step) => step.number === view.step);
  const zero = chosen ? chosen.began : 0;
  const about = (view.ended - view.began) / Math.max(2, plotWidth() / 110);
  const power = 10 ** Math.floor(Math.log10(about));
  const tick = power * [1, 2, 5, 10].find((factor) => factor * power >= about);
  pen.fillStyle = colours["--faint"];
  pen.fillText(chosen ? `step ${chosen.number}` : "all steps", 8, 12);
  for (let n = Math.ceil((view.began - zero) / tick); zero + n * tick <= view.ended; n++) {
    const x = toX(zero + n * tick);
    if (x < gutter - 1) continue;
    const text = n === 0 ? "0" : time(n * tick, 6);
    pen.fillRect(x, 17, 1, 7);
    if (x + 4 + text.length * CHARACTER < rulerCanvas.clientWidth) pen.fillText(text, x + 4, 12);
  }
}
