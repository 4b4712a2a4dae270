// A node amid its neighbours: a small drawing in which every neighbour is a link.

const DRAWN = 25;
const RADIUS = 13;

// Up to 25 neighbours: labelled ones first, every label in proportion, the most trusted of each.
function tellingNeighbours(i) {
  const byClass = new Map();
  for (const j of neighboursOf(i)) {
    const k = audit.given[j];
    if (!byClass.has(k)) byClass.set(k, []);
    byClass.get(k).push(j);
  }
  const turns = [];
  for (const [k, members] of byClass) {
    members.sort((a, b) => audit.quality[b] - audit.quality[a] || a - b);
    members.forEach((j, n) => turns.push({ j, turn: (n + 0.5) / members.length + (k < 0 ? 1 : 0) }));
  }
  turns.sort((a, b) => a.turn - b.turn || a.j - b.j);
  return turns.slice(0, DRAWN).map(({ j }) => j);
}

// Neighbours of one label stand together: the rival's first, the given label's last.
function inGroups(nodes, given, rival) {
  const group = (j) => {
    const k = audit.given[j];
    if (k === rival) return -1;
    if (k < 0) return audit.classes.length;
    return k === given ? audit.classes.length + 1 : k;
  };
  return [...nodes].sort((a, b) => group(a) - group(b) || audit.quality[b] - audit.quality[a]);
}

function drawNeighbourhood(i, rival, width) {
  const nodes = inGroups(tellingNeighbours(i), audit.given[i], rival);
  const right = Math.ceil(nodes.length / 2);
  const halfHeight = Math.max(50, 14.5 * right);
  const halfWidth = Math.min(Math.max(width / 2 - 140, 55), 150); // names come first
  const [x, y] = [width / 2, halfHeight + 20];
  const space = width / 2 - halfWidth - RADIUS - 12; // for a name
  const spots = nodes.map((j, n) => {
    const onRight = n < right;
    const [place, of] = onRight ? [n, right] : [nodes.length - 1 - n, nodes.length - right];
    const height = (2 * (place + 0.5)) / of - 1; // -1 top, 1 bottom: names never overlap
    const across = halfWidth * Math.max(Math.sqrt(1 - height * height), 0.25);
    return { j, x: x + (onRight ? across : -across), y: y + height * halfHeight, onRight };
  });
  const spotOf = new Map(spots.map((spot) => [spot.j, spot]));
  return svg("svg", {
    class: "neighbourhood", width, height: 2 * y, viewBox: `0 0 ${width} ${2 * y}`, role: "group",
    "aria-label": `${names[i]} and ${counted(nodes.length, "neighbour")}`,
  },
  ...sideEdges(spots, spotOf, x, y),
  ...spots.map((spot) => spoke(spot, x, y)),
  symbol(i, x, y, 1.6 * RADIUS),
  ...spots.map((spot) => neighbourLink(spot, space)));
}

function spoke(spot, x, y) {
  const k = audit.given[spot.j];
  const line = svg("line", { class: "spoke", x1: x, y1: y, x2: spot.x, y2: spot.y });
  if (k < 0) line.setAttribute("stroke-dasharray", "3 4");
  else line.style.stroke = audit.classes[k].colour;
  return line;
}

// Edges between neighbours bend towards the middle.
function sideEdges(spots, spotOf, x, y) {
  return spots.flatMap((from) =>
    Array.from(neighboursOf(from.j))
      .filter((j) => j > from.j && spotOf.has(j))
      .map((j) => {
        const to = spotOf.get(j);
        const [bendX, bendY] = [(from.x + to.x + 2 * x) / 4, (from.y + to.y + 2 * y) / 4];
        return svg("path", {
          class: "side", d: `M${from.x},${from.y}Q${bendX},${bendY} ${to.x},${to.y}`,
        });
      }));
}

function neighbourLink(spot, space) {
  const { j } = spot;
  const doubt = audit.flagged[j] ? ", flagged itself" : "";
  return svg("a", {
    href: `#node=${audit.id[j]}`, "aria-label": `${names[j]}: ${className(audit.given[j])}${doubt}`,
  },
  svg("title", {}, `${names[j]}: ${className(audit.given[j])}${doubt}`),
  symbol(j, spot.x, spot.y, RADIUS),
  svg("text", {
    class: "name",
    x: spot.x + (spot.onRight ? 1 : -1) * (RADIUS + 6),
    y: spot.y + 4,
    "text-anchor": spot.onRight ? "start" : "end",
  }, fitted(names[j], space)));
}

// The shape, colour and code of the label of node i; a dashed ring where it is flagged.
function symbol(i, x, y, radius) {
  const mark = audit.classes[audit.given[i]];
  const outline = svg("path", {
    class: mark ? "shape" : "shape none",
    d: SHAPES[mark?.shape ?? "circle"],
    transform: `translate(${x},${y}) scale(${radius})`,
  });
  if (mark) outline.style.fill = mark.colour;
  const drop = { triangle: 0.25, wedge: -0.25 }[mark?.shape] ?? 0; // the middle of the shape
  const code = svg("text", {
    class: "code-text", x, y: y + (drop + 0.28) * radius, "font-size": 0.78 * radius,
    "text-anchor": "middle",
  }, mark?.code ?? "?");
  if (mark) {
    code.style.fill = mark.ink;
    code.style.stroke = mark.colour; // around the letters, where the shape is narrower than they
  }
  const ring = audit.flagged[i]
    ? [svg("circle", { class: "ring", cx: x, cy: y, r: 1.28 * radius })] : [];
  return svg("g", { "aria-hidden": "true" }, outline, code, ...ring);
}

// The text, its middle cut out where it is wider than so many pixels.
function fitted(text, pixels) {
  fitted.pen ??= document.createElement("canvas").getContext("2d");
  fitted.pen.font = "12px system-ui, sans-serif";
  const width = fitted.pen.measureText(text).width;
  if (width <= pixels) return text;
  const letters = Array.from(text);
  const kept = Math.max(Math.floor((letters.length * pixels) / width) - 1, 2);
  const head = Math.ceil(kept / 2);
  return `${letters.slice(0, head).join("")}…${letters.slice(head - kept).join("")}`;
}
