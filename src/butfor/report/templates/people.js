/* The list of people: sort, filter, search. Without this script the whole list is there to read. */
(() => {
  "use strict";
  const MOST = 300; // rows shown before all are asked for
  const place = document.getElementById("people-list"), table = place.querySelector("table"), body = table.tBodies[0];
  const tools = document.getElementById("people-tools"), count = document.getElementById("people-count");
  const heads = [...table.tHead.rows[0].cells], names = heads.map((head) => head.textContent);
  const people = [...body.rows].map((row, order) => ({ row, order, cells: [...row.cells].map((c) => c.textContent) }));
  const [search, distance] = tools.querySelectorAll("input"), choices = [...tools.querySelectorAll("select")];
  const all = Object.assign(document.createElement("button"), { type: "button", className: "more" });
  const number = (text) => (text === "" ? NaN : Number(text.replace("−", "-")));
  const byText = new Intl.Collator(undefined, { numeric: true }).compare;
  let sorted = -1, down = false, most = MOST;

  const parts = (one, { dataset }) =>
    one.cells[dataset.column].split(dataset.apart || "\n").map((part) => part || "(none)");
  for (const choice of choices) {
    const values = new Set(people.flatMap((one) => parts(one, choice)));
    for (const value of [...values].sort(byText)) choice.append(new Option(value, value));
  }
  const asked = (one) => {
    const text = search.value.trim().toLowerCase();
    if (text && !one.cells.slice(0, 2).some((cell) => cell.toLowerCase().includes(text))) return false;
    if (distance.value !== "" && !(number(one.cells[distance.dataset.column]) <= Number(distance.value))) return false;
    return choices.every((choice) => choice.value === "" || parts(one, choice).includes(choice.value));
  };
  const compare = (one, other) => {
    if (sorted < 0) return one.order - other.order;
    const a = one.cells[sorted], b = other.cells[sorted];
    if ((a === "") !== (b === "")) return a === "" ? 1 : -1; // whoever has no value comes last, either way
    const x = number(a), y = number(b);
    const order = Number.isNaN(x) || Number.isNaN(y) ? byText(a, b) : x - y;
    return (down ? -order : order) || one.order - other.order;
  };

  function show(limit) {
    most = limit;
    const chosen = people.filter(asked).sort(compare), shown = chosen.slice(0, most);
    body.replaceChildren(...shown.map((one) => one.row));
    for (const head of heads) head.removeAttribute("aria-sort");
    if (sorted >= 0) heads[sorted].setAttribute("aria-sort", down ? "descending" : "ascending");
    all.hidden = shown.length === chosen.length;
    all.textContent = "Show all " + chosen.length;
    const of = chosen.length === people.length ? "All " + people.length : chosen.length + " of " + people.length;
    count.textContent =
      of + " people" + (all.hidden ? "" : ", the first " + shown.length + " of them listed") +
      (sorted < 0 ? "" : ", sorted by " + names[sorted] + (down ? ", largest first" : ", smallest first")) + ".";
  }

  heads.forEach((head, k) => {
    const button = Object.assign(document.createElement("button"), { type: "button", title: "Sort by " + names[k] });
    button.textContent = names[k];
    button.addEventListener("click", () => {
      down = sorted === k && !down;
      sorted = k;
      show(most);
    });
    head.replaceChildren(button);
  });
  place.after(all);
  all.addEventListener("click", () => show(Infinity));
  tools.addEventListener("submit", (event) => event.preventDefault());
  tools.addEventListener("input", () => show(MOST));
  // Not of text: leaving a field by a click on a row would move that row away from under the click.
  for (const choice of choices) choice.addEventListener("change", () => show(MOST));
  // The form's own reset comes after its event: asked for here, it is over before the list is drawn again.
  tools.querySelector("[type=reset]").addEventListener("click", (event) => {
    event.preventDefault();
    tools.reset();
    sorted = -1;
    show(MOST);
  });
  // Paper has no button to ask for more: whoever is chosen is printed, all of them.
  let before = most;
  addEventListener("beforeprint", () => { before = most; show(Infinity); });
  addEventListener("afterprint", () => show(before));
  tools.hidden = false;
  show(MOST);

  // #case-12 leads to that person, also where everybody has a file.
  const lead = () => {
    const name = decodeURIComponent(location.hash.slice(1));
    const links = name && !document.getElementById(name) ? people.map((one) => one.row.querySelector("a")) : [];
    const own = links.find((link) => link.getAttribute("href").endsWith("/" + name + ".html"));
    if (own) location.replace(own.href);
  };
  addEventListener("hashchange", lead);
  lead();
})();
