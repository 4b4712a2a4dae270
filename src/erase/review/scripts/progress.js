// How far the review is: counts, the estimate with its interval, the learning curve.

const POLL = 3000; // milliseconds between looks at the server's state
const [WIDE, HIGH] = [340, 190]; // of a chart
const [LEFT, RIGHT, TOP, BOTTOM] = [46, 14, 12, 26]; // its margins

async function poll() {
  try {
    const state = await ask("/api/state");
    const { audits, may_stop: mayStop } = review.progress;
    Object.assign(review, state);
    if (audits !== review.progress.audits) audited();
    else if (!current && !byId("name").open) fill(); // labels of somebody who left may be free
    showCounts();
    if (!mayStop && review.progress.may_stop) announce(stopWords());
    if (!byId("view-results").hidden) showResults();
  } catch {
    // the outbox says that the server does not answer
  }
}

// The labels that wait were chosen by the audit before: all but the next few are asked for again.
function audited() {
  waiting.splice(2);
  fill(true);
}

function showCounts() {
  const { reviewed, changed, budget, per_minute: pace, disagreements, may_stop: mayStop } = review.progress;
  byId("bar").max = budget;
  byId("bar").value = Math.min(reviewed, budget);
  byId("counts").textContent = `${reviewed} of ${budget} reviewed, ${changed} changed`
    + (pace ? `, ${pace} per minute` : "") + (mayStop ? ". You may stop." : "");
  byId("estimate").textContent = estimateWords();
  byId("disputed-count").textContent = disagreements ? `(${disagreements})` : "";
}

function estimateWords() {
  const { wrong, left, changed, basis, is_auditing: running } = review.progress;
  const interval = `90% interval ${tenth(wrong.low)} to ${tenth(wrong.high)}`;
  const about = Math.round(left.value).toLocaleString("en");
  const words = {
    random: `${tenth(wrong.value)} wrong, ${interval}; ${changed} found, about ${about} left`,
    audit: `${tenth(wrong.value)} wrong by the audit, ${interval}; ${changed} found, about ${about} left`,
    least: `At least ${tenth(wrong.value)} wrong by the audit, ${interval}; ${changed} found`,
    nothing: `${changed} found; how many are wrong is not known yet`,
  };
  return words[basis] + (running ? "; auditing again …" : "");
}

function tenth(share) {
  return `${(100 * share).toFixed(1)}%`;
}

function showResults() {
  const { progress } = review;
  byId("stop").textContent = stopWords();
  const people = Object.entries(progress.by_reviewer)
    .map(([by, labels]) => `${by || "no name"} ${labels}`).join(", ") || "nobody yet";
  const rows = {
    "Given labels": progress.labels.toLocaleString("en"),
    Reviewed: `${progress.reviewed} (${people})`,
    "Drawn at random": `${progress.random}, of which ${progress.random_wrong} wrong`,
    Changed: progress.changed,
    Disagreements: progress.disagreements,
    [progress.basis === "random" ? "Wrong, by the random labels" : "Wrong, by the audit"]: inBasis(progress.wrong, tenth),
    "Errors left": inBasis(progress.left, (count) => Math.round(count).toLocaleString("en")),
    "Audits since the start": progress.audits
      + (progress.audit_failed ? `; the last one failed: ${progress.audit_failed}` : ""),
  };
  byId("numbers").replaceChildren(...Object.entries(rows).flatMap(([name, value]) =>
    [el("dt", {}, name), el("dd", {}, String(value))]));
  const now = { ...progress.wrong, decisions: progress.reviewed, found: progress.changed };
  const points = [...review.curve, now];
  byId("curve").replaceChildren(
    chart("Errors found", points, ({ found }) => ({ value: found }),
      Math.max(...points.map(({ found }) => found), 4), String),
    chart("Share of wrong labels, 90% interval", points, (point) => point,
      Math.max(...points.map(({ high }) => high), 0.01), (share) => (share < 0.1 ? tenth(share) : percent(share))),
  );
}

// An estimate with its interval, as far as it is known.
function inBasis({ value, low, high }, inWords) {
  const { basis } = review.progress;
  if (basis === "nothing") return "not known yet";
  return `${basis === "least" ? "at least " : ""}${inWords(value)} (${inWords(low)} to ${inWords(high)})`;
}

// When the stopping rule is met, or what is missing.
function stopWords() {
  const {
    may_stop: mayStop, stop_below: below, labels, left, random, basis, sample_wanted: wanted,
  } = review.progress;
  const limit = `${Math.ceil(below * labels).toLocaleString("en")} (${tenth(below)})`;
  const most = Math.round(left.high);
  if (mayStop) {
    return `You may stop: at most ${counted(most, "label is", "labels are")} wrong and not found, `
      + `fewer than ${limit}.`;
  }
  if (basis !== "random") {
    return `Go on: when ${wanted} labels that were drawn at random are reviewed (now ${random}), they `
      + "show how many labels may be wrong and not found.";
  }
  return `Go on: up to ${counted(most, "label")} (${tenth(left.high / labels)}) may be wrong and not `
    + `found. You may stop when it is fewer than ${limit}.`;
}

// A number by the count of decisions. valuesOf: { value } of a point, and { low, high } for a band.
function chart(title, points, valuesOf, most, inWords) {
  const last = points[points.length - 1];
  const widest = Math.max(...points.map(({ decisions }) => decisions), 1);
  const top = niceTop(most);
  const x = (decisions) => LEFT + (WIDE - LEFT - RIGHT) * (decisions / widest);
  const y = (value) => HIGH - BOTTOM - (HIGH - TOP - BOTTOM) * Math.min(value / top, 1);
  const at = (part) => points.map((point) => `${x(point.decisions)},${y(valuesOf(point)[part])}`);
  const text = (words, attributes) => svg("text", attributes, words);
  const { value, low, high } = valuesOf(last);
  const range = high === undefined ? "" : ` (${inWords(low)} to ${inWords(high)})`;
  const lines = [0, 0.5, 1].flatMap((part) => [
    svg("path", { class: "axis", d: `M${LEFT},${y(part * top)}H${WIDE - RIGHT}` }),
    text(inWords(part * top), { x: LEFT - 6, y: y(part * top) + 4, "text-anchor": "end" }),
  ]);
  return el("figure", {},
    el("figcaption", {}, title),
    svg("svg", {
      viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img",
      "aria-label": `${title}: ${inWords(value)}${range} after ${counted(last.decisions, "decision")}.`,
    },
    ...lines,
    ...(high === undefined ? []
      : [svg("path", { class: "band", d: `M${[...at("high"), ...at("low").reverse()].join("L")}Z` })]),
    svg("path", { class: "line", d: `M${at("value").join("L")}` }),
    ...points.map((point) => svg("circle", {
      cx: x(point.decisions), cy: y(valuesOf(point).value), r: 3,
    })),
    text("0", { x: LEFT, y: HIGH - 8, "text-anchor": "middle" }),
    text(counted(widest, "decision"), { x: WIDE - RIGHT, y: HIGH - 8, "text-anchor": "end" })));
}

// The least of 1, 2, 4, 6, 8 and 10 times a power of ten that is not less.
function niceTop(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 4, 6, 8, 10].map((factor) => factor * power).find((top) => top >= most - 1e-9);
}
