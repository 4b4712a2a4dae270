// What the page of an audit knows, from the JSON inside it.

const audit = readAudit(document.getElementById("data"));
const names = nodeNames(audit);
const sought = names.map((name) => name.toLowerCase());
const placeOf = new Map(Array.from(audit.id, (id, i) => [id, i]));
const rankOf = inverse(audit.ranked, audit.id.length);
const graph = adjacency(audit.edgeCount, audit.edgeTo);
