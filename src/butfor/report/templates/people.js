/* The list of people: sort, filter, search, choose columns. Without this script the whole list is there to read. */
(() => {
  "use strict";
  const place = document.getElementById("people-list");
  if (!place) return;
  const MOST = 300; // rows shown before "more" is asked for
  const table = place.querySelector("table");
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells], names = heads.map((head) => head.textContent);
  const people = [...body.rows].map((row, order) => ({ row, order, cells: [...row.cells].map((c) => c.textContent) }));

  const tools = document.getElementById("people-tools"), count = document.getElementById("people-count");
  const part = (name) => tools.elements.namedItem(name);
  const made = (tag, text, attributes = {}) => {
    const element = Object.assign(document.createElement(tag), attributes);
    element.textContent = text;
    return element;
  };
  const number = (text) => (text === "" ? NaN : Number(text.replace("−", "-")));
  const byText = new Intl.Collator(undefined, { numeric: true }).compare;

  // --- what can be chosen ---
  const choices = [...tools.querySelectorAll("select[data-column]")];
  for (const choice of choices) {
    const column = Number(choice.dataset.column);
    const values = new Set(people.flatMap((one) => one.cells[column].split(choice.dataset.apart || "\n")));
    for (const value of [...values].sort(byText)) choice.append(new Option(value || "(none)", value || "\n"));
  }

  // --- sorting ---
  let sorted = -1, down = false, most = MOST;
  heads.forEach((head, k) => {
    const button = made("button", names[k], { type: "button", title: "Sort by " + names[k] });
    button.addEventListener("click", () => {
      down = sorted === k && !down;
      sorted = k;
      show();
    });
    head.replaceChildren(button);
  });
  const compare = (one, other) => {
    if (sorted < 0) return one.order - other.order;
    const a = one.cells[sorted], b = other.cells[sorted];
    if ((a === "") !== (b === "")) return a === "" ? 1 : -1; // whoever has no value comes last, either way
    const x = number(a), y = number(b);
    const order = Number.isNaN(x) || Number.isNaN(y) ? byText(a, b) : x - y;
    return (down ? -order : order) || one.order - other.order;
  };

  // --- filtering ---
  const asked = (one) => {
    const text = part("id").value.trim().toLowerCase();
    if (text && !one.cells.slice(0, 2).some((cell) => cell.toLowerCase().includes(text))) return false;
    const least = part("distance").value;
    if (least !== "" && !(number(one.cells[Number(part("distance").dataset.column)]) <= Number(least))) return false;
    return choices.every((choice) => {
      const cell = one.cells[Number(choice.dataset.column)];
      if (choice.value === "") return true;
      return choice.value === "\n" ? cell === "" : cell.split(choice.dataset.apart || "\n").includes(choice.value);
    });
  };

  const more = made("button", "", { type: "button", className: "more" });
  const all = made("button", "Show all of them", { type: "button", className: "more" });
  place.after(more, all);

  function show() {
    const chosen = people.filter(asked).sort(compare);
    const shown = chosen.slice(0, most);
    body.replaceChildren(...shown.map((one) => one.row));
    heads.forEach((head, k) => {
      if (k === sorted) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    const left = chosen.length - shown.length;
    more.textContent = "Show " + Math.min(left, MOST) + " more";
    more.hidden = all.hidden = left === 0;
    const of = chosen.length === people.length ? "All " + people.length : chosen.length + " of " + people.length;
    count.textContent =
      of + " people" + (left ? ", the first " + shown.length + " of them listed" : "") +
      (sorted < 0 ? "" : ", sorted by " + names[sorted] + (down ? ", largest first" : ", smallest first")) + ".";
  }

  // Paper has no button to ask for more: whoever is chosen is printed, all of them.
  let before = most;
  addEventListener("beforeprint", () => { before = most; most = Infinity; show(); });
  addEventListener("afterprint", () => { most = before; show(); });
  more.addEventListener("click", () => { most += MOST; show(); });
  all.addEventListener("click", () => { most = Infinity; show(); });
  tools.addEventListener("submit", (event) => event.preventDefault());
  const heed = () => { most = MOST; show(); };
  tools.addEventListener("input", heed);
  // Not of text: leaving a field by a click on a row would move that row away from under the click.
  for (const choice of choices) choice.addEventListener("change", heed);
  // The form's own reset comes after its event: asked for here, it is over before the list is drawn again.
  tools.querySelector("[type=reset]").addEventListener("click", (event) => {
    event.preventDefault();
    tools.reset();
    sorted = -1;
    most = MOST;
    show();
  });
  tools.hidden = false;
  show();

  // #case-12 leads to that person, also where everybody has a file.
  const lead = () => {
    const name = decodeURIComponent(location.hash.slice(1));
    const file = "/" + name + ".html";
    const links = document.getElementById(name) ? [] : people.map((one) => one.row.querySelector("a"));
    const own = name && links.find((link) => link.getAttribute("href").endsWith(file));
    if (own) location.replace(own.href);
  };
  addEventListener("hashchange", lead);
  lead();
})();
