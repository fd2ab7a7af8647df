// What is drawn over and behind the bars: ready buckets, exposure, the critical path, the choice.
function drawReady(pen, lane) {
  const row = lane.rows.find((each) => each.band === "buckets");
  if (!row) return;
  let drawn = -1;
  for (let k = firstAfter(lane.ready, view.began - 1, endOfEvent); k < lane.ready.length; k++) {
    const event = eventAt(lane.ready[k]);
    if (event.began > view.ended) break;
    const x = toX(event.began);
    if (x < drawn + 1) continue;
    drawn = x;
    pen.beginPath();
    pen.moveTo(x, row.top + ROW - 2);
    pen.lineTo(x - 5, row.top + 3);
    pen.lineTo(x + 5, row.top + 3);
    pen.closePath();
    pen.fillStyle = colours[bucketColour(event.name)];
    pen.strokeStyle = colours["--paper"];
    pen.fill();
    pen.stroke();
  }
}

function drawExposed(pen, lane) {
  const endOf = (interval) => interval[1];
  let drawn = -1;
  for (let k = firstAfter(lane.exposed, view.began, endOf); k < lane.exposed.length; k++) {
    const [began, ended] = lane.exposed[k];
    if (began > view.ended) break;
    const left = Math.max(toX(began), gutter - 2), right = Math.min(toX(ended), 1e5);
    if (right < drawn + 0.5) continue;
    drawn = Math.max(right, left + 0.7);
    pen.fillStyle = colours["--exposed"];
    pen.fillRect(left, lane.strip, drawn - left, STRIP - 2);
  }
}

// The lane behind the path is tinted, so that its bars can be found from afar.
function drawPathGround(pen) {
  pen.fillStyle = colours["--ink"];
  pen.globalAlpha = 0.08;
  for (const { replica, began, ended } of visiblePath()) {
    const lane = lanes[replica], left = toX(began);
    pen.fillRect(left, lane.top + 1, toX(ended) - left, lane.bottom - lane.top - 2);
  }
  pen.globalAlpha = 1;
}

function drawPath(pen) {
  const roomy = plotWidth() * whole.ended > 24 * steps.length * (view.ended - view.began);
  pen.fillStyle = colours["--ink"];
  for (const { replica, kind, began, ended, before } of visiblePath()) {
    const y = lanes[replica].top + 2.5, left = toX(began), right = toX(ended);
    if (kind !== "wait") pen.fillRect(left, y, Math.max(right - left, 0.7), 3);
    else for (let x = Math.max(left, 0); x < Math.min(right, 1e4); x += 6) pen.fillRect(x, y, 3, 3);
    if (before === null || before === replica || !roomy) continue;
    const from = lanes[before].top + 2.5;
    pen.fillRect(left - 0.75, Math.min(from, y), 1.5, Math.abs(y - from) + 3);
  }
}

function visiblePath() {
  return pathRuns.filter((run) => run.ended >= view.began && run.began <= view.ended);
}

function drawStepLines(pen, height) {
  pen.fillStyle = colours["--faint"];
  let drawn = -9;
  for (const step of steps) {
    const x = Math.round(toX(step.began));
    if (x < gutter || x < drawn + 10) continue;
    drawn = x;
    pen.globalAlpha = 0.45;
    pen.fillRect(x, 0, 1, height);
  }
  pen.globalAlpha = 1;
}

function drawChosen(pen) {
  if (view.event === null) return;
  const event = eventAt(view.event), top = topOf(event);
  const left = toX(event.began), right = Math.max(toX(event.ended), left + 3);
  pen.strokeStyle = colours["--focus"];
  pen.lineWidth = 2;
  pen.strokeRect(left - 1, top, right - left + 2, ROW - 1);
  pen.lineWidth = 1;
}

function topOf(event) {
  const lane = lanes[event.replica];
  const band = bandOf[event.kind] || "compute";
  const depth = event.kind === "ready" ? 0 : event.depth;
  return lane.rows.find((row) => row.band === band && row.depth === depth).top;
}
