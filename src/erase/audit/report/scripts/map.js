// The map: points on a canvas that can be moved, zoomed, searched and opened.

const NAMED = 60; // most points in sight with names
const NEAR = 14; // pixels from which a point can be picked
const map = {
  x: 0.5, y: 0.5, zoom: 1, // what is in the middle, and how large
  chosen: NO_NODE, // the node that was found
  hidden: new Set(), // classes that are switched off; -1: nodes without a label
  onlyFlagged: false,
  sprites: new Map(),
  pending: false,
};

function startMap() {
  const canvas = byId("map-canvas");
  map.order = drawingOrder();
  startLegend();
  startFind();
  startGestures(canvas);
  canvas.addEventListener("keydown", mapKey);
  byId("map-buttons").addEventListener("click", ({ target }) => {
    if (target.dataset.map === "in") zoomBy(1.6);
    if (target.dataset.map === "out") zoomBy(1 / 1.6);
    if (target.dataset.map === "all") showAll();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    map.sprites.clear();
    redraw();
  });
  new ResizeObserver(redraw).observe(canvas);
}

// Nodes without a label lie below, flagged ones on top.
function drawingOrder() {
  const layer = (i) => (audit.given[i] < 0 ? 0 : 1 + audit.flagged[i]);
  return Uint32Array.from(audit.id.keys()).sort((i, j) => layer(i) - layer(j) || i - j);
}

function startLegend() {
  const box = (text, checked, change) => {
    const input = el("input", { type: "checkbox", checked });
    input.addEventListener("change", () => { change(input.checked); redraw(); });
    return el("label", {}, input, " ", text);
  };
  const shows = (k) => (on) => { if (on) map.hidden.delete(k); else map.hidden.add(k); };
  byId("legend").append(
    ...audit.classes.map((_, k) => box(legendMark(k), true, shows(k))),
    ...(audit.given.includes(-1) ? [box(legendMark(-1), true, shows(-1))] : []),
    box("only flagged", false, (on) => { map.onlyFlagged = on; }),
  );
}

function legendMark(k) {
  const mark = audit.classes[k];
  const shape = svg("path", { d: SHAPES[mark?.shape ?? "circle"], class: mark ? "" : "none" });
  if (mark) shape.style.fill = mark.colour;
  return el("span", {},
    svg("svg", { viewBox: "-1.3 -1.3 2.6 2.6", width: 14, height: 14, "aria-hidden": "true" }, shape),
    " ", el("bdi", {}, className(k)));
}

function startFind() {
  const query = byId("find-query");
  let [searched, found] = ["", []];
  const search = () => {
    if (query.value === searched) return; // Enter was faster than the pause after typing
    searched = query.value;
    found = foundOnMap(searched);
  };
  query.addEventListener("input", afterPause(search));
  byId("find").addEventListener("submit", (event) => {
    event.preventDefault();
    search();
    if (found.length) showOnMap(found[0]);
  });
}

// List the first nodes that match, and return them.
function foundOnMap(text) {
  const matches = matcher(text);
  const found = [];
  let count = 0;
  for (let i = 0; text.trim() && i < names.length; i++) {
    if (matches(i) && count++ < 8) found.push(i);
  }
  byId("found").replaceChildren(...found.map((i) => {
    const button = el("button", { type: "button" }, el("bdi", {}, names[i]));
    button.addEventListener("click", () => showOnMap(i));
    return el("li", {}, button);
  }));
  byId("map-status").textContent = text.trim()
    ? counted(count, "node") + (count > 8 ? ", the first 8 are shown" : "") : "";
  return found;
}

// Bring node i to the middle and mark it.
function showOnMap(i) {
  map.chosen = i;
  map.zoom = Math.max(map.zoom, 4);
  [map.x, map.y] = placeOnMap(i);
  byId("map-status").replaceChildren("In the middle: ", nodeLink(i), " ", chip(audit.given[i]));
  redraw();
}

function placeOnMap(i) {
  return [audit.place[2 * i], audit.place[2 * i + 1]];
}

function mapKey(event) {
  const step = 0.15 / map.zoom;
  const moves = {
    ArrowLeft: () => moveBy(-step, 0),
    ArrowRight: () => moveBy(step, 0),
    ArrowUp: () => moveBy(0, -step),
    ArrowDown: () => moveBy(0, step),
    "+": () => zoomBy(1.6),
    "=": () => zoomBy(1.6),
    "-": () => zoomBy(1 / 1.6),
    0: showAll,
    Enter: () => { if (map.chosen !== NO_NODE) openFromMap(map.chosen); },
  };
  if (!(event.key in moves) || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  moves[event.key]();
}

function openFromMap(i) {
  location.hash = `#node=${audit.id[i]}`;
}

function moveBy(x, y) {
  map.x = Math.min(Math.max(map.x + x, 0), 1);
  map.y = Math.min(Math.max(map.y + y, 0), 1);
  redraw();
}

// Zoom, with the point under (x, y) on the canvas staying where it is.
function zoomBy(factor, x = null, y = null) {
  const canvas = byId("map-canvas");
  const [px, py] = [(x ?? canvas.clientWidth / 2), (y ?? canvas.clientHeight / 2)];
  const before = fromScreen(px, py);
  map.zoom = Math.min(Math.max(map.zoom * factor, 1), 400);
  const after = fromScreen(px, py);
  moveBy(before[0] - after[0], before[1] - after[1]);
}

function showAll() {
  Object.assign(map, { x: 0.5, y: 0.5, zoom: 1 });
  redraw();
}

// Pixels of one unit of the map.
function unit() {
  const canvas = byId("map-canvas");
  return map.zoom * (Math.min(canvas.clientWidth, canvas.clientHeight) - 24);
}

function fromScreen(x, y) {
  const canvas = byId("map-canvas");
  return [map.x + (x - canvas.clientWidth / 2) / unit(), map.y + (y - canvas.clientHeight / 2) / unit()];
}

function redraw() {
  if (map.pending) return;
  map.pending = true;
  requestAnimationFrame(() => { map.pending = false; drawMap(); });
}

// The nodes that are switched on and in sight, in drawing order, with their pixels.
function inSight(margin = 8) {
  const canvas = byId("map-canvas");
  const [width, height, scale] = [canvas.clientWidth, canvas.clientHeight, unit()];
  const found = [];
  for (const i of map.order) {
    if (map.hidden.has(audit.given[i]) || (map.onlyFlagged && !audit.flagged[i])) continue;
    const x = width / 2 + (audit.place[2 * i] - map.x) * scale;
    const y = height / 2 + (audit.place[2 * i + 1] - map.y) * scale;
    if (x < -margin || y < -margin || x > width + margin || y > height + margin) continue;
    found.push({ i, x, y });
  }
  return found;
}

function drawMap() {
  const canvas = byId("map-canvas");
  const ratio = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (!width) return;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const radius = pointRadius();
  const seen = inSight();
  for (const { i, x, y } of seen) {
    const image = sprite(audit.given[i], audit.flagged[i], radius, ratio);
    const size = image.width / ratio;
    pen.drawImage(image, x - size / 2, y - size / 2, size, size);
  }
  const { color } = getComputedStyle(canvas);
  if (seen.length <= NAMED) writeNames(pen, seen, radius, color);
  markChosen(pen, radius, color);
}

function pointRadius() {
  const base = Math.min(Math.max(200 / Math.sqrt(audit.id.length), 1.6), 5);
  return Math.min(Math.round(10 * base * map.zoom ** 0.4) / 10, 7);
}

// The picture of a point, drawn once.
function sprite(k, flagged, radius, ratio) {
  const key = `${k} ${flagged} ${radius} ${ratio}`;
  if (!map.sprites.has(key)) map.sprites.set(key, drawSprite(k, flagged, radius, ratio));
  return map.sprites.get(key);
}

function drawSprite(k, flagged, radius, ratio) {
  const style = getComputedStyle(byId("map-canvas"));
  const size = Math.ceil(2 * (1.3 * radius + 4) * ratio);
  const image = el("canvas", { width: size, height: size });
  const pen = image.getContext("2d");
  pen.translate(size / 2, size / 2);
  pen.scale(radius * ratio, radius * ratio);
  const mark = audit.classes[k];
  pen.fillStyle = mark?.colour ?? style.getPropertyValue("--faint");
  pen.globalAlpha = mark ? (flagged ? 1 : 0.85) : 0.45;
  pen.fill(new Path2D(SHAPES[mark?.shape ?? "circle"]));
  if (flagged) {
    pen.lineWidth = 1.4 / radius;
    pen.strokeStyle = style.color;
    pen.beginPath();
    pen.arc(0, 0, 1.3 + 1.2 / radius, 0, 2 * Math.PI);
    pen.stroke();
  }
  return image;
}

function writeNames(pen, seen, radius, color) {
  pen.font = "12px system-ui, sans-serif";
  pen.fillStyle = color;
  for (const { i, x, y } of seen) pen.fillText(fitted(names[i], 140), x + radius + 5, y + 4);
}

function markChosen(pen, radius, color) {
  if (map.chosen === NO_NODE) return;
  const canvas = byId("map-canvas");
  const [placeX, placeY] = placeOnMap(map.chosen);
  const x = canvas.clientWidth / 2 + (placeX - map.x) * unit();
  const y = canvas.clientHeight / 2 + (placeY - map.y) * unit();
  pen.strokeStyle = color;
  pen.lineWidth = 2.5;
  pen.beginPath();
  pen.arc(x, y, radius + 9, 0, 2 * Math.PI);
  for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
    pen.moveTo(x + dx * (radius + 9), y + dy * (radius + 9));
    pen.lineTo(x + dx * (radius + 18), y + dy * (radius + 18));
  }
  pen.stroke();
  pen.font = "bold 13px system-ui, sans-serif";
  pen.fillStyle = color;
  pen.fillText(fitted(names[map.chosen], 220), x + radius + 22, y - radius - 4);
}

function nearest(x, y) {
  let [best, distance] = [NO_NODE, NEAR * NEAR];
  for (const point of inSight()) {
    const squared = (point.x - x) ** 2 + (point.y - y) ** 2;
    if (squared <= distance) [best, distance] = [point.i, squared];
  }
  return best;
}

// Drag moves, two fingers and Ctrl with the wheel zoom, a click opens.
function startGestures(canvas) {
  const fingers = new Map();
  let moved = false;
  const spread = () => {
    const [a, b] = [...fingers.values()];
    return Math.hypot(a.x - b.x, a.y - b.y);
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    moved = fingers.size > 1;
  });
  canvas.addEventListener("pointermove", (event) => {
    const finger = fingers.get(event.pointerId);
    const [x, y] = [event.offsetX, event.offsetY];
    if (!finger) { showTip(x, y); return; }
    if (Math.hypot(x - finger.x, y - finger.y) < 3 && !moved) return;
    moved = true;
    const before = fingers.size === 2 ? spread() : 0;
    const [dx, dy] = [x - finger.x, y - finger.y];
    fingers.set(event.pointerId, { x, y });
    if (fingers.size === 1) moveBy(-dx / unit(), -dy / unit());
    if (fingers.size === 2) zoomBy(spread() / Math.max(before, 1), x, y);
  });
  const lift = (event) => fingers.delete(event.pointerId);
  canvas.addEventListener("pointerup", (event) => {
    if (lift(event) && !moved) {
      const i = nearest(event.offsetX, event.offsetY);
      if (i !== NO_NODE) openFromMap(i);
    }
  });
  canvas.addEventListener("pointercancel", lift);
  canvas.addEventListener("pointerleave", () => { byId("map-tip").hidden = true; });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // else the page scrolls
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY / 200), event.offsetX, event.offsetY);
  }, { passive: false });
}

function showTip(x, y) {
  const tip = byId("map-tip");
  const i = nearest(x, y);
  tip.hidden = i === NO_NODE;
  byId("map-canvas").classList.toggle("over", i !== NO_NODE);
  if (i === NO_NODE) return;
  tip.replaceChildren(el("bdi", {}, names[i]), " ", chip(audit.given[i]),
    audit.flagged[i] ? el("span", { class: "flag" }, " flagged") : "");
  tip.style.left = `${Math.min(x + 12, byId("map-canvas").clientWidth - tip.offsetWidth - 4)}px`;
  tip.style.top = `${y + 14}px`;
}
