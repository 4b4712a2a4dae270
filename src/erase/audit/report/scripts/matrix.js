// The table of confused classes: one stop for the Tab key, arrow keys inside, a line that reads out.

function startMatrix() {
  const table = document.querySelector(".matrix");
  if (!table) return; // nothing is known of which classes are confused
  const readout = byId("matrix-cell");
  const rows = Array.from(table.tBodies[0].rows, (row) => Array.from(row.querySelectorAll("td")));
  let [row, column] = [0, 0];
  const moves = {
    ArrowUp: () => { row = Math.max(row - 1, 0); },
    ArrowDown: () => { row = Math.min(row + 1, rows.length - 1); },
    ArrowLeft: () => { column = Math.max(column - 1, 0); },
    ArrowRight: () => { column = Math.min(column + 1, rows.length - 1); },
    Home: () => { column = 0; },
    End: () => { column = rows.length - 1; },
  };

  const read = (cell) => { readout.textContent = cell.getAttribute("aria-label"); };

  rows[0][0].tabIndex = 0;
  table.addEventListener("keydown", (event) => {
    const move = moves[event.key];
    if (!move || event.target.tagName !== "TD") return;
    event.preventDefault();
    move();
    rows[row][column].focus();
  });
  rows.forEach((cells, r) => cells.forEach((cell, c) => {
    cell.addEventListener("mouseenter", () => read(cell));
    cell.addEventListener("focus", () => {
      rows[row][column].tabIndex = -1;
      [row, column] = [r, c];
      document.querySelector('.matrix td[tabindex="0"]')?.setAttribute("tabindex", "-1");
      cell.tabIndex = 0;
      read(cell);
    });
  }));
}
