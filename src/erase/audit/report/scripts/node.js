// One node: its label, the evidence for and against it, its neighbours, its look-alikes.

const LISTED = 200; // neighbours in the list under the drawing
let beforeNode = "#labels"; // where closing leads back to

function startNode() {
  const dialog = byId("node");
  byId("node-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // beside it
  });
  dialog.addEventListener("close", () => {
    if (location.hash.startsWith("#node=")) history.pushState(null, "", beforeNode);
  });
}

function openNode(i) {
  const dialog = byId("node");
  byId("node-title").replaceChildren(
    el("bdi", {}, names[i]), " ", el("span", { class: "number quiet" }, `#${audit.id[i]}`),
  );
  showPlace(i);
  if (!dialog.open) dialog.showModal();
  byId("node-body").replaceChildren(...nodeBody(i)); // after opening: its width is known now
  dialog.scrollTop = 0;
  byId("node-title").focus();
}

function openMissing(number) {
  byId("node-title").textContent = `Node ${number}`;
  byId("node-rank").textContent = "";
  for (const id of ["node-previous", "node-next", "node-map"]) byId(id).hidden = true;
  byId("node-body").replaceChildren(el("p", {}, "There is no such node in this file."));
  if (!byId("node").open) byId("node").showModal();
}

function closeNode() {
  if (byId("node").open) byId("node").close();
}

// Its number by suspicion, and its neighbours in the list as it is filtered and sorted now.
function showPlace(i) {
  const at = list.shown.indexOf(i);
  const set = (id, j) => {
    byId(id).hidden = j === undefined;
    if (j !== undefined) byId(id).href = `#node=${audit.id[j]}`;
  };
  set("node-previous", at > 0 ? list.shown[at - 1] : undefined);
  set("node-next", at >= 0 ? list.shown[at + 1] : undefined);
  byId("node-map").hidden = false;
  byId("node-map").href = `#map=${audit.id[i]}`;
  byId("node-rank").textContent = rankOf[i] === NO_NODE ? ""
    : `Number ${(rankOf[i] + 1).toLocaleString("en")} of ${counted(audit.labels, "label")} by suspicion`;
}

function nodeBody(i) {
  const given = audit.given[i];
  const rival = rivalOf(i);
  return [
    summary(i),
    ...(given >= 0 && rival >= 0 ? evidenceParts(i, given, rival) : []),
    ...neighbourParts(i, rival),
    ...lookAlikeParts(i),
    ...predictionParts(i),
  ];
}

// The class that the given label is weighed against: the suggested one, or the next most probable.
function rivalOf(i) {
  const given = audit.given[i];
  if (audit.suggested[i] >= 0 && audit.suggested[i] !== given) return audit.suggested[i];
  return likelyClasses(i).find(({ k }) => k !== given)?.k ?? NO_NODE;
}

function summary(i) {
  if (audit.given[i] < 0) {
    return el("p", { class: "verdict" }, "No label is given. The model predicts ",
      chip(likelyClasses(i)[0].k), ".");
  }
  const right = ["The chance that ", chip(audit.given[i]), " is right is ",
    el("strong", {}, percent(audit.quality[i])), ". "];
  const other = [chip(audit.suggested[i]), ` (${percent(audit.probability[i])})`];
  const same = audit.suggested[i] === audit.given[i];
  const words = {
    wrong: ["Probably wrong. ", ...right, "Suggested: ", ...other, "."],
    "can't tell": ["Cannot tell. ", ...right,
      ...(same ? ["No other label is more probable."] : ["Most probable: ", ...other, "."])],
    right: ["Probably right. ", ...right],
  };
  return el("p", { class: `verdict ${verdictKind(verdictOf(i))}` }, ...words[verdictOf(i)],
    audit.flagged[i] ? el("span", { class: "flag" }, " Flagged.") : "");
}

// Each piece of evidence: a sentence, and its shares for the given label and for its rival.
function evidence(i, given, rival) {
  const share = (nodes, k) => nodes.filter((j) => audit.given[j] === k).length;
  const found = [{
    text: `The model trained without this label gives ${className(given)} `
      + `${percent(audit.predictedGiven[i])} and ${className(rival)} ${percent(predicted(i, rival))}.`,
    given: audit.predictedGiven[i],
    rival: predicted(i, rival),
  }];
  const groups = [
    ["labelled neighbour", Array.from(neighboursOf(i)).filter((j) => audit.given[j] >= 0)],
    ["look-alike", (lookAlikesOf(i) ?? []).map(({ j }) => j)],
  ];
  for (const [kind, nodes] of groups) {
    if (!nodes.length) continue;
    const [own, other] = [share(nodes, given), share(nodes, rival)];
    found.push({
      text: `Of ${counted(nodes.length, kind)}, ${own.toLocaleString("en")} `
        + `${own === 1 ? "is" : "are"} labelled ${className(given)} and `
        + `${other.toLocaleString("en")} ${className(rival)}.`,
      given: own / nodes.length,
      rival: other / nodes.length,
    });
  }
  return found;
}

function predicted(i, k) {
  if (k === audit.suggested[i]) return audit.predictedSuggested[i];
  return likelyClasses(i).find((likely) => likely.k === k).share;
}

function evidenceParts(i, given, rival) {
  const all = evidence(i, given, rival);
  const sides = [
    [`For ${className(given)}`, all.filter((one) => one.given > one.rival)],
    [`Against it, for ${className(rival)}`, all.filter((one) => one.given < one.rival)],
    ["Undecided", all.filter((one) => one.given === one.rival)],
  ];
  const bars = (one) => el("span", { class: "duel", "aria-hidden": "true" },
    codeOf(given), meter(one.given, audit.classes[given].colour), percent(one.given),
    codeOf(rival), meter(one.rival, audit.classes[rival].colour), percent(one.rival));
  const side = ([title, found]) => el("div", {}, el("h4", {}, title),
    found.length
      ? el("ul", { class: "evidence" }, ...found.map((one) => el("li", {}, one.text, bars(one))))
      : el("p", { class: "quiet" }, "Nothing."));
  const shown = sides.filter(([title, found]) => found.length || title !== "Undecided");
  return [el("h3", {}, "Evidence"), el("div", { class: "sides" }, ...shown.map(side))];
}

function predictionParts(i) {
  const rows = likelyClasses(i).map(({ k, share }) => el("li", {}, chip(k),
    meter(share, audit.classes[k].colour), percent(share)));
  return [
    el("h3", {}, "Out-of-fold prediction"),
    el("ul", { class: "bars" }, ...rows),
  ];
}

function neighbourParts(i, rival) {
  const here = neighboursOf(i);
  const heading = el("h3", {}, "Neighbours");
  if (!audit.degree[i]) return [heading, el("p", { class: "quiet" }, "It has no neighbours.")];
  const missing = audit.degree[i] - here.length;
  const notes = [
    here.length > DRAWN ? `${DRAWN} of ${counted(here.length, "neighbour")} are drawn: every label `
      + "in proportion, the most trusted first. " : "",
    missing ? `${counted(missing, "more neighbour is", "more neighbours are")} not in this file. ` : "",
    "A dashed ring marks a label that is flagged itself. Choose a neighbour to open it.",
  ];
  if (!here.length) return [heading, el("p", { class: "quiet" }, notes[1])];
  const all = inGroups(here, audit.given[i], rival).slice(0, LISTED);
  return [
    heading,
    drawNeighbourhood(i, rival, byId("node-body").clientWidth),
    el("p", { class: "quiet" }, ...notes),
    el("details", {},
      el("summary", {}, all.length < here.length
        ? `${LISTED} of ${counted(here.length, "neighbour")} as a list` : "Neighbours as a list"),
      nodeList(all, (j) => (audit.given[j] < 0 ? "" : `right: ${percent(audit.quality[j])}`))),
  ];
}

function lookAlikeParts(i) {
  const found = lookAlikesOf(i);
  const heading = el("h3", {}, "Look-alikes");
  if (found === null) {
    const searched = audit.given[i] < 0 ? "nodes with a label only"
      : `the ${(audit.alike.length / 8).toLocaleString("en")} most suspicious labels only`;
    return [heading, el("p", { class: "quiet" }, `Look-alikes were searched for ${searched}.`)];
  }
  if (!found.length) return [heading, el("p", { class: "quiet" }, "There is no other label.")];
  const cosines = new Map(found.map(({ j, cosine }) => [j, cosine]));
  return [
    heading,
    nodeList(found.map(({ j }) => j), (j) => `similarity ${cosines.get(j).toFixed(2)}`),
  ];
}

function nodeList(nodes, note) {
  return el("ul", { class: "nodes" }, ...nodes.map((j) => el("li", {},
    nodeLink(j), chip(audit.given[j]),
    el("span", { class: "quiet" }, note(j), audit.flagged[j] ? " flagged" : ""))));
}
