// The ranked list: filters, sorting, and a page of rows at a time.

const ROWS = 50;
const COLUMNS = {
  rank: "Rank",
  name: "Node",
  given: "Given label",
  suggested: "Suggested label",
  quality: "Chance it is right",
  verdict: "Verdict",
  agree: "Neighbours agree",
};
const SORT_KEYS = {
  rank: () => rankOf,
  name: nameOrder,
  given: () => classOrder(audit.given),
  suggested: () => classOrder(audit.suggested),
  quality: () => audit.quality,
  verdict: verdictOrder,
  agree: () => audit.agree,
};
const sortKeys = new Map();

const list = {
  sort: "rank",
  direction: 1,
  page: 0,
  shown: audit.ranked, // places of the labelled nodes that pass the filters, in order
};

function startList() {
  const head = byId("list").tHead.rows[0];
  for (const [key, title] of Object.entries(COLUMNS)) {
    const button = el("button", { type: "button" }, title);
    button.addEventListener("click", () => sortBy(key));
    head.append(el("th", { role: "columnheader", scope: "col", "data-key": key }, button));
  }
  for (const id of ["filter-given", "filter-suggested"]) {
    audit.classes.forEach(({ name }, k) => byId(id).append(el("option", { value: k }, name)));
  }
  if (!audit.flagged.includes(1)) byId("filter-verdict").value = "any";
  const firstVerdict = byId("filter-verdict").value;
  const form = byId("filters");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", afterPause(applyFilters));
  form.addEventListener("reset", (event) => {
    event.preventDefault(); // a reset would bring back "flagged" even where nothing is
    setFilters({ verdict: firstVerdict });
    byId("query").focus();
  });
  byId("pages").addEventListener("click", ({ target }) => turnPage(target.dataset.step));
  for (const link of document.querySelectorAll("[data-given]")) {
    link.addEventListener("click", () => {
      setFilters({ given: link.dataset.given, suggested: link.dataset.suggested, verdict: "any" });
    });
  }
  applyFilters();
}

function setFilters({ query = "", given = "-1", suggested = "-1", verdict = "any", most = "100" }) {
  byId("query").value = query;
  byId("filter-given").value = given;
  byId("filter-suggested").value = suggested;
  byId("filter-verdict").value = verdict;
  byId("filter-quality").value = most;
  applyFilters();
}

function applyFilters() {
  const query = byId("query").value;
  const matches = matcher(query);
  const given = Number(byId("filter-given").value);
  const suggested = Number(byId("filter-suggested").value);
  const verdict = byId("filter-verdict").value;
  const wanted = audit.verdicts.indexOf(verdict);
  const limit = byId("filter-quality").valueAsNumber;
  const most = Number.isNaN(limit) ? 1 : limit / 100;
  list.shown = audit.ranked.filter((i) =>
    (verdict === "any" || (verdict === "flagged" ? audit.flagged[i] : audit.verdict[i] === wanted))
    && (given < 0 || audit.given[i] === given)
    && (suggested < 0 || audit.suggested[i] === suggested)
    && audit.quality[i] <= most
    && matches(i));
  sortShown();
  list.page = 0;
  showRows();
  showCount(query, matches);
}

function showCount(query, matches) {
  const all = audit.ranked.length;
  const left = audit.labels - all;
  byId("count").textContent = `${counted(list.shown.length, "label")} of ${all.toLocaleString("en")}`
    + (left ? `; ${left.toLocaleString("en")} less suspicious ones are in issues.csv only` : "");
  const others = byId("unlabelled");
  others.hidden = true;
  if (!query.trim()) return;
  const found = [];
  for (let i = 0; i < names.length && found.length < 6; i++) {
    if (audit.given[i] < 0 && matches(i)) found.push(i);
  }
  if (!found.length) return;
  const links = found.slice(0, 5).flatMap((i) => [nodeLink(i), ", "]).slice(0, -1);
  others.replaceChildren("Without a label: ", ...links, found.length > 5 ? ", …" : "");
  others.hidden = false;
}

function sortBy(key) {
  list.direction = list.sort === key ? -list.direction : 1;
  list.sort = key;
  sortShown();
  list.page = 0;
  showRows();
}

function sortShown() {
  const key = sortKey(list.sort);
  const { direction } = list;
  // equal ones stay in the order of suspicion, and what has no value comes last
  list.shown.sort((i, j) => {
    const [a, b] = [key[i], key[j]];
    if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
    return direction * (a - b) || rankOf[i] - rankOf[j];
  });
}

// Numbers [M] to sort a column by, made when they are first needed.
function sortKey(column) {
  if (!sortKeys.has(column)) sortKeys.set(column, SORT_KEYS[column]());
  return sortKeys.get(column);
}

function nameOrder() {
  const order = Uint32Array.from(names.keys());
  const collator = new Intl.Collator("en", { numeric: true });
  order.sort((i, j) => collator.compare(names[i], names[j]));
  return inverse(order, order.length);
}

function verdictOrder() {
  const order = ["wrong", "can't tell", "right"];
  return audit.verdict.map((v) => order.indexOf(audit.verdicts[v]));
}

// Classes [M] as their position in the alphabet of class names.
function classOrder(classes) {
  const order = audit.classes.map((_, k) => k);
  order.sort((a, b) => className(a).localeCompare(className(b), "en", { numeric: true }));
  const position = inverse(order, order.length);
  return Int16Array.from(classes, (k) => (k < 0 ? order.length : position[k]));
}

function turnPage(step) {
  const last = Math.max(Math.ceil(list.shown.length / ROWS) - 1, 0);
  const pages = { first: 0, previous: list.page - 1, next: list.page + 1, last };
  if (!(step in pages)) return;
  list.page = Math.max(0, Math.min(pages[step], last));
  showRows();
  byId("count").scrollIntoView({ block: "nearest" });
}

function showRows() {
  const { page, shown, sort, direction } = list;
  for (const header of byId("list").tHead.rows[0].cells) {
    const sorted = header.dataset.key === sort;
    if (sorted) header.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
    else header.removeAttribute("aria-sort");
  }
  const rows = Array.from(shown.subarray(page * ROWS, (page + 1) * ROWS), listRow);
  byId("list").tBodies[0].replaceChildren(...rows);
  const last = Math.max(Math.ceil(shown.length / ROWS) - 1, 0);
  byId("page-number").textContent = `Page ${page + 1} of ${(last + 1).toLocaleString("en")}`;
  byId("pages").hidden = last === 0;
  for (const button of byId("pages").querySelectorAll("button")) {
    const backwards = ["first", "previous"].includes(button.dataset.step);
    button.disabled = page === (backwards ? 0 : last);
  }
}

function listRow(i) {
  const quality = audit.quality[i];
  const same = audit.suggested[i] === audit.given[i];
  const cell = (key, ...children) => el("td", { role: "cell", "data-key": key }, ...children);
  return el("tr", { role: "row" },
    cell("rank", (rankOf[i] + 1).toLocaleString("en")),
    el("th", { role: "rowheader", scope: "row", "data-key": "name" },
      nodeLink(i), " ", el("span", { class: "number quiet" }, `#${audit.id[i]}`)),
    cell("given", chip(audit.given[i])),
    cell("suggested", same ? el("span", { class: "quiet" }, "the same") : chip(audit.suggested[i])),
    cell("quality", meter(quality), " ", percent(quality)),
    cell("verdict", verdictBadge(i)),
    cell("agree", percent(audit.agree[i])));
}

function verdictBadge(i) {
  const verdict = verdictOf(i);
  const flag = audit.flagged[i] ? el("span", { class: "flag" }, " flagged") : "";
  return el("span", { class: `badge ${verdictKind(verdict)}` }, verdict, flag);
}
