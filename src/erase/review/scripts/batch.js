// Groups of labels with one confusion, and labels on which reviewers disagree.

const GRID = 24; // cards of a group at a time
let group = null; // { given, suggested }
let cards = [];
const leftOut = new Set(); // nodes that did not belong to their group

async function showGroups() {
  group = null;
  byId("cards").replaceChildren();
  byId("group").hidden = true;
  byId("groups").hidden = false;
  byId("batch-title").focus(); // at once: what had the focus is hidden now
  const found = await ask("/api/groups");
  byId("groups").replaceChildren(found.length
    ? el("ul", { class: "pairs" }, ...found.map(groupEntry))
    : el("p", {}, "No other class is more probable for any label that is left."));
}

function groupEntry(entry) {
  const button = el("button", { type: "button" }, chip(entry.given), " → ", chip(entry.suggested),
    " ", el("span", { class: "count" }, counted(entry.labels, "label")));
  button.addEventListener("click", () => showGroup(entry));
  return el("li", {}, button);
}

// isNext: after a decision; labels that were left out then are no reason to stay.
async function showGroup({ given, suggested }, isNext = false) {
  cards = await ask(`/api/group?given=${given}&suggested=${suggested}&n=${GRID}`);
  if (isNext ? cards.every(({ node }) => leftOut.has(node)) : !cards.length) {
    await showGroups();
    return;
  }
  group = { given, suggested };
  byId("groups").hidden = true;
  byId("group").hidden = false;
  byId("group-words").replaceChildren("Given ", chip(given), ", suggested ", chip(suggested),
    `: ${counted(cards.length, "label")}. Uncheck what does not belong.`);
  byId("cards").replaceChildren(...cards.map(card));
  showBatchButtons();
  byId("cards").querySelector("input").focus();
}

function card(entry) {
  const box = el("input", {
    type: "checkbox", checked: !leftOut.has(entry.node), "data-node": entry.node,
  });
  box.addEventListener("change", showBatchButtons);
  const neighbours = entry.labelled
    ? `Of ${counted(entry.labelled, "labelled neighbour")}, ${entry.agree} ${className(entry.given)}, `
      + `${entry.against} ${className(entry.suggested)}.` : "No labelled neighbour.";
  return el("div", { class: "card" },
    el("label", {}, box, " ", el("bdi", {}, entry.name)),
    el("p", { class: "quiet" }, `Chance it is right: ${percent(entry.quality ?? NaN)}. ${neighbours}`),
    ...entry.details.slice(0, 2).map(([name, text]) => el("p", { class: "cell" }, `${name}: ${text}`)),
    el("a", { href: `#node=${entry.node}`, "aria-label": `Why? ${entry.name}` }, "Why?"));
}

function checkedNodes() {
  return Array.from(byId("cards").querySelectorAll("input:checked"), (box) => Number(box.dataset.node));
}

function showBatchButtons() {
  const count = checkedNodes().length;
  byId("batch-keep").replaceChildren(`Keep ${count} as `, chip(group.given), " ", kbd("1"));
  byId("batch-take").replaceChildren(`Change ${count} to `, chip(group.suggested), " ", kbd("2"));
  for (const id of ["batch-take", "batch-keep"]) byId(id).disabled = count === 0;
}

function decideGroup(k) {
  const nodes = checkedNodes();
  for (const { node } of cards) leftOut[nodes.includes(node) ? "delete" : "add"](node);
  for (const id of ["batch-take", "batch-keep"]) byId(id).disabled = true; // until it is stored
  const decisions = nodes.map((node) => ({ key: newKey(), node, class: k }));
  send("/api/decisions", { decisions }, decisions[0].key, (answer) => {
    if (!answer) {
      showBatchButtons();
      return;
    }
    announce(`${counted(nodes.length, "label")} decided: ${className(k)}.`);
    drop(nodes);
    otherTabs.postMessage(nodes);
    if (group) showGroup(group, true);
    poll();
  });
}

async function showDisputed() {
  const { labels: found, agreement } = await ask("/api/disagreements");
  byId("disputed").replaceChildren(found.length
    ? el("ul", { class: "nodes" }, ...found.map(disputedEntry))
    : el("p", {}, "There are none."));
  const rows = agreement.map((row) => el("tr", {},
    el("th", { scope: "row" }, `${row.first || "no name"} and ${row.second || "no name"}`),
    el("td", {}, row.nodes.toLocaleString("en")), el("td", {}, percent(row.agree)),
    el("td", {}, row.kappa === null ? "–" : row.kappa.toFixed(2))));
  const head = ["Reviewers", "Labels both saw", "Same class", "Cohen's κ"];
  byId("agreement").replaceChildren(rows.length
    ? el("table", {}, el("thead", {}, el("tr", {},
      ...head.map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, ...rows))
    : el("p", { class: "quiet" }, "No two reviewers have seen the same label yet."));
}

function disputedEntry(entry) {
  const button = el("button", { type: "button" }, el("bdi", {}, entry.name));
  button.addEventListener("click", async () => {
    const item = await ask(`/api/nodes/${entry.node}`);
    if (current) waiting.unshift(current);
    current = item;
    showView("one");
    showItem();
  });
  const votes = Object.entries(entry.votes)
    .map(([by, label]) => `${by || "no name"}: ${label ?? "unsure"}`).join(", ");
  return el("li", {}, button, chip(entry.given), el("span", { class: "quiet" }, votes));
}

function startBatch() {
  byId("batch-take").addEventListener("click", () => decideGroup(group.suggested));
  byId("batch-keep").addEventListener("click", () => decideGroup(group.given));
  byId("batch-back").addEventListener("click", showGroups);
  byId("batch-none").addEventListener("click", leaveOutAll);
}

function leaveOutAll() {
  for (const box of byId("cards").querySelectorAll("input")) box.checked = false;
  showBatchButtons();
}

// Moves the focus to the next or the previous group, or card of a group.
function step(by) {
  const stops = Array.from(document.querySelectorAll(group ? "#cards input" : "#groups button"));
  const at = stops.indexOf(document.activeElement);
  stops[at < 0 ? 0 : Math.min(Math.max(at + by, 0), stops.length - 1)]?.focus();
}
