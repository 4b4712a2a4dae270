// Views, keys, and the start of the page.

const VIEWS = ["one", "batch", "disputed", "results"];

function showView(name) {
  for (const view of VIEWS) {
    byId(`view-${view}`).hidden = view !== name;
    document.querySelector(`[data-view=${view}]`).setAttribute("aria-pressed", view === name);
  }
  if (name === "batch") showGroups();
  if (name === "disputed") poll().then(showDisputed).then(() => byId("disputed-title").focus());
  if (name === "results") {
    showResults();
    byId("results-title").focus();
    poll();
  }
  if (name === "one" && current) {
    use(current);
    byId("item-title").focus();
  }
}

const KEYS = {
  1: () => byId("keep").click(),
  a: () => byId("keep").click(),
  2: () => { if (!byId("take").hidden) byId("take").click(); },
  s: () => { if (!byId("take").hidden) byId("take").click(); },
  3: openPicker,
  c: openPicker,
  4: () => byId("skip").click(),
  u: () => byId("skip").click(),
  n: openNote,
  o: nextNeighbour,
};
const KEYS_OF_GROUPS = {
  arrowdown: () => step(1),
  arrowright: () => step(1),
  arrowup: () => step(-1),
  arrowleft: () => step(-1),
};
const KEYS_OF_A_GROUP = {
  ...KEYS_OF_GROUPS,
  1: () => byId("batch-keep").click(),
  a: () => byId("batch-keep").click(),
  2: () => byId("batch-take").click(),
  s: () => byId("batch-take").click(),
  x: leaveOutAll,
  escape: showGroups,
};
const KEYS_EVERYWHERE = {
  z: undo,
  b: () => showView("batch"),
  d: () => showView("disputed"),
  p: () => showView("results"),
  "?": () => byId("help").showModal(),
  escape: () => showView("one"),
};

function keysHere() {
  if (!byId("view-one").hidden) return current ? KEYS : {};
  if (byId("view-batch").hidden) return {};
  return group ? KEYS_OF_A_GROUP : KEYS_OF_GROUPS;
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (document.querySelector("dialog[open]")) return;
  // the field of a dialog that has just been closed may keep the focus until the next frame
  const typing = event.target.matches("input:not([type=checkbox]), textarea, select");
  if (typing && event.target.checkVisibility()) return;
  const key = event.key.toLowerCase();
  const action = keysHere()[key] ?? KEYS_EVERYWHERE[key];
  if (!action) return;
  event.preventDefault();
  if (event.repeat && !key.startsWith("arrow")) return; // a key that is held down decides once
  action();
}

function askName() {
  byId("name-text").value = review.reviewer;
  byId("name").returnValue = "";
  byId("name").showModal();
  byId("name-text").focus();
}

async function setName() {
  if (byId("name").returnValue === "ok") {
    try {
      while (outbox.length) await new Promise((then) => setTimeout(then, 50)); // of the name before
      const answer = await ask("/api/reviewer", { name: byId("name-text").value });
      review.reviewer = answer.reviewer;
      showWho();
      waiting.splice(0, waiting.length);
      done.clear();
      current = null;
    } catch (error) {
      complain(error.message);
    }
  }
  if (!current) await fill();
  byId("item-title").focus();
}

function showWho() {
  byId("who").replaceChildren(...(review.reviewer
    ? [el("span", { class: "wide" }, "Reviewer: "), el("bdi", {}, review.reviewer)] : ["Your name …"]));
}

function isBeside({ clientX: x, clientY: y }, element) {
  const { left, right, top, bottom } = element.getBoundingClientRect();
  return x < left || x > right || y < top || y > bottom;
}

async function start() {
  Object.assign(review, await ask("/api/start"));
  audit = { classes: review.classes }; // what chips and class names need
  showWho();
  showCounts();
  keepOutbox();
  await flush();
  startItem();
  startPicker();
  startBatch();
  for (const view of VIEWS) {
    document.querySelector(`[data-view=${view}]`).addEventListener("click", () => showView(view));
  }
  byId("help-open").addEventListener("click", () => byId("help").showModal());
  byId("who").addEventListener("click", askName);
  byId("name").addEventListener("close", setName);
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog && isBeside(event, dialog)) dialog.close();
    });
  }
  document.addEventListener("keydown", onKey);
  otherTabs.addEventListener("message", ({ data }) => drop(data));
  addEventListener("beforeunload", (event) => { if (outbox.length) event.preventDefault(); });
  setInterval(poll, POLL);
  if (review.reviewer) await fill();
  else askName();
  document.documentElement.dataset.ready = "true";
}

start();
