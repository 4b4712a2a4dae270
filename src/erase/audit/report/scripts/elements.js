// Elements of the document. Texts become text nodes: no name can be taken for HTML.

// Outlines of the shapes of classes, in a square from -1 to 1; the map and the drawings share them.
const SHAPES = {
  circle: "M0,-.9A.9,.9 0 1 1 0,.9A.9,.9 0 1 1 0,-.9Z",
  square: "M-.82,-.82H.82V.82H-.82Z",
  triangle: "M0,-1.2L1.2,.9H-1.2Z",
  diamond: "M0,-1.15L1.15,0L0,1.15L-1.15,0Z",
  cross: "M-.5,-1.05H.5V-.5H1.05V.5H.5V1.05H-.5V.5H-1.05V-.5H-.5Z",
  wedge: "M0,1.2L1.2,-.9H-1.2Z",
  star: starPath(5, 1.3, 0.7),
};

function starPath(points, outer, inner) {
  const corners = Array.from({ length: 2 * points }, (_, k) => {
    const angle = (k / points - 0.5) * Math.PI;
    const radius = k % 2 ? inner : outer;
    return `${(radius * Math.cos(angle)).toFixed(3)},${(radius * Math.sin(angle)).toFixed(3)}`;
  });
  return `M${corners.join("L")}Z`;
}

function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function byId(id) {
  return document.getElementById(id);
}

// The code of class k on its colour; its name stands beside it.
function codeOf(k) {
  if (k < 0) return el("span", { class: "code none", "aria-hidden": "true" }, "?");
  const { code, colour, ink } = audit.classes[k];
  const mark = el("span", { class: "code", "aria-hidden": "true" }, code);
  mark.style.setProperty("--class", colour);
  mark.style.setProperty("--ink", ink);
  return mark;
}

function chip(k) {
  return el("span", { class: "chip" }, codeOf(k), el("bdi", {}, className(k)));
}

function nodeLink(i, attributes = {}) {
  return el("a", { href: `#node=${audit.id[i]}`, ...attributes }, el("bdi", {}, names[i]));
}

// A small bar; the number beside it says the same to screen readers.
function meter(share, colour = null) {
  const fill = el("span");
  fill.style.width = `${100 * (Number.isNaN(share) ? 0 : Math.max(0, Math.min(share, 1)))}%`;
  if (colour) fill.style.background = colour;
  return el("span", { class: "meter", "aria-hidden": "true" }, fill);
}

// Call `action` once the events have paused.
function afterPause(action, milliseconds = 120) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(action, milliseconds);
  };
}
