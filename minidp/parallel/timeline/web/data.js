// The recording as it stands in the page, made into lanes of rows that can be searched.
const recording = JSON.parse(document.getElementById("recording").textContent);
const { devices, kinds, names, details, steps, totals } = recording;
const columns = recording.events;
const count = columns.began.length;
const whole = { began: 0, ended: Math.max(1, ...steps.map((step) => step.ended)) };

const BANDS = {
  compute: ["forward", "backward", "replay", "update", "commit", "copy"],
  buckets: ["ready", "reduce"],
  waiting: ["wait", "load", "stall"],
};
const bandOf = {};
for (const [band, members] of Object.entries(BANDS)) {
  for (const kind of members) bandOf[kind] = band;
}

function eventAt(index) {
  return {
    index, replica: columns.replica[index], step: columns.step[index],
    kind: kinds[columns.kind[index]], name: names[columns.name[index]],
    began: columns.began[index], ended: columns.began[index] + columns.length[index],
    size: columns.size[index], detail: details[columns.detail[index]], depth: columns.depth[index],
  };
}

// Per replica: its rows from top to bottom, each with its events in order of time, not overlapping.
function makeLanes() {
  const lanes = devices.map((device, replica) => ({ replica, device, bands: {}, events: [] }));
  for (let i = 0; i < count; i++) {
    const lane = lanes[columns.replica[i]];
    const kind = kinds[columns.kind[i]];
    const rows = (lane.bands[bandOf[kind] || "compute"] ||= []);
    const row = kind === "ready" ? (lane.ready ||= []) : (rows[columns.depth[i]] ||= []);
    row.push(i);
    lane.events.push(i);
  }
  for (const lane of lanes) {
    lane.ready ||= [];
    lane.rows = Object.keys(BANDS).flatMap((band) => {
      const rows = lane.bands[band] || [];
      if (band === "buckets" && lane.ready.length && !rows.length) rows.push([]);
      return Array.from(rows, (events, depth) => ({ band, depth, events: events || [] }));
    });
    lane.exposed = steps.flatMap((step) =>
      step.lanes.filter((each) => each.replica === lane.replica).flatMap((each) => each.exposed));
  }
  return lanes;
}
const lanes = makeLanes();

// The critical path of each step, as runs on one replica that are all work or all waiting.
function makeRuns() {
  const runs = [];
  for (const step of steps) {
    let last = null;
    for (const [replica, state, , began, ended] of step.path) {
      const kind = state === "wait" ? "wait" : "work";
      if (last && last.replica === replica && last.kind === kind) { last.ended = ended; continue; }
      last = { replica, kind, began, ended, before: last && last.replica };
      runs.push(last);
    }
  }
  return runs;
}
const pathRuns = makeRuns();

// The index in an ascending list of the first element whose end lies after `time`.
function firstAfter(list, time, endOf) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (endOf(list[middle]) > time) high = middle; else low = middle + 1;
  }
  return low;
}
const endOfEvent = (i) => columns.began[i] + columns.length[i];

function bucketColour(name) {
  const number = /(\d+)$/.exec(name);
  return number ? `--bucket-${Number(number[1]) % 3}` : "--reduce";
}
function colourOf(event) {
  if (event.kind === "ready" || event.kind === "reduce") return bucketColour(event.name);
  return `--${event.kind}`;
}

function time(nanoseconds, digits = 3) {
  const size = Math.abs(nanoseconds);
  const [scale, unit] = size < 1e3 ? [1, "ns"] : size < 1e6 ? [1e3, "µs"]
    : size < 1e9 ? [1e6, "ms"] : [1e9, "s"];
  return `${Number((nanoseconds / scale).toPrecision(digits))} ${unit}`;
}
function bytes(size) {
  const [scale, unit] = size < 1024 ? [1, "B"] : size < 2 ** 20 ? [1024, "KiB"] : [2 ** 20, "MiB"];
  return `${Number((size / scale).toPrecision(3))} ${unit}`;
}
const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
