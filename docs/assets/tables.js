// On a phone a row of a table with four or more columns is shown as a card: each cell gets the head of its column as a label.
for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
  const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
  if (heads.length >= 4) {
    table.dataset.cards = "";
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.cells].forEach((cell, column) => { cell.dataset.label = heads[column]; });
    }
  }
}
