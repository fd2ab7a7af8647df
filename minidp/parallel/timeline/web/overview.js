// The strip above the timeline: a bar per step, as high as the step is long, but a bar of more than
// CUT medians is cut, else one slow step hides what the others are like; then the start.
const CUT = 4;
const overview = document.getElementById("overview");

const widthOfStep = () => Math.min(overview.clientWidth / Math.max(steps.length, 1), 60);

function drawOverview() {
  const pen = prepare(overview, 44);
  const spans = steps.map((step) => step.ended - step.began).sort((a, b) => a - b);
  const full = Math.max(1, Math.min(spans.at(-1) ?? 1, CUT * spans[spans.length >> 1]));
  const each = widthOfStep();
  steps.forEach((step, i) => {
    const length = (step.ended - step.began) / full, height = 40 * Math.min(1, length);
    const left = i * each, wide = Math.max(each - (each > 3 ? 1 : 0), 0.7);
    const share = step.lanes.reduce((sum, lane) => sum + lane.uncovered / (lane.span || 1), 0)
      / Math.max(step.lanes.length, 1);
    pen.globalAlpha = view.step === null || view.step === step.number ? 1 : 0.45;
    pen.fillStyle = colours["--forward"];
    pen.fillRect(left, 43 - height, wide, height);
    pen.fillStyle = colours["--exposed"];
    pen.fillRect(left, 43 - height, wide, height * share);
    if (length > 1) pen.clearRect(left, 10, wide, 2);
    if (view.step === step.number) {
      pen.fillStyle = colours["--ink"];
      pen.fillRect(left, 42, wide, 2);
    }
  });
  pen.globalAlpha = 1;
}

function listenToOverview() {
  const stepAt = (x) => steps[Math.floor(x / widthOfStep())];
  overview.addEventListener("click", (input) => {
    const step = stepAt(input.offsetX);
    if (step) choose(step.number);
  });
  overview.addEventListener("pointermove", (input) => {
    const step = stepAt(input.offsetX);
    overview.title = step ? `step ${step.number}: ${time(step.ended - step.began)}` : "";
  });
}

// A bar of each sort, drawn as in the timeline.
function showLegend() {
  const items = [
    ["forward", "--forward"], ["backward", "--backward"], ["replay", "--replay"],
    ["update", "--update"], ["load", "--load"], ["copy", "--copy"], ["bucket ready", "ready"],
    ["bucket reduced", "--reduce"], ["wait for others", "wait"], ["stall", "--stall"],
    ["exposed communication", "--exposed"], ["critical path", "path"],
  ];
  const list = document.getElementById("legend");
  list.replaceChildren();
  for (const [name, sort] of items) {
    const canvas = element("canvas", { "aria-hidden": "true" });
    list.append(element("li", {}, canvas, name));
    drawSample(prepare(canvas, 12), sort);
  }
}
function drawSample(pen, sort) {
  pen.fillStyle = sort === "wait" ? hatch(pen, "--wait") : colours[sort] || colours["--ink"];
  if (sort === "ready") {
    pen.fillStyle = colours["--bucket-0"];
    pen.beginPath();
    pen.moveTo(11, 11); pen.lineTo(5, 1); pen.lineTo(17, 1);
    pen.fill();
  } else if (sort === "path") pen.fillRect(0, 5, 22, 3);
  else if (sort === "--exposed") pen.fillRect(0, 4, 22, 5);
  else pen.fillRect(0, 0, 22, 12);
}

readColours();
showHead();
showLegend();
if (steps.length) {
  listen();
  listenToOverview();
  choose(steps[steps.length >> 1].number);
} else say("Nothing was recorded.");
