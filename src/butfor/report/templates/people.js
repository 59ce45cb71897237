/* The list of people: sort, filter, search. It is read from <noscript>; long lists are drawn in part. */
(() => {
  "use strict";
  const FIRST = 500; // rows of a longer list that are drawn before somebody asks for all
  const place = document.getElementById("people-list"), source = place.firstElementChild.textContent;
  const tools = document.getElementById("people-tools"), count = document.getElementById("people-count");
  const begin = source.indexOf("<tbody>"), first = Number(place.dataset.first);
  const plain = document.createElement("textarea");
  const text = (html) => {
    const bare = html.replace(/<[^>]*>/g, "");
    if (!bare.includes("&")) return bare;
    plain.innerHTML = bare; // never run, never drawn: entities become text
    return plain.value;
  };
  const rows = source.slice(begin + 7, source.indexOf("</tbody>")).trim().split("\n").filter(Boolean);
  const people = rows.map((html, order) => ({ html, order, cells: html.split(/<t[hd]>/).slice(1).map(text) }));
  place.innerHTML = source.slice(0, begin) + "<tbody></tbody></table>";
  const table = place.firstElementChild, body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells], names = heads.map((head) => head.textContent);
  const made = (tag, known) => Object.assign(document.createElement(tag), known);
  const number = (cell) => (cell === "" ? NaN : Number(cell.replace("−", "-")));
  const byText = new Intl.Collator(undefined, { numeric: true }).compare;
  const parts = (cell) => cell.split(", ").map((part) => part || "(none)");
  let sorted = -1, down = false, whole = false, chosen = people;

  const search = tools.querySelector("input"), reset = tools.querySelector("[type=reset]"), filters = [];
  heads.forEach((head, k) => {
    const kind = head.dataset.filter, label = made("label", { textContent: names[k] + (kind === "most" ? " at most " : " ") });
    if (!kind) return;
    let field, fits;
    if (kind === "most") {
      field = made("input", { type: "number", name: "labels", min: 1, step: 1 });
      fits = (cell) => number(cell) <= Number(field.value);
    } else {
      const values = new Set(people.flatMap((one) => parts(one.cells[k])));
      if (values.size < 2) return;
      field = made("select", { name: "column-" + k });
      field.append(new Option("all", ""), ...[...values].sort(byText).map((value) => new Option(value, value)));
      fits = (cell) => parts(cell).includes(field.value);
    }
    label.append(field);
    reset.before(label);
    filters.push({ k, field, fits });
  });
  const rest = made("input", { type: "checkbox", name: "rest", checked: !first });
  if (first && first < people.length) {
    const label = made("label", { className: "check" });
    label.append(rest, " also the " + (people.length - first) + " not audited");
    reset.before(label);
  } else rest.checked = true;

  const asked = (one) => {
    const wanted = search.value.trim().toLowerCase();
    if (wanted) { if (!one.cells[0].toLowerCase().includes(wanted)) return false; }
    else if (!rest.checked && one.order >= first) return false;
    return filters.every(({ k, field, fits }) => field.value === "" || fits(one.cells[k]));
  };
  const compare = (one, other) => {
    if (sorted < 0) return one.order - other.order;
    const a = one.cells[sorted], b = other.cells[sorted];
    if ((a === "") !== (b === "")) return a === "" ? 1 : -1; // people without a value come last, in either order
    const x = number(a), y = number(b);
    const order = Number.isNaN(x) || Number.isNaN(y) ? byText(a, b) : x - y;
    return (down ? -order : order) || one.order - other.order;
  };

  function show() {
    chosen = people.filter(asked).sort(compare);
    const drawn = whole ? chosen : chosen.slice(0, FIRST);
    body.innerHTML = drawn.map((one) => one.html).join("");
    for (const head of heads) head.removeAttribute("aria-sort");
    if (sorted >= 0) heads[sorted].setAttribute("aria-sort", down ? "descending" : "ascending");
    const of = chosen.length === people.length ? "All " + people.length : chosen.length + " of " + people.length;
    const order = sorted < 0 ? "" : ", sorted by " + names[sorted] + (down ? ", largest first" : ", smallest first");
    count.textContent = of + " people" + order + (drawn.length < chosen.length ? "; the first " + FIRST + " are shown. " : ".");
    if (drawn.length < chosen.length) {
      const more = made("button", { type: "button", textContent: "Show all" });
      more.addEventListener("click", () => { whole = true; show(); });
      count.append(more);
    }
  }

  heads.forEach((head, k) => {
    const button = made("button", { type: "button", title: "Sort by " + names[k], textContent: names[k] });
    button.addEventListener("click", () => {
      down = sorted === k && !down;
      sorted = k;
      show();
    });
    head.replaceChildren(button);
  });
  tools.addEventListener("submit", (event) => event.preventDefault());
  tools.addEventListener("input", show);
  // Not of text: leaving a field by a click on a row would move that row away from under the click.
  for (const { field } of filters) if (field.options) field.addEventListener("change", show);
  // The form's own reset comes after its event: asked for here, it is over before the list is drawn again.
  reset.addEventListener("click", (event) => {
    event.preventDefault();
    tools.reset();
    sorted = -1;
    show();
  });
  addEventListener("beforeprint", () => { whole = true; show(); }); // paper does not ask for more
  tools.hidden = false;
  show();

  // #case-12 leads to that person, also where everybody has a file.
  const lead = () => {
    const name = decodeURIComponent(location.hash.slice(1));
    const own = name && !document.getElementById(name) && people.find((one) => one.html.includes("/" + name + '.html"'));
    if (own) location.replace(own.html.match(/href="([^"]*)"/)[1]);
  };
  addEventListener("hashchange", lead);
  lead();
})();
