// What stands around the timeline: numbers, tables, legend, hints, the overview of all steps.
const GROUPS = {
  compute: "--forward", data: "--load", reduce: "--reduce", wait: "--exposed", stall: "--stall",
  other: "--other",
};
const byId = (id) => document.getElementById(id);

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function describe(event) {
  const what = `${event.kind} ${event.name}`.trim();
  const lasts = event.kind === "ready" ? "" : `, ${time(event.ended - event.began)}`;
  return `${what}${lasts}, step ${event.step}, replica ${event.replica}`;
}
function say(text) { byId("said").textContent = text; }

function point(input) {
  const found = hit(input.offsetX, input.offsetY);
  if (found === null) {
    hideTip();
    return;
  }
  const event = eventAt(found), tip = byId("tip");
  const step = steps.find((each) => each.number === event.step);
  const lasts = event.ended - event.began;
  const rows = [["replica", `${event.replica} on ${devices[event.replica]}`], ["step", event.step],
    ["begins at", time(event.began - step.began)]];
  if (event.kind !== "ready") {
    const share = lasts / (step.ended - step.began || 1);
    rows.push(["lasts", time(lasts)], ["of the step", percent(share)]);
  }
  if (event.size) rows.push(["size", bytes(event.size)]);
  if (event.detail) rows.push(["detail", event.detail]);
  const list = element("dl");
  for (const [term, value] of rows) {
    list.append(element("dt", {}, term), element("dd", {}, `${value}`));
  }
  tip.replaceChildren(element("b", {}, `${event.kind} ${event.name}`.trim()), list);
  tip.hidden = false;
  placeTip(tip, input);
}

function placeTip(tip, input) {
  const { clientWidth: width, clientHeight: height } = byId("frame");
  const left = Math.min(input.offsetX + 14, width - tip.offsetWidth - 6);
  const below = input.offsetY + rulerCanvas.clientHeight + 16;
  const above = below - tip.offsetHeight - 30;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${below + tip.offsetHeight > height && above > 0 ? above : below}px`;
}
function hideTip() { byId("tip").hidden = true; }

function table(id, head, rows) {
  const cells = (tag, row) => row.map((cell, i) => {
    const kind = i === 0 ? { class: "name", ...(tag === "td" && { scope: "row" }) } : {};
    const made = element(i === 0 ? "th" : tag, kind);
    if (cell instanceof Node) made.append(cell); else made.textContent = cell;
    if (cell instanceof HTMLDivElement) made.className = "share";
    return made;
  });
  byId(id).replaceChildren(
    element("thead", {}, element("tr", {}, ...cells("th", head))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cells("td", row)))),
  );
}

function stack(parts, total) {
  const bar = element("div", { class: "stack", role: "img" });
  const told = [];
  for (const [name, value, colour] of parts) {
    if (!value) continue;
    const part = element("i", { title: `${name} ${percent(value / total)}` });
    part.style.cssText = `width:${100 * value / total}%;background:var(${colour})`;
    bar.append(part);
    told.push(`${name} ${percent(value / total)}`);
  }
  bar.setAttribute("aria-label", told.join(", "));
  return bar;
}

// Adds up what `pick` gives of each, by name.
function sums(items, pick) {
  const found = new Map();
  for (const item of items) {
    for (const [name, value] of pick(item)) found.set(name, (found.get(name) || 0) + value);
  }
  return [...found].sort((a, b) => b[1] - a[1]);
}

function showPanels() {
  const chosen = steps.filter((step) => view.step === null || step.number === view.step);
  showShares(chosen);
  showPathTable(chosen);
  showWaits(chosen);
  byId("step").value = view.step === null ? "" : view.step;
  byId("all").setAttribute("aria-pressed", view.step === null);
  const at = steps.findIndex((step) => step.number === view.step);
  byId("earlier").disabled = at === 0;
  byId("later").disabled = at === steps.length - 1;
}

function showShares(chosen) {
  const rows = devices.map((device, replica) => {
    const own = chosen.flatMap((step) => step.lanes.filter((lane) => lane.replica === replica));
    const times = new Map(sums(own, (lane) => Object.entries(lane.time)));
    const span = own.reduce((sum, lane) => sum + lane.span, 0) || 1;
    const exposed = own.reduce((sum, lane) => sum + lane.uncovered, 0);
    const hidden = own.reduce((sum, lane) => sum + lane.communication - lane.uncovered, 0);
    const parts = Object.entries(GROUPS).map(
      ([name, colour]) => [name, times.get(name) || 0, colour]);
    const last = chosen.filter((step) => step.straggler === replica).length;
    const lastIn = chosen.length > 1 ? `${last} of ${chosen.length}` : last ? "yes" : "no";
    return [`${replica} · ${device}`, stack(parts, span), percent(parts[0][1] / span),
      ...parts.map(([, value]) => value ? time(value) : "–"), time(exposed), time(hidden),
      devices.length < 2 ? "–" : lastIn];
  });
  const heads = Object.entries(GROUPS).map(([name, colour]) => {
    const swatch = element("i", { style: `background:var(${colour})` });
    return element("span", {}, swatch, name);
  });
  table("shares", ["replica", "", "busy", ...heads, "exposed", "hidden", "last in"], rows);
}

function showPathTable(chosen) {
  const parts = chosen.flatMap((step) => step.path);
  const total = parts.reduce((sum, part) => sum + part[4] - part[3], 0) || 1;
  const found = sums(parts, ([, kind, name, began, ended]) =>
    [[`${kind} ${name}`.trim(), ended - began]]);
  const rows = found.slice(0, 10).map(([name, value]) => {
    const colour = colourOf({ kind: name.split(" ")[0], name });
    return [name, stack([[name, value, colour]], total), time(value), percent(value / total)];
  });
  table("path", ["state", "", "time", "share"], rows);
}

function showWaits(chosen) {
  const found = sums(chosen.flatMap((step) => step.lanes), (lane) => Object.entries(lane.waits));
  const most = found.length ? found[0][1] : 1;
  const rows = found.slice(0, 10).map(([name, value]) =>
    [name || "others", stack([[name, value, "--exposed"]], most), time(value)]);
  table("waits", ["for", "", "all replicas"], rows.length ? rows : [["nothing", "", "–"]]);
}

function showHead() {
  const about = Object.entries(recording.meta).map(([name, value]) => `${name} ${value}`);
  byId("about").textContent = about.join(" · ");
  for (const [name, value] of Object.entries(numbers())) {
    const pair = [element("dt", {}, name), element("dd", {}, `${value}`)];
    byId("numbers").append(element("div", {}, ...pair));
  }
  const select = byId("step");
  select.append(element("option", { value: "" }, "all"));
  for (const { number } of steps) select.append(element("option", { value: number }, `${number}`));
  select.addEventListener("change", () => {
    choose(select.value === "" ? null : Number(select.value));
  });
}

function numbers() {
  const { busy, exposed, hidden, reduced } = totals, seconds = totals.seconds || 1;
  const lengths = steps.map((step) => step.ended - step.began).sort((a, b) => a - b);
  return {
    replicas: devices.length, steps: steps.length,
    "median step": lengths.length ? time(lengths[lengths.length >> 1]) : "–",
    busy: percent(busy.reduce((sum, share) => sum + share, 0) / (busy.length || 1)),
    "exposed communication": percent(exposed / seconds),
    "hidden communication": percent(hidden / seconds),
    "reduced per step": bytes(steps.length ? reduced / steps.length : 0),
  };
}
