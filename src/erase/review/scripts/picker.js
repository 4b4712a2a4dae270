// Choose a class by typing a part of its name.

let options = []; // classes that match, the most probable first
let chosen = 0;

function openPicker() {
  if (!current) return;
  byId("picker-filter").value = "";
  listOptions();
  byId("picker").showModal();
  byId("picker-filter").focus();
}

function listOptions() {
  const wanted = byId("picker-filter").value.trim().toLowerCase();
  const share = new Map(likelyClasses(0).map((likely) => [likely.k, likely.share]));
  options = review.classes
    .map((mark, k) => ({ k, name: mark.name, share: share.get(k) ?? 0 }))
    .filter(({ name }) => name.toLowerCase().includes(wanted))
    .sort((a, b) => starts(b.name, wanted) - starts(a.name, wanted) || b.share - a.share
      || a.name.localeCompare(b.name));
  chosen = 0;
  byId("picker-list").replaceChildren(...options.map(({ k, share: value }, place) =>
    el("li", { role: "option", id: `option-${place}`, "data-k": k }, chip(k),
      el("span", { class: "quiet" }, value ? percent(value) : ""))));
  markOption();
}

function starts(name, wanted) {
  return wanted && name.toLowerCase().startsWith(wanted) ? 1 : 0;
}

function markOption() {
  Array.from(byId("picker-list").children, (option, place) => {
    option.setAttribute("aria-selected", place === chosen);
    if (place === chosen) option.scrollIntoView({ block: "nearest" });
  });
  byId("picker-filter").setAttribute("aria-activedescendant", options.length ? `option-${chosen}` : "");
}

function pick(k) {
  byId("picker").close();
  decide(k);
}

function startPicker() {
  byId("picker-close").addEventListener("click", () => byId("picker").close());
  byId("picker-filter").addEventListener("input", listOptions);
  byId("picker-filter").addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && options.length) {
      event.preventDefault();
      chosen = (chosen + step + options.length) % options.length;
      markOption();
    } else if (event.key === "Enter" && options.length) {
      event.preventDefault();
      pick(options[chosen].k);
    }
  });
  byId("picker-list").addEventListener("click", (event) => {
    const option = event.target.closest("[data-k]");
    if (option) pick(Number(option.dataset.k));
  });
}
