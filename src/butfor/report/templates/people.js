/* The list of people: sort, filter, search. */
(() => {
  "use strict";
  const made = (tag, known) => Object.assign(document.createElement(tag), known);
  const tools = document.getElementById("people-tools"), count = document.getElementById("people-count"), filters = [];
  const search = tools.querySelector("input"), reset = tools.querySelector("[type=reset]");
  const table = document.querySelector("#people-list table"), body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells], names = heads.map((head) => head.textContent);
  const people = [...body.rows].map((row, order) => ({ row, order, cells: [...row.cells].map((td) => td.textContent.trim()) }));
  const number = (cell) => (cell === "" ? NaN : Number(cell.replace("−", "-")));
  const byText = new Intl.Collator(undefined, { numeric: true }).compare;
  const parts = (cell) => cell.split(", ").map((part) => part || "(none)");
  let sorted = -1, down = false;

  heads.forEach((head, k) => {
    const button = made("button", { type: "button", title: "Sort by " + names[k], textContent: names[k] });
    button.addEventListener("click", () => {
      down = sorted === k && !down;
      sorted = k;
      show();
    });
    head.replaceChildren(button);
    const values = "filter" in head.dataset ? [...new Set(people.flatMap((one) => parts(one.cells[k])))].sort(byText) : [];
    if (values.length < 2) return;
    const field = made("select", { name: "column-" + k }), label = made("label", { textContent: names[k] + " " });
    field.append(new Option("all", ""), ...values.map((value) => new Option(value, value)));
    // Not of text: leaving a field by a click on a row would move that row away from under the click.
    field.addEventListener("change", show);
    label.append(field);
    reset.before(label);
    filters.push({ k, field });
  });

  function asked(one) {
    if (!one.cells[0].toLowerCase().includes(search.value.trim().toLowerCase())) return false;
    return filters.every(({ k, field }) => field.value === "" || parts(one.cells[k]).includes(field.value));
  }
  function compare(one, other) {
    const a = one.cells[sorted], b = other.cells[sorted];
    if (sorted < 0 || a === b) return one.order - other.order;
    if (a === "" || b === "") return a === "" ? 1 : -1; // people without a value come last, in either order
    const x = number(a), y = number(b), order = Number.isNaN(x) || Number.isNaN(y) ? byText(a, b) : x - y;
    return (down ? -order : order) || one.order - other.order;
  }
  function show() {
    const chosen = people.filter(asked).sort(compare);
    body.replaceChildren(...chosen.map((one) => one.row));
    for (const head of heads) head.removeAttribute("aria-sort");
    if (sorted >= 0) heads[sorted].setAttribute("aria-sort", down ? "descending" : "ascending");
    const of = chosen.length === people.length ? "All " + people.length : chosen.length + " of " + people.length;
    const order = sorted < 0 ? "" : ", sorted by " + names[sorted] + (down ? ", largest first" : ", smallest first");
    count.textContent = of + " people listed" + order + ".";
  }

  tools.addEventListener("submit", (event) => event.preventDefault());
  tools.addEventListener("input", show);
  reset.addEventListener("click", (event) => {
    event.preventDefault(); // the form's own reset comes after its event
    tools.reset();
    sorted = -1;
    show();
  });
  tools.hidden = false;
})();
