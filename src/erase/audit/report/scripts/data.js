// Functions of what a page knows: `names`, and arrays over nodes in `audit`. `i`, `j` are places of
// nodes in these arrays.

"use strict";

const TYPES = {
  uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array,
  int16: Int16Array, int32: Int32Array, float32: Float32Array,
};
const NO_NODE = -1;

function readAudit(element) {
  const { arrays, ...rest } = JSON.parse(element.textContent);
  element.remove(); // the text is not needed twice
  for (const [name, packed] of Object.entries(arrays)) rest[name] = unpack(packed);
  return rest;
}

function unpack({ type, data }) {
  const text = atob(data);
  const bytes = new Uint8Array(text.length);
  for (let k = 0; k < text.length; k++) bytes[k] = text.charCodeAt(k);
  if (type !== "share") return new TYPES[type](bytes.buffer);
  const steps = new Uint16Array(bytes.buffer);
  const shares = new Float32Array(steps.length);
  for (let k = 0; k < steps.length; k++) shares[k] = steps[k] === 65535 ? NaN : steps[k] / 65534;
  return shares;
}

function nodeNames({ id, names }) {
  return Array.from(id, (number, i) => names?.[i].trim() || `node ${number}`);
}

// Position of each place in `order`, -1 where it does not occur.
function inverse(order, length) {
  const position = new Int32Array(length).fill(NO_NODE);
  order.forEach((i, rank) => { position[i] = rank; });
  return position;
}

// Edges are stored once, at their lower end; here each end gets the other.
function adjacency(count, to) {
  const n = count.length;
  const start = new Uint32Array(n + 1);
  for (let i = 0, e = 0; i < n; i++) {
    start[i + 1] += count[i];
    for (let k = 0; k < count[i]; k++, e++) start[to[e] + 1] += 1;
  }
  for (let i = 0; i < n; i++) start[i + 1] += start[i];
  const free = start.slice(0, n);
  const ends = new Uint32Array(2 * to.length);
  for (let i = 0, e = 0; i < n; i++) {
    for (let k = 0; k < count[i]; k++, e++) {
      ends[free[i]++] = to[e];
      ends[free[to[e]]++] = i;
    }
  }
  return { start, ends };
}

function neighboursOf(i) {
  return graph.ends.subarray(graph.start[i], graph.start[i + 1]);
}

// Labelled nodes that look like node i, or null where they were not computed.
function lookAlikesOf(i) {
  const rank = rankOf[i];
  const width = 8;
  if (rank === NO_NODE || rank >= audit.alike.length / width) return null;
  const row = audit.alike.subarray(rank * width, (rank + 1) * width);
  return Array.from(row, (j, k) => ({ j, cosine: audit.alikeCosine[rank * width + k] }))
    .filter(({ j }) => j !== NO_NODE);
}

// The most probable classes of node i by the model trained without its label.
function likelyClasses(i) {
  const width = audit.likely.length / audit.id.length;
  return Array.from({ length: width }, (_, k) => ({
    k: audit.likely[i * width + k], share: audit.likelyShare[i * width + k],
  }));
}

// A test of nodes: its number is the text, or its name contains it.
function matcher(text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return () => true;
  const number = /^#?\d+$/.test(wanted) ? Number(wanted.replace("#", "")) : NO_NODE;
  return (i) => audit.id[i] === number || sought[i].includes(wanted);
}

function className(k) {
  return k >= 0 ? audit.classes[k].name : "no label";
}

function verdictOf(i) {
  return audit.verdicts[audit.verdict[i]] ?? "";
}

function verdictKind(verdict) {
  return verdict === "can't tell" ? "unsure" : verdict;
}

function percent(share) {
  if (Number.isNaN(share)) return "–";
  if (share > 0 && share < 0.005) return "<\u00a01%";
  if (share < 1 && share > 0.995) return ">\u00a099%";
  return `${Math.round(100 * share)}%`;
}

function counted(number, thing, things = `${thing}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? thing : things}`;
}
