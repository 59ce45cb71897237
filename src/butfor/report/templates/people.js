/* The list of people: sort, filter, search. It is read from <noscript>; only rows in view are drawn. */
(() => {
  "use strict";
  const SHORT = 300, AROUND = 40; // rows drawn whole; rows drawn beyond the view in longer lists
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
  let sorted = -1, down = false, printing = false, chosen = people, height = 30;

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
    if (wanted) { if (!one.cells.slice(0, 2).some((cell) => cell.toLowerCase().includes(wanted))) return false; }
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

  /* The rows in view between two empty ones that are as high as the rows before and after them. */
  function draw() {
    const whole = printing || chosen.length <= SHORT;
    const from = whole ? 0 : Math.max(0, Math.floor(place.scrollTop / height) - AROUND);
    const to = whole ? chosen.length : Math.min(chosen.length, from + Math.ceil(place.clientHeight / height) + 2 * AROUND);
    body.innerHTML = chosen.slice(from, to).map((one) => one.html).join("");
    const gap = (rows) => { const row = made("tr"); row.style.height = rows * height + "px"; return row; };
    if (!whole) { body.prepend(gap(from)); body.append(gap(chosen.length - to)); }
  }
  function show() {
    chosen = people.filter(asked).sort(compare);
    place.scrollTop = 0;
    place.classList.toggle("long", chosen.length > SHORT);
    draw();
    if (body.rows[1]) height = body.rows[1].getBoundingClientRect().height || height;
    for (const head of heads) head.removeAttribute("aria-sort");
    if (sorted >= 0) heads[sorted].setAttribute("aria-sort", down ? "descending" : "ascending");
    const of = chosen.length === people.length ? "All " + people.length : chosen.length + " of " + people.length;
    count.textContent =
      of + " people" + (sorted < 0 ? "" : ", sorted by " + names[sorted] + (down ? ", largest first" : ", smallest first")) + ".";
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
  let drawing = 0;
  place.addEventListener("scroll", () => {
    if (chosen.length > SHORT) drawing ||= requestAnimationFrame(() => { drawing = 0; draw(); });
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
  // Paper does not scroll: print everybody chosen.
  const print = (now) => { printing = now; place.classList.toggle("long", !now && chosen.length > SHORT); draw(); };
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
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
