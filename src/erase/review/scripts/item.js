// One label at a time: what is shown of it, and what is decided about it.

const AHEAD = 10; // labels fetched before they are needed
const otherTabs = new BroadcastChannel("decided"); // of this browser: they are given the same labels
const waiting = [];
const done = new Set(); // nodes decided on here; the server may not have stored the last ones yet
let current = null;
let shownAt = 0;
let note = "";
let isFilling = false;
let isAtEnd = false;

// isFresh: another audit has ranked the labels.
async function fill(isFresh = false) {
  if (isFilling) return;
  isFilling = true;
  try {
    const have = [current, ...waiting].filter(Boolean).map((item) => item.node);
    const path = `/api/items?n=${AHEAD - waiting.length}&have=${have.join(",")}`;
    const items = await ask(isFresh ? `${path}&fresh` : path);
    const known = new Set([current, ...waiting].filter(Boolean).map((item) => item.node));
    waiting.push(...items.filter(({ node }) => !known.has(node) && !done.has(node)));
    isAtEnd = items.length === 0;
  } catch (error) {
    complain(error.message);
  }
  isFilling = false;
  if (!current) showNext();
}

// Labels that were decided elsewhere: in a group, or in another tab.
function drop(nodes) {
  const gone = new Set(nodes);
  gone.forEach((node) => done.add(node));
  waiting.splice(0, waiting.length, ...waiting.filter(({ node }) => !gone.has(node)));
  // a dialog that is open is about the label that is shown
  if (current && gone.has(current.node) && !document.querySelector("dialog[open]")) showNext();
}

function showNext() {
  if (byId("item-title").getBoundingClientRect().top < 0) byId("item-title").scrollIntoView();
  current = waiting.shift() ?? null;
  if (waiting.length < AHEAD / 2 && !(isAtEnd && !current)) fill();
  showItem();
}

function showItem() {
  const isLost = byId("node-body").contains(document.activeElement); // it is about to be replaced
  byId("item").hidden = !current;
  note = "";
  shownAt = performance.now();
  if (!current) {
    byId("item-title").textContent = isAtEnd ? "No label is left to review." : "Loading …";
    return;
  }
  use(current);
  const [given, rival] = [audit.given[0], rivalOf(0)];
  byId("item-title").replaceChildren(
    el("bdi", {}, names[0]), " ",
    el("span", { class: "number quiet" }, current.key ?? `#${current.node}`),
  );
  byId("keep").replaceChildren("Keep ", chip(given), " ", kbd("1"));
  byId("take").hidden = rival < 0;
  if (rival >= 0) byId("take").replaceChildren("Change to ", chip(rival), " ", kbd("2"));
  byId("take").dataset.k = rival;
  byId("note-open").classList.remove("has-note");
  byId("verdict").replaceChildren(summary(0));
  byId("node-side").replaceChildren(
    ...detailParts(current.details),
    ...(rival >= 0 ? evidenceParts(0, given, rival) : []),
    ...predictionParts(0),
  );
  byId("node-body").replaceChildren(...neighbourParts(0, rival), ...moreNote(current),
    ...lookAlikeParts(0));
  if (isLost) byId("item-title").focus();
  announce(shownWords());
}

function shownWords() {
  if (!current) return byId("item-title").textContent;
  return `${names[0]}. Given ${className(audit.given[0])}, suggested ${className(audit.suggested[0])}.`;
}

// Makes `view` the node that the shared functions draw. Confirmed neighbours count as confirmed.
function use(view) {
  const [given, quality, flagged] = [[...view.given], [...view.quality], [...view.flagged]];
  names = [...view.names];
  for (const [place, k] of Object.entries(view.trusted)) {
    given[place] = k;
    quality[place] = 1;
    flagged[place] = false;
    names[place] += " ✓";
  }
  const numbers = (values) => values.map((value) => value ?? NaN);
  const count = new Uint32Array(view.id.length);
  for (const [from] of view.edges) count[from] += 1;
  graph = adjacency(count, Uint32Array.from(view.edges, ([, to]) => to));
  rankOf = view.id.map((_, place) => (place === 0 ? 0 : NO_NODE)); // whose look-alikes are known
  const rest = new Array((view.id.length - 1) * view.likely.length).fill(NO_NODE);
  audit = {
    ...view,
    given,
    flagged,
    classes: review.classes,
    verdicts: ["right", "wrong", "can't tell"],
    quality: numbers(quality),
    probability: numbers(view.probability),
    predictedGiven: numbers(view.predictedGiven),
    predictedSuggested: numbers(view.predictedSuggested),
    likely: [...view.likely, ...rest],
    likelyShare: [...numbers(view.likelyShare), ...rest],
    degree: [graph.start[1], ...view.degree.slice(1)],
    alike: Int32Array.from({ length: 8 }, (_, k) => view.alike[k] ?? NO_NODE),
    alikeCosine: view.alikeCosine,
  };
}

function kbd(letter) {
  return el("kbd", { "aria-hidden": "true" }, letter);
}

function detailParts(details) {
  if (!details.length) return [];
  const rows = details.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]);
  return [el("dl", { class: "details" }, ...rows)];
}

function moreNote(view) {
  const missing = view.degree[0] - graph.start[1];
  if (!missing) return [];
  return [el("p", { class: "quiet" },
    `${counted(missing, "more neighbour is", "more neighbours are")} not shown.`)];
}

// k: the class that is right; null: unsure.
function decide(k) {
  if (!current) return;
  const key = newKey();
  const seconds = Math.min(Math.round(performance.now() - shownAt) / 1000, 86_400);
  const decision = { key, node: current.node, class: k, note, seconds };
  send("/api/decisions", { decisions: [decision] }, key);
  const words = k === null ? "unsure" : className(k);
  done.add(current.node);
  otherTabs.postMessage([current.node]);
  countDecision(k);
  const name = names[0];
  showNext();
  announce(`${name}: ${words}. Next: ${shownWords()}`);
}

// The counts follow at once; the server's own come with the next look at its state.
function countDecision(k) {
  review.progress.reviewed += 1;
  if (k !== null && k !== audit.given[0]) review.progress.changed += 1;
  showCounts();
}

function undo() {
  const key = newKey();
  send("/api/undo", { key }, key, (answer) => {
    const items = answer?.items ?? [];
    if (!items.length) {
      announce("There is nothing to undo.");
      return;
    }
    const nodes = new Set(items.map((item) => item.node));
    nodes.forEach((node) => done.delete(node));
    const before = [current, ...waiting].filter((item) => item && !nodes.has(item.node));
    waiting.splice(0, waiting.length, ...items.slice(1), ...before);
    [current] = items;
    showView("one");
    showItem();
    announce(`Undone: ${shownWords()}`);
    poll();
  });
}

function openNote() {
  byId("note-text").value = note;
  byId("note").showModal();
}

// The next link to a neighbour or look-alike; Enter opens it.
function nextNeighbour() {
  const links = Array.from(byId("node-body").querySelectorAll("a[href^='#node=']"))
    .filter((link) => link.checkVisibility());
  links[(links.indexOf(document.activeElement) + 1) % links.length]?.focus();
}

function startItem() {
  byId("keep").addEventListener("click", () => decide(audit.given[0]));
  byId("take").addEventListener("click", () => decide(Number(byId("take").dataset.k)));
  byId("skip").addEventListener("click", () => decide(null));
  byId("undo").addEventListener("click", undo);
  byId("choose").addEventListener("click", openPicker);
  byId("note-open").addEventListener("click", openNote);
  byId("note-text").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    byId("note").close();
  });
  byId("note-text").addEventListener("input", () => {
    note = byId("note-text").value.trim();
    byId("note-open").classList.toggle("has-note", note !== "");
  });
  byId("node-close").addEventListener("click", () => byId("node").close());
  byId("node").addEventListener("close", () => { if (current) use(current); });
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href^='#node=']");
    if (!link) return;
    event.preventDefault();
    openNeighbour(Number(link.getAttribute("href").slice(6)));
  });
}

// Another node in a drawer, to look at; the label under review stays as it is.
async function openNeighbour(number) {
  try {
    const view = await ask(`/api/nodes/${number}`);
    use(view);
    byId("node-title").replaceChildren(el("bdi", {}, names[0]), " ",
      el("span", { class: "number quiet" }, view.key ?? `#${view.node}`));
    if (!byId("node").open) byId("node").showModal();
    const rival = rivalOf(0);
    byId("node-content").replaceChildren(summary(0), ...detailParts(view.details),
      ...(audit.given[0] >= 0 && rival >= 0 ? evidenceParts(0, audit.given[0], rival) : []),
      ...neighbourParts(0, rival), ...moreNote(view), ...lookAlikeParts(0), ...predictionParts(0));
    byId("node").scrollTop = 0;
    byId("node-title").focus();
  } catch (error) {
    complain(error.message);
  }
}
