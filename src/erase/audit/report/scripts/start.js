// The address names what is open: #node=12 a node, #map=12 a node on the map. Back goes back.

function follow() {
  const [, what, number] = location.hash.match(/^#(node|map)=(\d+)$/) ?? [];
  const i = placeOf.get(Number(number));
  if (what === "node") {
    if (i === undefined) openMissing(number);
    else openNode(i);
    return;
  }
  closeNode();
  if (what === "map" && i !== undefined) {
    showOnMap(i);
    byId("map").scrollIntoView();
    byId("map-canvas").focus({ preventScroll: true });
  }
  beforeNode = location.hash || "#labels";
}

startMatrix();
startList();
startNode();
startMap();
addEventListener("hashchange", follow);
follow();
document.documentElement.dataset.ready = "true";
